"""What owners tell agents, and the notices that an agent gets: broadcasts, and what became of its decisions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim import oracle
from tests.unit.checked import CheckedWorld, checked

from interlock.domain import limits
from interlock.store.ports import Query

QUESTION = {"kind": "question", "prompt": "Which port?", "blocker": "it cannot bind", "risk": "a clash"}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def tell(w: CheckedWorld, text: str = "The build is red", **more: Any) -> dict[str, Any]:
    """An owner tells something."""
    key = more.pop("key", None)
    return dict(w.ok("POST", "P/broadcasts", {"text": text, **more}, token="owner", key=key)["broadcast"])


def notices(w: CheckedWorld, token: str = "agent", code: str = "broadcast") -> list[dict[str, Any]]:
    """The notices of this kind in `me`."""
    return [notice for notice in w.ok("GET", "P/me", token=token)["notices"] if notice["code"] == code]


def heard(w: CheckedWorld, token: str = "agent") -> list[str]:
    """What the agent is told by owners."""
    return [notice["detail"] for notice in notices(w, token)]


# ---- broadcasts


def test_a_broadcast_is_a_notice_of_every_answer_that_has_them(w: CheckedWorld) -> None:
    made = tell(w)
    owner = w.ok("GET", "P/me", token="owner")["actor"]["id"]
    assert made == {
        "id": made["id"],
        "text": "The build is red",
        "roles": [],
        "by": owner,
        "at": "2026-11-30T21:00:00.000Z",
        "expires_at": "2026-12-01T21:00:00.000Z",
    }
    notice = {
        "code": "broadcast",
        "id": made["id"],
        "at": "2026-11-30T21:00:00.000Z",
        "detail": "The build is red",
    }
    job, other = w.job(), w.job()
    for method, path, body in (
        ("GET", "P/me", None),
        ("POST", "P/heartbeat", {}),
        ("POST", f"P/jobs/{job}/claim", {}),
        ("POST", "P/claims", {}),
        ("POST", "P/claims", {}),
    ):
        assert notice in w.ok(method, path, body)["notices"], path
    assert w.get(other)["status"] == "in_progress"
    assert w.ok("GET", "P", token="owner")["project"]["broadcasts"] == [made]
    w.dispatch()
    event = oracle.memory(w).events["default#project#default"][-1]
    assert event["type"] == "project.broadcast"
    assert event["data"] == {"broadcast": made["id"], "text": "The build is red", "roles": []}


def test_it_concerns_those_of_its_roles(w: CheckedWorld) -> None:
    w.enrol("dev", ("developer",))
    w.enrol("both", ("developer", "qa"))
    w.enrol("ops", ("ops",))
    tell(w, "for qa", roles=["qa"])
    tell(w, "for two", roles=["qa", "developer"])
    tell(w, "for all")
    assert heard(w, "dev") == ["for two", "for all"]
    assert heard(w, "both") == ["for qa", "for two", "for all"]
    assert heard(w, "ops") == ["for all"]


def test_a_role_that_is_deleted_concerns_nobody(w: CheckedWorld) -> None:
    w.enrol("ops", ("ops", "qa"))
    tell(w, roles=["ops"])
    assert heard(w, "ops")
    w.ok("DELETE", "P/roles/ops", token="owner")
    assert heard(w, "ops") == []


def test_owners_have_other_notices(w: CheckedWorld) -> None:
    tell(w)
    assert heard(w, "owner") == []


@pytest.mark.parametrize("seconds", [60, 600, None, 7 * 86_400])
def test_it_ends_by_itself(w: CheckedWorld, seconds: int | None) -> None:
    tell(w, **({} if seconds is None else {"expires_in": seconds}))
    w.clock.advance((seconds or 86_400) - 0.001)
    assert heard(w) == ["The build is red"]
    assert len(w.ok("GET", "P")["project"]["broadcasts"]) == 1
    w.clock.advance(0.001)
    assert heard(w) == []
    assert w.ok("GET", "P")["project"]["broadcasts"] == []


def test_it_can_be_taken_back(w: CheckedWorld) -> None:
    made, other = tell(w), tell(w, "Freeze at noon")
    path = f"P/broadcasts/{made['id']}"
    assert w.ok("DELETE", path, token="owner") == {"broadcast": made}
    assert heard(w) == ["Freeze at noon"]
    w.refused("not_found", "DELETE", path, token="owner")
    w.ok("DELETE", f"P/broadcasts/{other['id']}", token="owner")
    assert w.ok("GET", "P")["project"]["broadcasts"] == []
    w.dispatch()
    types = [event["type"] for event in oracle.memory(w).events["default#project#default"]]
    assert types[-2:] == ["project.unbroadcast"] * 2


def test_what_has_ended_cannot_be_taken_back(w: CheckedWorld) -> None:
    made = tell(w, expires_in=60)
    w.clock.advance(60)
    w.refused("not_found", "DELETE", f"P/broadcasts/{made['id']}", token="owner")


def test_at_most_five_at_a_time(w: CheckedWorld) -> None:
    first = tell(w, "0", expires_in=60)
    for n in range(1, limits.BROADCASTS):
        tell(w, str(n))
    w.refused("limit_reached", "POST", "P/broadcasts", {"text": "one more"}, token="owner")
    w.ok("DELETE", f"P/broadcasts/{first['id']}", token="owner")
    tell(w, "5", expires_in=60)
    w.clock.advance(60)
    tell(w, "6")
    assert heard(w) == ["1", "2", "3", "4", "6"], "those that have ended make room"


def test_a_repeat_answers_the_same_broadcast(w: CheckedWorld) -> None:
    first = tell(w, key="k")
    w.clock.advance(1)
    assert tell(w, key="k") == first
    assert heard(w) == ["The build is red"]
    again = {"text": "another"}
    w.refused("idempotency_mismatch", "POST", "P/broadcasts", again, token="owner", key="k")
    w.ok("DELETE", f"P/broadcasts/{first['id']}", token="owner")
    assert tell(w, key="k")["id"] == first["id"]
    assert heard(w) == [], "what was taken back is not said again"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid"),
        ({"text": ""}, "invalid"),
        ({"text": "x" * 501}, "invalid"),
        ({"text": "x", "expires_in": 59}, "invalid"),
        ({"text": "x", "expires_in": 7 * 86_400 + 1}, "invalid"),
        ({"text": "x", "roles": ["nobody"]}, "unknown_role"),
        ({"text": "x", "roles": ["Not A Key"]}, "invalid"),
        ({"text": "x", "to": ["qa"]}, "unknown_field"),
    ],
)
def test_what_cannot_be_told(w: CheckedWorld, body: dict[str, Any], code: str) -> None:
    w.refused(code, "POST", "P/broadcasts", body, token="owner")


def test_only_owners_tell(w: CheckedWorld) -> None:
    made = tell(w)
    w.viewer()
    for token in ("viewer", "agent"):
        w.refused("forbidden", "POST", "P/broadcasts", {"text": "x"}, token=token)
        w.refused("forbidden", "DELETE", f"P/broadcasts/{made['id']}", token=token)


def test_the_longest_ones_fit(w: CheckedWorld) -> None:
    texts = [f"{n}" + "\U0001f600" * (limits.BROADCAST_CHARACTERS - 1) for n in range(limits.BROADCASTS)]
    for text in texts:
        tell(w, text)
    assert heard(w) == texts


# ---- what became of decisions


def asked(w: CheckedWorld, token: str = "bob", **more: Any) -> tuple[str, int, str]:
    """(a job that the agent holds, its fence, a decision that it has asked on it)."""
    job = w.job()
    fence = w.claim(job, token=token)
    body = {"fence": fence, **QUESTION, **more}
    made = w.ok("POST", f"P/jobs/{job}/decisions", body, token=token)
    return job, fence, made["decision"]["id"]


def test_the_holder_is_told_the_answer_everywhere(w: CheckedWorld) -> None:
    w.enrol("bob")
    job, fence, decision = asked(w)
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "8080", "note": "free"}, token="owner")
    notice = {
        "code": "decision_answered", "job": job, "decision": decision, "detail": "Which port?",
        "answer": "8080", "reason": "free",
    }  # fmt: skip
    assert notices(w, "bob", "decision_answered") == [notice]
    beat = w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]}, token="bob")
    assert notice in beat["notices"]
    assert notices(w, "agent", "decision_answered") == []
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence}, token="bob")
    assert notices(w, "bob", "decision_answered") == [notice]
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="bob")
    assert notices(w, "bob", "decision_answered") == []


def test_a_repeated_claim_is_told_the_answer(w: CheckedWorld) -> None:
    w.enrol("bob")
    job = w.job()
    fence = w.claim(job, token="bob", session="s")
    body = {"fence": fence, **QUESTION, "wait": False}
    decision = w.ok("POST", f"P/jobs/{job}/decisions", body, token="bob")["decision"]["id"]
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "8080"}, token="owner")
    again = w.ok("POST", f"P/jobs/{job}/claim", {"session": "s"}, token="bob")
    assert [notice["code"] for notice in again["notices"]] == ["decision_answered"]


def test_the_holder_is_told_what_was_withdrawn_and_what_has_expired(w: CheckedWorld) -> None:
    w.enrol("bob")
    job, fence, withdrawn = asked(w, wait=False)
    body = {"fence": fence, **QUESTION, "wait": False, "expires_in": 60}
    expired = w.ok("POST", f"P/jobs/{job}/decisions", body, token="bob")["decision"]["id"]
    w.ok("POST", f"P/decisions/{withdrawn}/withdraw", {"note": "found out"}, token="owner")
    w.pump()
    w.clock.advance(61)
    w.pump()
    told = {notice["decision"]: notice for notice in w.ok("GET", "P/me", token="bob")["notices"]}
    assert told[withdrawn]["code"] == "decision_withdrawn"
    assert told[withdrawn]["reason"] == "found out"
    assert told[expired]["code"] == "decision_expired"


def test_the_next_holder_is_not_told_what_the_last_one_asked(w: CheckedWorld) -> None:
    w.enrol("bob")
    job, fence, decision = asked(w)
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "8080"}, token="owner")
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence}, token="bob")
    answer = w.ok("POST", f"P/jobs/{job}/claim", {})
    assert answer["notices"] == []
    assert notices(w, "bob", "decision_answered") == []


def test_a_long_prompt_is_cut(w: CheckedWorld) -> None:
    w.enrol("bob")
    _, _, decision = asked(w, prompt="x" * 4_000)
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "y" * 4_000}, token="owner")
    (notice,) = notices(w, "bob", "decision_answered")
    assert len(notice["detail"]) == 300
    assert notice["answer"] == "y" * 4_000


def test_no_more_answers_are_told_than_the_limit_says(w: CheckedWorld) -> None:
    w.enrol("bob")
    made = []
    for _ in range(4):
        w.clock.advance(1)
        job, fence, _ = asked(w, wait=False)
        for _ in range(limits.ANSWERS_REMEMBERED):
            body = {"fence": fence, **QUESTION, "wait": False}
            decision = w.ok("POST", f"P/jobs/{job}/decisions", body, token="bob")["decision"]["id"]
            w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "a"}, token="owner")
            made.append(decision)
    told = [notice["decision"] for notice in notices(w, "bob", "decision_answered")]
    assert len(made) > limits.ANSWERS_TOLD
    assert told == made[-limits.ANSWERS_TOLD :]


# ---- decisions that wait


def test_an_agent_sees_which_decisions_wait_for_its_roles(w: CheckedWorld) -> None:
    w.enrol("bob", ("developer", "qa"))
    w.enrol("judge", ("qa",))
    w.enrol("other", ("developer",))
    job, _, decision = asked(w, roles=["qa"])
    (notice,) = notices(w, "judge", "decision_waits")
    assert notice == {
        "code": "decision_waits",
        "job": job,
        "decision": decision,
        "at": "2026-11-30T21:00:00.000Z",
        "detail": "bob asks (question): Which port?",
    }
    assert notices(w, "other", "decision_waits") == []
    assert notices(w, "bob", "decision_waits") == [], "whoever asked cannot answer"
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "1"}, token="judge")
    assert notices(w, "judge", "decision_waits") == []


def test_whoever_holds_the_job_is_not_asked(w: CheckedWorld) -> None:
    """The decision was asked by another, who stopped holding the job before the bus could withdraw it."""
    w.enrol("bob", ("developer",))
    w.enrol("judge", ("developer", "qa"))
    job, fence, _ = asked(w, roles=["qa"], wait=False)
    assert len(notices(w, "judge", "decision_waits")) == 1
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence}, token="bob")
    w.claim(job, token="judge")
    assert notices(w, "judge", "decision_waits") == []


def test_no_more_decisions_are_told_than_the_limit_says(w: CheckedWorld) -> None:
    w.enrol("judge", ("qa",))
    for n in range(limits.ANSWERS_TOLD + 3):
        w.clock.advance(1)
        asked(w, "agent", roles=["qa"], prompt=f"p{n}")
    told = notices(w, "judge", "decision_waits")
    assert len(told) == limits.ANSWERS_TOLD
    assert told[0]["detail"].endswith("p0"), "the oldest first"


# ---- and nothing more


def reads(w: CheckedWorld, path: str) -> tuple[list[Any], list[Any]]:
    """(the notices of a claim, what it reads)."""
    table, read = w.bus.store.table, list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("get", "batch_get", "query"):
            plain = getattr(table, name)

            def noted(what: Any, plain: Any = plain, **more: Any) -> Any:
                read.append(what)
                return plain(what, **more)

            patch.setattr(type(table), name, staticmethod(noted))
        found = w.ok("POST", path, {})["notices"]
    return found, read


def test_a_claim_reads_nothing_for_its_notices(w: CheckedWorld) -> None:
    found, plain = reads(w, f"P/jobs/{w.job()}/claim")
    assert found == []
    assert not [each for each in plain if isinstance(each, Query)]
    tell(w)
    found, told = reads(w, f"P/jobs/{w.job()}/claim")
    assert len(found) == 1
    assert len(told) == len(plain), "broadcasts are in the item that every claim reads"
