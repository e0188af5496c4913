"""Decisions: asking, answering, withdrawing, expiring, and what they do to the job."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

QUESTION = {"kind": "question", "prompt": "Which port?", "blocker": "cannot bind", "risk": "clash"}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def held(w: CheckedWorld, **fields: Any) -> tuple[str, int]:
    """A job that the world's agent holds, and the fence."""
    job = w.job(**fields)
    return job, w.claim(job)


def ask(w: CheckedWorld, job: str, fence: int, **fields: Any) -> Any:
    """Ask; the decision."""
    body = {"fence": fence, **(fields or QUESTION)}
    return w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]


def reply(w: CheckedWorld, decision: str, answer: Any, *, token: str = "owner", **more: Any) -> Any:
    """Answer."""
    return w.ok("POST", f"P/decisions/{decision}/answer", {"answer": answer, **more}, token=token)


def types(w: CheckedWorld, job: str) -> list[str]:
    """The types of the job's events."""
    return [event["type"] for event in w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"]]


# ---- asking


def test_a_question_blocks_the_job_and_pauses_its_lease(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence)
    shown = w.get(job)
    assert (shown["status"], shown["decision"], shown["open_decisions"]) == (
        "blocked",
        made["id"],
        [made["id"]],
    )
    assert shown["lease_expires_at"] is None
    assert shown["blocked_reason"] == "asks (question): Which port?"
    assert made["subject"] == {"job": job, "rev": shown["rev"]}
    assert (made["state"], made["wait"], made["current"], made["asked_by"]["label"]) == (
        "open",
        True,
        True,
        "agent-1",
    )
    w.pump()
    w.clock.advance(7_200)
    w.pump()
    assert w.get(job)["status"] == "blocked"


def test_without_waiting_the_job_goes_on(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, wait=False)
    shown = w.get(job)
    assert (shown["status"], shown["decision"], shown["open_decisions"]) == (
        "in_progress",
        None,
        [made["id"]],
    )
    answered = reply(w, made["id"], "8080")
    assert answered["job"]["status"] == "in_progress"
    assert answered["job"]["open_decisions"] == []
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})


@pytest.mark.parametrize("missing", ["blocker", "risk", "prompt", "kind"])
def test_a_question_says_what_it_blocks_and_what_the_risk_is(w: CheckedWorld, missing: str) -> None:
    job, fence = held(w)
    body = {name: value for name, value in QUESTION.items() if name != missing}
    w.refused("invalid", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **body})


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "approval", "options": ["a"]},
        {"kind": "review", "schema": {"type": "string"}},
        {**QUESTION, "options": ["a"], "schema": {"type": "string"}},
        {**QUESTION, "options": []},
        {**QUESTION, "expires_in": 0},
        {**QUESTION, "roles": ["nobody"]},
    ],
    ids=["approval", "review", "both", "none", "now", "role"],
)
def test_what_cannot_be_asked(w: CheckedWorld, more: dict[str, Any]) -> None:
    job, fence = held(w)
    code = "unknown_role" if "roles" in more else "invalid"
    w.refused(code, "POST", f"P/jobs/{job}/decisions", {"fence": fence, "prompt": "p", **more})


def test_only_the_holder_asks(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.enrol("other")
    body = {"fence": fence, **QUESTION}
    w.refused("not_holder", "POST", f"P/jobs/{job}/decisions", body, token="other")
    w.refused("forbidden", "POST", f"P/jobs/{job}/decisions", body, token="owner")
    w.refused("lease_lost", "POST", f"P/jobs/{job}/decisions", {**body, "fence": 9})


def test_one_decision_blocks_at_a_time_and_ten_are_open_at_most(w: CheckedWorld) -> None:
    job, fence = held(w)
    for _ in range(9):
        ask(w, job, fence, **QUESTION, wait=False)
    ask(w, job, fence)
    w.refused("wrong_state", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION})
    w.refused("limit_reached", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})


def test_a_job_that_was_blocked_by_hand_may_ask(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "stuck"})
    made = ask(w, job, fence)
    assert w.get(job)["decision"] == made["id"]
    reply(w, made["id"], "8080")
    assert w.get(job)["status"] == "unblocked"


def test_a_repeat_with_the_key_answers_the_decision_as_it_is(w: CheckedWorld) -> None:
    job, fence = held(w)
    body = {"fence": fence, **QUESTION}
    first = w.call("POST", f"P/jobs/{job}/decisions", body, key="k")
    again = w.call("POST", f"P/jobs/{job}/decisions", body, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["decision"] == first.body["decision"]
    reply(w, first.body["decision"]["id"], "8080")
    late = w.call("POST", f"P/jobs/{job}/decisions", body, key="k")
    assert late.body["decision"]["state"] == "answered"
    assert w.get(job)["status"] == "unblocked"
    w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/decisions", {**body, "risk": "other"}, key="k")


# ---- answering


def test_an_answer_unblocks_and_the_holder_goes_on(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, options=["8080", "9090"])
    answered = reply(w, made["id"], "9090", note="the other is taken")
    assert (answered["decision"]["state"], answered["decision"]["answer"]) == ("answered", "9090")
    assert answered["decision"]["answered_by"]["kind"] == "owner"
    assert answered["job"]["status"] == "unblocked"
    assert answered["job"]["unblock_reason"] == f"decision {made['id']}: 9090"
    assert answered["job"]["decision"] is None
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    w.pump()
    assert types(w, job)[2:] == [
        "job.decision_requested",
        "job.decision_answered",
        "job.resumed",
        "job.completed",
    ]


@pytest.mark.parametrize(
    ("fields", "good", "bad"),
    [
        (QUESTION, "any words", {"no": "object"}),
        ({**QUESTION, "options": ["a", "b"]}, "b", "c"),
        ({**QUESTION, "schema": {"type": "integer", "maximum": 9}}, 7, 10),
        ({"kind": "approval", "prompt": "Ship it?"}, "approve", "yes"),
        ({"kind": "review", "prompt": "Look at it"}, "reject", "maybe"),
        ({"kind": "gate", "prompt": "Go on?"}, "approve", "deploy"),
        ({"kind": "gate", "prompt": "Where to?", "options": ["deploy", "rework"]}, "deploy", "approve"),
    ],
    ids=["words", "options", "schema", "approval", "review", "gate", "events"],
)
def test_what_answers_are_taken(w: CheckedWorld, fields: dict[str, Any], good: Any, bad: Any) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **fields)
    w.refused("invalid", "POST", f"P/decisions/{made['id']}/answer", {"answer": bad}, token="owner")
    assert w.get(job)["status"] == "blocked"
    assert reply(w, made["id"], good)["decision"]["answer"] == good


def test_exactly_one_answer_counts(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence)
    body = {"answer": "one"}
    assert w.call("POST", f"P/decisions/{made['id']}/answer", body, token="owner", key="k").status == 200
    again = w.call("POST", f"P/decisions/{made['id']}/answer", body, token="owner", key="k")
    assert again.headers["idempotency-replayed"] == "true"
    w.refused("decision_closed", "POST", f"P/decisions/{made['id']}/answer", {"answer": "two"}, token="owner")
    w.refused("decision_closed", "POST", f"P/decisions/{made['id']}/withdraw", {}, token="owner")


def test_agents_of_a_named_role_answer_and_others_do_not(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, roles=["reviewer"])
    w.enrol("coder")
    w.enrol("judge", ("reviewer",))
    w.person("viewer", rights="viewer")
    path = f"P/decisions/{made['id']}/answer"
    w.refused("forbidden", "POST", path, {"answer": "x"}, token="coder")
    w.refused("forbidden", "POST", path, {"answer": "x"}, token="viewer")
    assert reply(w, made["id"], "x", token="judge")["decision"]["answered_by"]["label"] == "judge"


def test_nobody_answers_their_own_question(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, roles=["developer", "reviewer"])  # agent-1 holds every role
    w.refused("self_answer", "POST", f"P/decisions/{made['id']}/answer", {"answer": "x"})


def test_an_answer_about_work_that_has_changed_is_refused(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, kind="review", prompt="Look at it")
    w.ok("POST", f"P/jobs/{job}/artifacts", {"type": "diff", "uri": "s3://d", "fence": fence})
    w.refused(
        "subject_changed", "POST", f"P/decisions/{made['id']}/answer", {"answer": "approve"}, token="owner"
    )
    assert not w.ok("GET", f"P/decisions/{made['id']}")["decision"]["current"]
    needs = w.ok("GET", "P/attention", token="owner")["items"]
    assert [(need["kind"], need["allowed"]) for need in needs] == [("decision", ["withdraw"])]
    w.ok("POST", f"P/decisions/{made['id']}/withdraw", {"note": "asked anew"})
    assert w.get(job)["status"] == "unblocked"


def test_findings_come_back(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, kind="review", prompt="Look at it")
    finding = {"file": "a.py", "line": 3, "kind": "bug", "description": "off by one", "fix": "use <="}
    reply(w, made["id"], "reject", findings=[finding], segment=2)
    shown = w.ok("GET", f"P/decisions/{made['id']}")["decision"]
    assert (shown["findings"], shown["segment"]) == ([finding], 2)


# ---- reviews as evidence


def test_completion_needs_the_review_that_it_requires(w: CheckedWorld) -> None:
    job, fence = held(w, requires=["review"])
    body = {"fence": fence}
    refused = w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", body)
    assert [error["path"] for error in refused.body["errors"]] == ["review"]
    made = ask(w, job, fence, kind="review", prompt="Look at it")
    reply(w, made["id"], "approve")
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    assert w.get(job)["approved_by"]
    done = w.ok("POST", f"P/jobs/{job}/complete", body)["job"]
    assert done["status"] == "completed"
    assert done["approved_by"]


def test_the_latest_review_counts(w: CheckedWorld) -> None:
    job, fence = held(w, requires=["review"])
    for verdict in ("approve", "reject"):
        made = ask(w, job, fence, kind="review", prompt="Look at it", wait=False)
        reply(w, made["id"], verdict)
    w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})


@pytest.mark.parametrize("spoil", ["reject", "change", "approval", "release"])
def test_what_does_not_count_as_a_review(w: CheckedWorld, spoil: str) -> None:
    job, fence = held(w, requires=["review"])
    kind = "approval" if spoil == "approval" else "review"
    made = ask(w, job, fence, kind=kind, prompt="Look at it", wait=False)
    reply(w, made["id"], "reject" if spoil == "reject" else "approve")
    if spoil == "change":
        w.ok("POST", f"P/jobs/{job}/artifacts", {"type": "review", "uri": "s3://d", "fence": fence})
    if spoil == "release":
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
        fence = w.claim(job)
    w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    assert w.get(job)["approved_by"] is None


# ---- while a decision is open


@pytest.mark.parametrize("verb", ["resume", "unblock"])
def test_nobody_goes_round_an_open_decision(w: CheckedWorld, verb: str) -> None:
    job, fence = held(w)
    made = ask(w, job, fence)
    body = {"fence": fence, **({"reason": "r"} if verb == "unblock" else {})}
    refused = w.refused("wrong_state", "POST", f"P/jobs/{job}/{verb}", body)
    assert made["id"] in refused.body["detail"]
    if verb == "unblock":
        w.refused("wrong_state", "POST", f"P/jobs/{job}/unblock", {"reason": "r"}, token="owner")


@pytest.mark.parametrize("how", ["release", "fail", "cancel", "stop"])
def test_the_end_of_a_claim_withdraws_what_was_open_under_it(w: CheckedWorld, how: str) -> None:
    job, fence = held(w)
    waiting = ask(w, job, fence, **QUESTION, wait=False)
    made = ask(w, job, fence)
    body: dict[str, Any] = {"reason": "r"}
    if how != "stop":
        body["fence"] = fence
    w.ok("POST", f"P/jobs/{job}/{how}", body, token="owner" if how == "stop" else "agent")
    w.refused("decision_closed", "POST", f"P/decisions/{made['id']}/answer", {"answer": "x"}, token="owner")
    w.pump()
    for decision in (made, waiting):
        shown = w.ok("GET", f"P/decisions/{decision['id']}", token="owner")["decision"]
        assert (shown["state"], shown["closed_by"]["kind"]) == ("withdrawn", "system")
    assert w.ok("GET", "P/decisions", token="owner")["items"] == []
    assert w.get(job)["open_decisions"] == []
    assert "job.decision_withdrawn" in types(w, job)


def test_completing_withdraws_what_nobody_answered(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, wait=False)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    w.pump()
    assert w.ok("GET", f"P/decisions/{made['id']}", token="owner")["decision"]["state"] == "withdrawn"


# ---- withdrawing and expiring


def test_the_asker_or_an_owner_withdraws(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.enrol("judge", ("reviewer",))
    for token in ("agent", "owner"):
        made = ask(w, job, fence, **QUESTION, roles=["reviewer"])
        w.refused("forbidden", "POST", f"P/decisions/{made['id']}/withdraw", {}, token="judge")
        after = w.ok("POST", f"P/decisions/{made['id']}/withdraw", {"note": "n"}, token=token)
        assert (after["decision"]["state"], after["decision"]["note"], after["job"]["status"]) == (
            "withdrawn",
            "n",
            "unblocked",
        )
        w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})


def test_an_expired_decision_leaves_the_job_blocked_and_tells_owners(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, expires_in=3_600)
    assert made["expires_in"] == 3_600
    for _ in range(5):
        w.pump()
        w.clock.advance(900)
    w.pump()
    shown = w.get(job)
    assert (shown["status"], shown["decision"], shown["open_decisions"]) == ("blocked", made["id"], [])
    assert w.ok("GET", f"P/decisions/{made['id']}")["decision"]["state"] == "expired"
    w.refused(
        "decision_closed", "POST", f"P/decisions/{made['id']}/answer", {"answer": "late"}, token="owner"
    )
    needs = w.ok("GET", "P/attention", token="owner")["items"]
    assert [(need["kind"], need["decision"]) for need in needs] == [("decision_expired", made["id"])]
    assert "unblock" in needs[0]["allowed"]
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    assert w.get(job)["decision"] is None


def test_an_answer_in_time_is_not_expired_afterwards(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, expires_in=60)
    w.pump()
    reply(w, made["id"], "x")
    w.clock.advance(120)
    w.pump()
    assert w.ok("GET", f"P/decisions/{made['id']}")["decision"]["state"] == "answered"


# ---- a lapse that asks


def lapsed(w: CheckedWorld, **fields: Any) -> tuple[str, Any]:
    """A job whose lease has lapsed, and the decision about it."""
    job, _ = held(w, on_expire="ask", **fields)
    w.pump()
    w.clock.advance(1_900)
    w.pump()
    (found,) = w.ok("GET", "P/decisions", token="owner")["items"]
    return job, found


def test_a_lapse_asks_an_owner(w: CheckedWorld) -> None:
    job, found = lapsed(w)
    shown = w.get(job)
    assert (shown["status"], shown["assignee"], shown["retry_count"], shown["decision"]) == (
        "blocked",
        None,
        1,
        found["id"],
    )
    assert (found["cause"], found["options"], found["roles"], found["current"]) == (
        "lapse",
        ["publish", "fail", "cancel"],
        [],
        True,
    )
    assert found["subject"]["rev"] == shown["rev"]
    w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": 1})
    w.refused("not_yet", "POST", f"P/jobs/{job}/claim", {})
    assert w.ok("POST", "P/claims", {})["job"] is None


@pytest.mark.parametrize(
    ("answer", "status"), [("publish", "published"), ("fail", "failed"), ("cancel", "cancelled")]
)
def test_the_answer_says_what_becomes_of_it(w: CheckedWorld, answer: str, status: str) -> None:
    job, found = lapsed(w)
    assert reply(w, found["id"], answer)["job"]["status"] == status
    w.pump()
    assert w.get(job)["status"] == status
    if status == "published":
        assert w.claim(job) == 3


def test_withdrawing_publishes_a_job_that_nobody_holds(w: CheckedWorld) -> None:
    job, found = lapsed(w)
    after = w.ok("POST", f"P/decisions/{found['id']}/withdraw", {}, token="owner")
    assert after["job"]["status"] == "published"
    w.claim(job)


def test_at_the_budget_of_retries_it_fails_instead(w: CheckedWorld) -> None:
    job, _ = held(w, on_expire="ask", max_retries=0)
    w.pump()
    w.clock.advance(1_900)
    w.pump()
    assert w.get(job)["status"] == "failed"
    assert w.ok("GET", "P/decisions", token="owner")["items"] == []


def test_a_claim_that_finds_the_lapse_asks_too(w: CheckedWorld) -> None:
    job, _ = held(w, on_expire="ask")
    w.clock.advance(1_900)  # the timer is lost
    w.enrol("other")
    assert w.call("POST", f"P/jobs/{job}/claim", {}, token="other").code == "not_yet"
    assert w.get(job)["status"] == "blocked"
    assert len(w.ok("GET", "P/decisions", token="owner")["items"]) == 1


def test_a_role_may_say_that_its_jobs_ask(w: CheckedWorld) -> None:
    w.ok("PATCH", "P/roles/ops", {"on_expire": "ask"}, token="owner")
    assert w.get(w.job(role="ops"))["on_expire"] == "ask"


# ---- reading


def test_lists_of_decisions(w: CheckedWorld) -> None:
    job, fence = held(w)
    first = ask(w, job, fence, **QUESTION, wait=False)["id"]
    w.clock.advance(1)
    second = ask(w, job, fence, **QUESTION, wait=False, roles=["qa"])["id"]
    w.clock.advance(1)
    other, number = held(w)
    third = ask(w, other, number)["id"]

    def names(**query: str) -> list[str]:
        return [item["id"] for item in w.ok("GET", "P/decisions", query=query, token="owner")["items"]]

    assert names() == [first, second, third]
    reply(w, first, "x")
    assert names() == [second, third]
    assert names(state="all") == [third, second, first]
    assert names(state="answered") == [first]
    assert names(role="qa") == [second]
    assert names(job=job, state="all") == [first, second]
    page = w.ok("GET", "P/decisions", query={"limit": "1"}, token="owner")
    rest = w.ok("GET", "P/decisions", query={"limit": "1", "cursor": page["next_cursor"]}, token="owner")
    assert [item["id"] for item in (*page["items"], *rest["items"])] == [second, third]
    w.refused(
        "bad_cursor", "GET", "P/decisions", query={"cursor": page["next_cursor"], "job": job}, token="owner"
    )


def test_what_an_agent_may_not_see_is_not_there(w: CheckedWorld) -> None:
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("coder", ("ops",))
    w.enrol("judge", ("reviewer",))
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, roles=["reviewer"])
    w.refused("not_found", "GET", f"P/decisions/{made['id']}", token="coder")
    assert w.ok("GET", "P/decisions", token="coder")["items"] == []
    w.ok("GET", f"P/decisions/{made['id']}", token="judge")
    w.ok("GET", f"P/jobs/{job}", token="judge")
    reply(w, made["id"], "x", token="judge")
    w.refused("not_found", "GET", f"P/jobs/{job}", token="judge")
    w.ok("GET", f"P/decisions/{made['id']}", token="judge")


@pytest.mark.parametrize("name", ["dec_", "dec_x_1", "dec_00000000000000000000000000_3", "job_x", "dec__1"])
def test_decisions_that_are_not_there(w: CheckedWorld, name: str) -> None:
    w.refused("not_found", "GET", f"P/decisions/{name}")
    w.refused("not_found", "POST", f"P/decisions/{name}/answer", {"answer": "x"}, token="owner")


def test_attention_names_open_decisions_first(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence)
    (need,) = w.ok("GET", "P/attention", token="owner")["items"]
    assert (need["kind"], need["decision"], need["allowed"]) == (
        "decision",
        made["id"],
        ["answer", "withdraw"],
    )
    assert need["detail"] == "agent-1 asks (question): Which port?"
