"""What holders, sources and owners do with a job: every operation from every status, by everybody."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock.domain.lifecycle import BY_OPERATION, STATUSES, allowed_now, permits

BODIES: dict[str, dict[str, Any]] = {
    "complete": {}, "fail": {"reason": "why"}, "block": {"reason": "why"}, "unblock": {"reason": "why"}, "resume": {},
    "release": {}, "restart": {}, "retry": {}, "stop": {"reason": "why"}, "cancel": {"reason": "why"},
}  # fmt: skip
WITH_FENCE = ("complete", "fail", "block", "unblock", "resume", "release", "cancel")
BY_HOLDER = ("complete", "fail", "block", "unblock", "resume", "release", "cancel", "restart")
BY_OWNER = ("unblock", "retry", "stop", "cancel")
HELD = ("in_progress", "blocked", "unblocked")
NEED_A_DECISION = ("answer", "withdraw")


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def send(
    w: CheckedWorld, job: str, verb: str, token: str = "agent", fence: int | None = None, **more: Any
) -> Any:
    body = {**BODIES[verb], **more.pop("body", {})}
    if fence is not None:
        body["fence"] = fence
    return w.call("POST", f"P/jobs/{job}/{verb}", body, token=token, **more)


# ---- every operation from every status


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("verb", BY_HOLDER)
def test_the_holder(w: CheckedWorld, verb: str, status: str) -> None:
    job, fence = w.job_in(status)
    before = w.everything()
    reply = send(w, job, verb, fence=fence if verb in WITH_FENCE else None)
    ever_held = status in (*HELD, "completed", "failed")
    if permits(verb, status) and ever_held:
        assert reply.status == 200, reply.body
        assert w.get(job)["status"] in BY_OPERATION[verb].targets
        return
    assert reply.status in (403, 409)
    assert w.everything() == before
    if ever_held:
        assert reply.code == "wrong_state"
        assert reply.body["job_status"] == status
        allowed = [name for name in allowed_now(status) if name not in NEED_A_DECISION]
        assert reply.body["allowed"] == allowed
        assert all(name in reply.body["detail"] for name in allowed)
    else:
        assert reply.code == ("not_holder" if verb == "restart" else "lease_lost")


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("verb", BY_OWNER)
def test_an_owner(w: CheckedWorld, verb: str, status: str) -> None:
    job, _ = w.job_in(status)
    before = w.everything()
    reply = send(w, job, verb, "owner")
    if permits(verb, status):
        assert reply.status == 200, reply.body
        assert w.get(job)["status"] in BY_OPERATION[verb].targets
        assert w.types(job)[-1] == BY_OPERATION[verb].event
    else:
        assert reply.code == "wrong_state"
        assert w.everything() == before


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("verb", BODIES)
def test_another_agent(w: CheckedWorld, verb: str, status: str) -> None:
    w.enrol("b")
    job, fence = w.job_in(status)
    before = w.everything()
    reply = send(w, job, verb, "b", fence if verb in WITH_FENCE else None)
    assert w.everything() == before
    if verb in ("retry", "stop"):
        assert reply.code == "forbidden"
    elif verb == "restart" or status in (*HELD, "completed", "failed"):
        assert reply.code == "not_holder", "the right fence from somebody else"
    else:
        assert reply.code == "lease_lost"


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("verb", WITH_FENCE)
def test_a_stale_fence(w: CheckedWorld, verb: str, status: str) -> None:
    job, fence = w.job_in(status)
    before = w.everything()
    for wrong in (fence + 7, fence - 1):
        if wrong >= 1:
            assert send(w, job, verb, fence=wrong).code == "lease_lost"
    assert w.everything() == before


@pytest.mark.parametrize("verb", WITH_FENCE)
def test_a_fence_is_needed_from_the_holder(w: CheckedWorld, verb: str) -> None:
    job, _ = w.job_in("blocked" if verb in ("unblock", "resume") else "in_progress")
    refused = w.refused("invalid", "POST", f"P/jobs/{job}/{verb}", BODIES[verb])
    assert [error["path"] for error in refused.body["errors"]] == ["fence"]


@pytest.mark.parametrize("verb", ["complete", "fail", "block", "resume", "release", "restart"])
def test_owners_do_not_act_as_holders(w: CheckedWorld, verb: str) -> None:
    job, fence = w.job_in("in_progress")
    w.refused("forbidden", "POST", f"P/jobs/{job}/{verb}", {**BODIES[verb], "fence": fence}, token="owner")


@pytest.mark.parametrize("status", STATUSES)
def test_the_source_cancels_while_nobody_holds_the_job(w: CheckedWorld, status: str) -> None:
    w.enrol("source")
    job, _ = w.job_in(status, token="source")
    reply = send(w, job, "cancel", "source")
    if status in ("pending", "published"):
        assert reply.body["job"]["status"] == "cancelled"
    else:
        assert reply.code == ("not_holder" if status in HELD else "wrong_state")


def test_a_stranger_cancels_nothing(w: CheckedWorld) -> None:
    w.enrol("b")
    for status in STATUSES:
        job, _ = w.job_in(status)
        w.refused("forbidden", "POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="b")


# ---- what they leave


@pytest.mark.parametrize(
    ("verb", "field"), [("fail", "failure_reason"), ("block", "blocked_reason"), ("cancel", "cancel_reason")]
)
def test_reasons_stand_on_the_job_until_a_later_status(w: CheckedWorld, verb: str, field: str) -> None:
    job, fence = w.job_in("in_progress")
    shown = send(w, job, verb, fence=fence, body={"reason": "because é\0"}).body["job"]
    assert shown[field] == "because é\0"
    stamp = {"fail": "failed_at", "block": "blocked_at", "cancel": "cancelled_at"}[verb]
    assert shown[stamp] == shown["updated_at"]


def test_a_later_status_clears_the_earlier_reasons_and_the_ledger_keeps_them(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    send(w, job, "block", fence=fence, body={"reason": "b", "data": {"n": 1}})
    shown = send(w, job, "unblock", "owner", body={"reason": "u"}).body["job"]
    assert (shown["blocked_reason"], shown["unblock_reason"]) == (None, "u")
    resumed = send(w, job, "resume", fence=fence).body
    assert (resumed["job"]["unblock_reason"], resumed["claim"]["fence"]) == (None, fence)
    send(w, job, "fail", fence=fence, body={"reason": "f", "data": [1]})
    shown = send(w, job, "retry", "owner").body["job"]
    assert (shown["failure_reason"], shown["failed_at"], shown["last_failure"]["reason"]) == (None, None, "f")
    w.dispatch()
    data = {event["type"]: event["data"] for event in w.ok("GET", f"P/jobs/{job}/events")["items"]}
    assert data["job.blocked"] == {"fence": fence, "blocked_reason": "b", "data": {"n": 1}}
    assert data["job.unblocked"] == {"unblock_reason": "u"}
    assert data["job.failed"] == {"fence": fence, "failure_reason": "f", "data": [1]}
    assert data["job.retried"] == {"retry_count": 1}


def test_the_holder_may_resume_a_blocked_job_at_once(w: CheckedWorld) -> None:
    job, fence = w.job_in("blocked")
    assert send(w, job, "resume", fence=fence).body["claim"]["expires_in"] == 1800
    assert send(w, job, "complete", fence=fence).status == 200


def test_release_reason_is_optional(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    assert send(w, job, "release", fence=fence).body["job"]["status"] == "published"
    fence = w.claim(job)
    send(w, job, "release", fence=fence, body={"reason": "tired"})
    w.dispatch()
    events = [e for e in w.ok("GET", f"P/jobs/{job}/events")["items"] if e["type"] == "job.released"]
    assert [event["data"] for event in events] == [{"fence": 1}, {"fence": 3, "reason": "tired"}]


def test_restart_takes_a_new_fence_and_spends_a_retry(w: CheckedWorld) -> None:
    job, fence = w.job_in("failed", max_retries=1)
    answer = send(w, job, "restart").body
    assert answer["claim"]["fence"] == fence + 1
    assert (answer["job"]["status"], answer["job"]["retry_count"]) == ("in_progress", 1)
    assert send(w, job, "complete", fence=fence).code == "lease_lost"
    send(w, job, "fail", fence=fence + 1)
    w.refused("retries_spent", "POST", f"P/jobs/{job}/restart", {})
    w.refused("retries_spent", "POST", f"P/jobs/{job}/retry", {}, token="owner")


def test_an_owner_raises_the_budget_with_a_retry(w: CheckedWorld) -> None:
    job, _ = w.job_in("failed", max_retries=0)
    w.refused("retries_spent", "POST", f"P/jobs/{job}/retry", {}, token="owner")
    w.refused("retries_spent", "POST", f"P/jobs/{job}/retry", {"max_retries": 0}, token="owner")
    shown = send(w, job, "retry", "owner", body={"max_retries": 2}).body["job"]
    assert (shown["status"], shown["retry_count"], shown["max_retries"], shown["attempt"]) == (
        "published",
        1,
        2,
        2,
    )


@pytest.mark.parametrize("then", ["publish", "fail", "cancel"])
def test_stop(w: CheckedWorld, then: str) -> None:
    job, fence = w.job_in("in_progress")
    shown = send(w, job, "stop", "owner", body={"reason": "wrong way", "then": then}).body["job"]
    assert shown["status"] == {"publish": "published", "fail": "failed", "cancel": "cancelled"}[then]
    assert shown["assignee"] is None
    for verb in WITH_FENCE:
        refused = w.refused(
            "stop_requested", "POST", f"P/jobs/{job}/{verb}", {**BODIES[verb], "fence": fence}
        )
        assert shown["status"] in refused.body["detail"]
    w.refused("not_holder", "POST", f"P/jobs/{job}/restart", {})


def test_stop_publishes_unless_told_otherwise_and_may_change_the_role(w: CheckedWorld) -> None:
    job, _ = w.job_in("blocked")
    shown = send(w, job, "stop", "owner", body={"role": "qa"}).body["job"]
    assert (shown["status"], shown["role"], shown["retry_count"]) == ("published", "qa", 0)
    again = w.job()
    w.claim(again)
    w.refused("unknown_role", "POST", f"P/jobs/{again}/stop", {"reason": "r", "role": "chef"}, token="owner")


def test_the_old_fence_still_answers_stop_requested_when_another_holds_the_job(w: CheckedWorld) -> None:
    w.enrol("b")
    job, fence = w.job_in("in_progress")
    send(w, job, "stop", "owner")
    w.claim(job, "b")
    refused = w.refused("stop_requested", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    assert "held by b" in refused.body["detail"]


def test_an_owners_cancel_of_held_work_answers_stop_requested(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    send(w, job, "cancel", "owner")
    w.refused("stop_requested", "POST", f"P/jobs/{job}/complete", {"fence": fence})


def test_the_holders_own_cancel_ends_its_claim(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    send(w, job, "cancel", fence=fence)
    w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": fence})


def test_rev_moves_with_the_work_only(w: CheckedWorld) -> None:
    job = w.job()
    fence = w.claim(job)
    rev = w.get(job)["rev"]
    for verb in ("block", "unblock", "resume"):
        shown = send(w, job, verb, fence=fence).body["job"]
        assert shown["rev"] == rev
    assert shown["version"] == rev + 3
    w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.x"})
    assert w.get(job)["rev"] == rev
    w.ok("POST", f"P/jobs/{job}/artifacts", {"type": "log", "uri": "s3://x", "fence": fence})
    assert w.get(job)["rev"] == w.get(job)["version"] == rev + 5
    assert send(w, job, "complete", fence=fence).body["job"]["rev"] == rev + 6


# ---- repeats


@pytest.mark.parametrize(
    ("verb", "status", "token"),
    [("complete", "in_progress", "agent"), ("fail", "blocked", "agent"), ("block", "in_progress", "agent"), ("unblock", "blocked", "agent"),
     ("unblock", "blocked", "owner"), ("resume", "unblocked", "agent"), ("release", "in_progress", "agent"), ("restart", "failed", "agent"),
     ("retry", "failed", "owner"), ("stop", "in_progress", "owner"), ("cancel", "published", "agent"), ("cancel", "in_progress", "owner")],
)  # fmt: skip
def test_a_keyed_repeat_has_no_second_effect(w: CheckedWorld, verb: str, status: str, token: str) -> None:
    job, fence = w.job_in(status)
    sent = fence if token == "agent" and verb in WITH_FENCE and status != "published" else None
    first = send(w, job, verb, token, sent, key="K")
    assert first.status == 200
    assert "idempotency-replayed" not in first.headers
    before = w.everything()
    again = send(w, job, verb, token, sent, key="K")
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.body == first.body
    assert w.everything() == before
    if verb not in ("complete", "restart", "resume", "retry"):
        w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/{verb}", {"reason": "else", "fence": fence} if sent else {"reason": "else"},
                  token=token, key="K")  # fmt: skip


def test_the_late_twin_of_a_block_does_not_block_again(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    send(w, job, "block", fence=fence, key="B")
    send(w, job, "unblock", fence=fence, key="U")
    send(w, job, "resume", fence=fence, key="R")
    before = w.everything()
    late = send(w, job, "block", fence=fence, key="B")
    assert (late.status, late.body["job"]["status"]) == (200, "in_progress")
    assert late.headers["idempotency-replayed"] == "true"
    assert w.everything() == before


def test_the_last_eight_operations_are_remembered(w: CheckedWorld) -> None:
    job, _ = w.job_in("in_progress")
    for number in range(9):
        w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.step"}, key=f"K{number}")
    assert w.call("POST", f"P/jobs/{job}/events", {"type": "custom.step"}, key="K1").status == 200
    assert w.call("POST", f"P/jobs/{job}/events", {"type": "custom.step"}, key="K0").status == 201


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_an_identical_end_under_the_same_fence_is_a_repeat_without_a_key(w: CheckedWorld, verb: str) -> None:
    job, fence = w.job_in("in_progress")
    body = (
        {"fence": fence, "result": {"data": {"a": 1}}}
        if verb == "complete"
        else {"fence": fence, "reason": "r"}
    )
    w.ok("POST", f"P/jobs/{job}/{verb}", body)
    before = w.everything()
    again = w.call("POST", f"P/jobs/{job}/{verb}", body)
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert w.everything() == before
    other = {**body, "result": {"data": {"a": 2}}} if verb == "complete" else {**body, "reason": "s"}
    w.refused("wrong_state", "POST", f"P/jobs/{job}/{verb}", other)


def test_an_identical_block_without_a_key_is_none(w: CheckedWorld) -> None:
    job, fence = w.job_in("blocked")
    w.refused("wrong_state", "POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "to block"})
