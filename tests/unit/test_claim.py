"""Claiming one job: the answer, fences, sessions, repeats, refusals, explain."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import ALONE, CheckedWorld, checked

from interlock.domain.lifecycle import STATUSES


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def test_the_answer_carries_the_whole_job_and_the_lease(w: CheckedWorld) -> None:
    job = w.job(context={"a": 1})
    reply = w.call("POST", f"P/jobs/{job}/claim", {})
    assert (reply.status, reply.headers["etag"]) == (200, '"v2"')
    assert reply.body["claim"] == {
        "fence": 1, "expires_at": "2026-11-30T21:30:00.000Z", "expires_in": 1800, "lease_seconds": 1800,
    }  # fmt: skip
    assert {**reply.body["job"], **ALONE} == w.get(job)
    assert reply.body["job"]["context"] == {"a": 1}
    assert reply.body["job"]["status"] == "in_progress"
    assert reply.body["job"]["lease_expires_at"] == "2026-11-30T21:30:00.000Z"
    assert reply.body["notices"] == []


@pytest.mark.parametrize(
    ("asked", "expires_in"),
    [({}, 1800), ({"lease_seconds": 30}, 30), ({"heartbeat_seconds": 30}, 90), ({"heartbeat_seconds": 1}, 3),
     ({"heartbeat_seconds": 28_800}, 86_400), ({"heartbeat_seconds": 30, "lease_seconds": 40}, 40), ({"lease_seconds": 86_400}, 86_400)],
)  # fmt: skip
def test_how_long_the_lease_lasts(w: CheckedWorld, asked: dict[str, int], expires_in: int) -> None:
    claim = w.ok("POST", f"P/jobs/{w.job()}/claim", asked)["claim"]
    assert claim["expires_in"] == claim["lease_seconds"] == expires_in
    assert claim.get("heartbeat_seconds") == asked.get("heartbeat_seconds")


def test_an_empty_body_will_do(w: CheckedWorld) -> None:
    assert w.ok("POST", f"P/jobs/{w.job()}/claim")["claim"]["fence"] == 1


def test_the_fence_grows_with_every_holding(w: CheckedWorld) -> None:
    job = w.job()
    fences = []
    for _ in range(3):
        fences.append(w.claim(job))
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fences[-1]})
    assert fences == [1, 3, 5]


# ---- repeats


def test_the_same_session_repeats_its_claim(w: CheckedWorld) -> None:
    job = w.job()
    first = w.ok("POST", f"P/jobs/{job}/claim", {"session": "s1"})
    w.clock.advance(100)
    before = w.everything()
    again = w.call("POST", f"P/jobs/{job}/claim", {"session": "s1"})
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["claim"]["fence"] == first["claim"]["fence"]
    assert again.body["claim"]["session"] == "s1"
    assert again.body["claim"]["expires_in"] == 1700, "the remaining lease"
    assert w.everything() == before


def test_the_same_key_repeats_its_claim(w: CheckedWorld) -> None:
    job = w.job()
    first = w.ok("POST", f"P/jobs/{job}/claim", {}, key="K")
    again = w.call("POST", f"P/jobs/{job}/claim", {}, key="K")
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["claim"] == first["claim"]
    w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/claim", {"session": "s"}, key="K")


@pytest.mark.parametrize("body", [{}, {"session": "s2"}])
@pytest.mark.parametrize("key", [None, "other"])
def test_two_terminals_with_one_token_never_share_a_claim(
    w: CheckedWorld, body: dict[str, Any], key: str | None
) -> None:
    job = w.job()
    w.claim(job, session="s1")
    refused = w.refused("already_claimed", "POST", f"P/jobs/{job}/claim", body, key=key).body
    assert "another session" in refused["detail"]
    assert "session" in refused["hint"]
    assert refused["job_status"] == "in_progress"
    assert refused["until"] == "2026-11-30T21:30:00.000Z"


def test_a_session_of_another_agent_repeats_nothing(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, session="s1")
    w.refused("already_claimed", "POST", f"P/jobs/{job}/claim", {"session": "s1"}, token="b")


def test_a_repeat_after_the_claim_has_ended_says_so(w: CheckedWorld) -> None:
    job = w.job()
    w.ok("POST", f"P/jobs/{job}/claim", {}, key="K")
    w.ok("POST", f"P/jobs/{job}/release", {"fence": 1})
    again = w.call("POST", f"P/jobs/{job}/claim", {}, key="K")
    assert (again.status, again.body["claim"], again.body["job"]["status"]) == (200, None, "published")
    w.claim(job, session="else")
    assert w.ok("POST", f"P/jobs/{job}/claim", {}, key="K")["claim"] is None, "the new claim is another one"


# ---- refusals, and explain that agrees with them


def refusal(w: CheckedWorld, job: str, token: str = "agent") -> str | None:
    """The code that a claim is refused with, checked against explain; None when it is not."""
    shown = w.ok("GET", f"P/jobs/{job}/explain", token=token)
    before = w.everything()
    reply = w.call("POST", f"P/jobs/{job}/claim", {}, token=token)
    assert shown["claimable"] is (reply.status == 200)
    codes = [reason["code"] for reason in shown["reasons"]]
    if reply.status == 200:
        assert codes == []
        return None
    assert codes[0] == reply.code
    assert shown["reasons"][0]["detail"] == reply.body["detail"]
    assert w.everything() == before
    return reply.code


@pytest.mark.parametrize("status", STATUSES)
def test_by_status(w: CheckedWorld, status: str) -> None:
    w.enrol("b")
    job, _ = w.job_in(status)
    wanted = {
        "published": None, "pending": "not_yet", "completed": "ended", "failed": "ended", "cancelled": "ended",
    }.get(status, "already_claimed")  # fmt: skip
    assert refusal(w, job, "b") == wanted


def test_by_role_and_capability(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",), capabilities=["gpu"])
    assert refusal(w, w.job(), "b") == "wrong_role"
    assert refusal(w, w.job(role="qa", capabilities=["gpu", "mac"]), "b") == "missing_capability"
    assert refusal(w, w.job(role="qa", capabilities=["gpu"]), "b") is None


@pytest.mark.parametrize("target", ["project", "role", "agent"])
def test_by_pause(w: CheckedWorld, target: str) -> None:
    agent = w.enrol("b")
    pause = {"project": {"project": True}, "role": {"role": "developer"}, "agent": {"agent": agent}}[target]
    job = w.job()
    w.ok("POST", "P/pause", pause, token="owner")
    assert refusal(w, job, "b") == "paused"
    w.ok("POST", "P/resume", pause, token="owner")
    assert refusal(w, job, "b") is None


def test_of_a_deleted_role(w: CheckedWorld) -> None:
    job = w.job(role="qa")
    w.ok("DELETE", "P/roles/qa", token="owner")
    assert refusal(w, job) == "wrong_role"
    w.ok("POST", "P/roles", {"key": "qa", "label": "again"}, token="owner")
    assert refusal(w, job) is None


def test_a_lapsed_claim_is_taken_over_after_two_seconds_of_skew(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(62)
    assert refusal(w, job, "b") == "already_claimed"
    w.clock.now += 1
    assert w.ok("GET", f"P/jobs/{job}/explain", token="b")["claimable"]
    taken = w.ok("POST", f"P/jobs/{job}/claim", {}, token="b")
    assert taken["claim"]["fence"] == 3
    assert taken["job"]["attempt"] == 2
    assert taken["job"]["last_failure"]["reason"] == "lease_expired"
    assert w.types(job) == ["job.created", "job.claimed", "job.lease_expired", "job.claimed"]


@pytest.mark.parametrize("fields", [{"on_expire": "fail"}, {"max_retries": 0}])
def test_a_lapse_that_fails_the_job_does_so_when_somebody_wants_it(
    w: CheckedWorld, fields: dict[str, Any]
) -> None:
    w.enrol("b")
    job = w.job(**fields)
    w.claim(job, lease_seconds=60)
    w.clock.advance(63)
    shown = w.ok("GET", f"P/jobs/{job}/explain", token="b")
    assert [reason["code"] for reason in shown["reasons"]] == ["ended"]
    assert w.call("POST", f"P/jobs/{job}/claim", {}, token="b").code == "ended"
    assert (w.get(job)["status"], w.get(job)["failure_reason"]) == ("failed", "lease_expired")


def test_the_last_failure_comes_with_a_later_attempt(w: CheckedWorld) -> None:
    job, _ = w.job_in("failed")
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    taken = w.ok("POST", f"P/jobs/{job}/claim", {})["job"]
    assert taken["attempt"] == 2
    assert {name: taken["last_failure"][name] for name in ("attempt", "reason")} == {
        "attempt": 1,
        "reason": "to fail",
    }


# ---- explain


def test_explain_lists_all_that_applies_and_until_when(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",))
    w.ok("POST", "P/pause", {"project": True, "reason": "freeze"}, token="owner")
    job = w.job(capabilities=["gpu"], not_before="2027-01-01T00:00:00Z")
    shown = w.ok("GET", f"P/jobs/{job}/explain", token="b")
    assert [reason["code"] for reason in shown["reasons"]] == [
        "wrong_role",
        "missing_capability",
        "not_yet",
        "paused",
    ]
    assert shown["reasons"][2]["until"] == "2027-01-01T00:00:00.000Z"
    assert shown["claimable"] is False


def test_an_owner_asks_for_any_agent_or_for_anybody(w: CheckedWorld) -> None:
    agent = w.enrol("b", ("qa",))
    job = w.job()
    path = f"P/jobs/{job}/explain"
    assert w.ok("GET", path, token="owner") == {"claimable": True, "as": None, "reasons": []}
    shown = w.ok("GET", path, token="owner", query={"agent": agent})
    assert (shown["as"], shown["claimable"], shown["reasons"][0]["code"]) == (agent, False, "wrong_role")
    w.refused("unknown_agent", "GET", path, token="owner", query={"agent": "agt_none"})


def test_an_agent_asks_for_itself_only(w: CheckedWorld) -> None:
    other = w.enrol("b")
    me = w.ok("GET", "P/me")["actor"]["id"]
    path = f"P/jobs/{w.job()}/explain"
    assert w.ok("GET", path)["as"] == w.ok("GET", path, query={"agent": me})["as"] == me
    w.refused("forbidden", "GET", path, query={"agent": other})


def test_a_retired_agent_can_take_nothing(w: CheckedWorld) -> None:
    agent = w.enrol("b")
    job = w.job()
    w.ok("DELETE", f"P/agents/{agent}", token="owner")
    shown = w.ok("GET", f"P/jobs/{job}/explain", token="owner", query={"agent": agent})
    assert [reason["code"] for reason in shown["reasons"]] == ["wrong_role"]
