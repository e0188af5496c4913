"""An agent that an owner stops: its claims end, it claims nothing, and it goes on when an owner says so."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from tests.sim import oracle
from tests.sim.faults import DiedError, Fault, Faults
from tests.sim.world import Reply
from tests.unit.checked import CheckedWorld, checked

from interlock.app import timers

STOP = {"reason": "it loops"}
AFTER = {"publish": "published", "fail": "failed", "cancel": "cancelled"}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def stop(w: CheckedWorld, agent: str, then: str = "publish", reason: str = "it loops", **more: Any) -> Reply:
    """An owner stops the agent."""
    body = {"reason": reason, "then": then}
    return w.call("POST", f"P/agents/{agent}/stop", body, token="owner", **more)


def events(w: CheckedWorld, agent: str) -> list[str]:
    """The types of the agent's events, oldest first."""
    w.dispatch()
    return [event["type"] for event in oracle.memory(w).events[f"default#agent#{agent}"]]


def holds(w: CheckedWorld, token: str) -> set[str]:
    """The jobs that an agent holds."""
    return {claim["job"] for claim in w.ok("GET", "P/me", token=token)["claims"]}


@pytest.mark.parametrize("then", AFTER)
def test_what_it_holds_goes_where_the_owner_says(w: CheckedWorld, then: str) -> None:
    bob = w.enrol("bob")
    w.enrol("ada")
    running, blocked, others = w.job(), w.job(), w.job()
    fences = {job: w.claim(job, token="bob") for job in (running, blocked)}
    w.ok("POST", f"P/jobs/{blocked}/block", {"fence": fences[blocked], "reason": "b"}, token="bob")
    w.claim(others, token="ada")
    shown = stop(w, bob, then).body["agent"]
    assert shown["stop"] == {
        "at": "2026-11-30T21:00:00.000Z",
        "reason": "it loops",
        "then": then,
        "by": w.ok("GET", "P/me", token="owner")["actor"]["id"],
    }
    assert w.ok("GET", f"P/agents/{bob}", token="owner")["agent"] == shown
    for job in (running, blocked):
        assert w.get(job)["status"] == AFTER[then]
        assert w.types(job)[-1] == "job.stopped"
    assert w.get(running)["retry_count"] == 0, "a stop is no attempt"
    assert w.get(others)["status"] == "in_progress"
    assert holds(w, "bob") == set()
    assert events(w, bob) == ["agent.created", "agent.stopped"]


def test_a_reason_is_told_to_those_who_look_at_the_job(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    w.claim(job, token="bob")
    stop(w, bob, "fail")
    assert w.get(job)["failure_reason"] == "it loops"


def test_whatever_it_does_with_its_old_fence_says_that_it_was_stopped(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    fence = w.claim(job, token="bob")
    stop(w, bob)
    body = {"fence": fence, "reason": "r"}
    for verb in ("complete", "fail", "block", "release", "unblock", "resume"):
        sent = {"fence": fence} if verb in ("complete", "resume") else body
        w.refused("stop_requested", "POST", f"P/jobs/{job}/{verb}", sent, token="bob")
    artifact = {"fence": fence, "type": "log", "uri": "file:///l"}
    w.refused("stop_requested", "POST", f"P/jobs/{job}/artifacts", artifact, token="bob")
    beat = w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]}, token="bob")
    assert beat["claims"][0]["stop"]["code"] == "stop_requested"
    assert beat["claims"][0]["expires_in"] == 0


def test_it_claims_nothing_and_is_told_why(w: CheckedWorld) -> None:
    bob, failed, free = w.enrol("bob"), w.job(), w.job()
    fence = w.claim(failed, token="bob")
    w.ok("POST", f"P/jobs/{failed}/fail", {"fence": fence, "reason": "r"}, token="bob")
    stop(w, bob)
    for path in (f"P/jobs/{free}/claim", f"P/jobs/{failed}/restart", "P/claims"):
        reply = w.refused("stop_requested", "POST", path, {}, token="bob")
        assert "it loops" in reply.body["detail"]
    for who in ({"token": "bob"}, {"token": "owner", "query": {"agent": bob}}):
        told = w.ok("GET", f"P/jobs/{free}/explain", **who)
        assert told["claimable"] is False
        assert [reason["code"] for reason in told["reasons"]] == ["stop_requested"]
        assert "it loops" in told["reasons"][0]["detail"]
    assert w.ok("GET", f"P/jobs/{free}/explain")["claimable"], "it is about one agent"


def test_a_stopped_agent_may_read_and_publish(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    stop(w, bob)
    for path in (f"P/jobs/{job}", "P/jobs", "P/me", "P/workers", f"P/agents/{bob}"):
        w.ok("GET", path, token="bob")
    w.job(token="bob")


def test_an_owner_lets_it_go_on(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    w.claim(job, token="bob")
    stop(w, bob)
    answer = w.ok("POST", "P/resume", {"agent": bob, "reason": "mended"}, token="owner")
    assert answer == {"paused": []}
    assert w.ok("GET", f"P/agents/{bob}", token="owner")["agent"]["stop"] is None
    assert events(w, bob)[-2:] == ["agent.stopped", "agent.resumed"]
    w.claim(job, token="bob")
    w.clock.advance(31)
    w.pump()
    assert holds(w, "bob") == {job}, "the message of the stop finds an agent that goes on"


def test_resuming_lifts_the_pause_and_the_stop(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    w.ok("POST", "P/pause", {"agent": bob}, token="owner")
    stop(w, bob)
    w.ok("POST", "P/resume", {"agent": bob}, token="owner")
    w.claim(w.job(), token="bob")
    before = w.everything()
    w.ok("POST", "P/resume", {"agent": bob}, token="owner")
    assert w.everything() == before, "an agent that goes on is not resumed again"


@pytest.mark.parametrize("target", [{"project": True}, {"role": "developer"}])
def test_resuming_something_else_does_not_lift_it(w: CheckedWorld, target: dict[str, Any]) -> None:
    bob = w.enrol("bob")
    stop(w, bob)
    w.ok("POST", "P/resume", target, token="owner")
    w.refused("stop_requested", "POST", "P/claims", {}, token="bob")


def test_stopping_twice_changes_nothing(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    first = stop(w, bob).body
    w.dispatch()
    w.clock.advance(5)
    before = w.everything()
    assert stop(w, bob).body == first
    assert w.everything() == before


@pytest.mark.parametrize("change", [{"then": "fail"}, {"reason": "it is too dear"}])
def test_stopping_again_otherwise_is_one_more_event(w: CheckedWorld, change: dict[str, str]) -> None:
    bob = w.enrol("bob")
    stop(w, bob)
    shown = stop(w, bob, **change).body["agent"]["stop"]
    assert {**shown, **change} == shown
    assert events(w, bob) == ["agent.created", "agent.stopped", "agent.stopped"]


def test_a_repeat_of_a_stop_leaves_an_agent_alone_that_goes_on(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    stop(w, bob, key="k")
    w.ok("POST", "P/resume", {"agent": bob}, token="owner")
    w.claim(job, token="bob")
    reply = stop(w, bob, key="k")
    assert (reply.status, reply.headers["idempotency-replayed"]) == (200, "true")
    assert reply.body["agent"]["stop"] is None
    assert holds(w, "bob") == {job}


def test_a_repeat_of_a_resume_leaves_an_agent_stopped_that_was_stopped_again(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    stop(w, bob)
    for turn in range(2):
        w.ok("POST", "P/resume", {"agent": bob}, token="owner", key="k")
        if not turn:
            stop(w, bob)
    w.refused("stop_requested", "POST", "P/claims", {}, token="bob")


def test_a_retired_agent_cannot_be_stopped(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    w.ok("DELETE", f"P/agents/{bob}", token="owner")
    w.refused("wrong_state", "POST", f"P/agents/{bob}/stop", STOP, token="owner")


def test_a_stopped_agent_can_be_retired(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    stop(w, bob, "fail")
    w.ok("DELETE", f"P/agents/{bob}", token="owner")
    assert w.call("GET", "P/me", token="bob").code == "token_revoked"


def test_a_person_who_may_not_and_an_agent_that_is_not_there(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    w.viewer()
    for token, code in (("viewer", "forbidden"), ("bob", "forbidden"), ("agent", "not_found")):
        w.refused(code, "POST", f"P/agents/{bob}/stop", STOP, token=token)
    w.refused("not_found", "POST", "P/agents/agt_x/stop", STOP, token="owner")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {**STOP, "then": "restart"}])
def test_what_cannot_be_meant(w: CheckedWorld, body: dict[str, Any]) -> None:
    w.refused("invalid", "POST", f"P/agents/{w.enrol('bob')}/stop", body, token="owner")


# ---- what a call does not see


def test_a_claim_of_the_last_moment_is_caught_by_the_timer(w: CheckedWorld) -> None:
    """The claim was let in before the stop and written after the hands were emptied."""
    bob, job = w.enrol("bob"), w.job()
    table, read = w.bus.store.table, w.bus.store.table.batch_get
    stops: list[Reply] = []

    def between(*given: Any, **more: Any) -> Any:
        found = read(*given, **more)
        if not stops:
            stops.append(Reply(0, {}, None))
            stops[:] = [stop(w, bob, "fail")]
        return found

    with patch.object(type(table), "batch_get", staticmethod(between)):
        w.claim(job, token="bob")
    assert [reply.status for reply in stops] == [200]
    assert w.get(job)["status"] == "in_progress"
    w.dispatch()
    w.clock.advance(29)
    w.pump()
    assert w.get(job)["status"] == "in_progress"
    w.clock.advance(2)
    w.pump()
    assert w.get(job)["status"] == "failed"
    assert w.types(job)[-1] == "job.stopped"


def test_a_slow_stop_leaves_alone_what_is_claimed_once_an_owner_lets_it_go_on(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    found = timers._held

    def later(*given: Any) -> Any:
        w.ok("POST", "P/resume", {"agent": bob}, token="owner")
        w.claim(job, token="bob")
        return found(*given)

    with patch.object(timers, "_held", later):
        assert stop(w, bob).status == 200
    assert holds(w, "bob") == {job}
    assert events(w, bob) == ["agent.created", "agent.stopped", "agent.resumed"]


@pytest.mark.parametrize("late", [1, 40, 3 * 3_600])
@pytest.mark.parametrize("copies", [1, 3])
def test_messages_of_a_stop_come_twice_and_late(w: CheckedWorld, late: int, copies: int) -> None:
    bob, mine, others = w.enrol("bob"), w.job(lease_seconds=86_400), w.job(lease_seconds=86_400)
    w.claim(mine, token="bob")
    stop(w, bob)
    w.claim(mine)
    body = {"kind": "retire", "project": "default", "agent": bob}
    w.clock.advance(late)
    w.bus.store.queues.send("lease", [(body, 0)] * copies)
    w.pump()
    w.ok("POST", "P/resume", {"agent": bob}, token="owner")
    w.claim(others, token="bob")
    w.bus.store.queues.send("lease", [(body, 0)] * copies)
    w.pump()
    assert holds(w, "bob") == {others}
    assert holds(w, "agent") == {mine}


def test_a_stop_whose_process_dies_at_any_step_is_carried_out() -> None:
    deaths = 0
    for step in range(1, 40):
        faults = Faults()
        w = checked(wrap=faults.wrap)
        bob, jobs = w.enrol("bob"), [w.job() for _ in range(3)]
        for job in jobs:
            w.claim(job, token="bob")
        faults.arm(Fault(step, "before", "crash"))
        try:
            stop(w, bob, "cancel", key="k")
            faults.disarm()
            assert deaths >= 5, "there were steps to die at"
            return
        except DiedError:
            deaths += 1
        faults.disarm()
        if step % 2:  # the owner asks again, or not
            assert stop(w, bob, "cancel", key="k").status == 200
        w.dispatch()
        w.clock.advance(31)
        w.pump()
        stopped = w.ok("GET", f"P/agents/{bob}", token="owner")["agent"]["stop"] is not None
        assert {w.get(job)["status"] for job in jobs} == {"cancelled" if stopped else "in_progress"}
        assert events(w, bob).count("agent.stopped") == stopped
        assert stopped or not step % 2
    raise AssertionError("it never ended")


def test_a_resume_whose_process_dies_at_any_step_is_whole_or_not_there() -> None:
    seen = set()
    for step in range(1, 40):
        faults = Faults()
        w = checked(wrap=faults.wrap)
        bob = w.enrol("bob")
        w.ok("POST", "P/pause", {"agent": bob}, token="owner")
        stop(w, bob)
        faults.arm(Fault(step, "before", "crash"))
        try:
            w.ok("POST", "P/resume", {"agent": bob}, token="owner", key="k")
            faults.disarm()
            break
        except DiedError:
            faults.disarm()
        paused = bool(w.ok("GET", "P", token="owner")["project"]["paused"])
        stopped = w.ok("GET", f"P/agents/{bob}", token="owner")["agent"]["stop"] is not None
        assert paused == stopped
        seen.add(stopped)
        w.ok("POST", "P/resume", {"agent": bob}, token="owner", key="k")
        w.claim(w.job(), token="bob")
        assert events(w, bob).count("agent.resumed") == 1
    assert seen == {True}, "the last step is the write"


# ---- a claim of the last moment, before its hands are emptied


@pytest.fixture
def last_moment(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """The world's agent is stopped, and still holds a job that it claimed at the same moment."""
    job = w.job()
    fence = w.claim(job, lease_seconds=60)
    me = w.ok("GET", "P/me")["actor"]["id"]
    monkeypatch.setattr(timers, "empty_hands", lambda *_: 0)
    w.ok("POST", f"P/agents/{me}/stop", {"reason": "wrong model"}, token="owner")
    return job, fence


@pytest.mark.parametrize("verb", ["complete", "fail", "block", "release", "decisions", "artifacts"])
def test_it_does_nothing_more_under_its_fence(
    w: CheckedWorld, last_moment: tuple[str, int], verb: str
) -> None:
    job, fence = last_moment
    bodies = {
        "fail": {"reason": "r"}, "block": {"reason": "r"}, "decisions": {"kind": "approval", "prompt": "p"},
        "artifacts": {"type": "log", "uri": "s3://x"},
    }  # fmt: skip
    body = {"fence": fence, **bodies.get(verb, {})}
    refused = w.refused("stop_requested", "POST", f"P/jobs/{job}/{verb}", body)
    assert "wrong model" in refused.body["detail"]


def test_its_lease_is_not_renewed_and_its_beat_tells_it_to_stop(
    w: CheckedWorld, last_moment: tuple[str, int]
) -> None:
    job, fence = last_moment
    w.clock.advance(40)
    before = w.everything()
    beat = w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}, {"id": "job_x"}]})
    w.ok("GET", f"P/jobs/{job}")
    assert w.everything() == before
    stops = {claim["job"]: claim["stop"]["code"] for claim in beat["claims"]}
    assert stops == {job: "stop_requested", "job_x": "not_found"}
    for answer in (beat, w.ok("GET", "P/me")):
        assert [notice["reason"] for notice in answer["notices"]] == ["wrong model"]


def test_a_stopped_agent_answers_nothing(w: CheckedWorld) -> None:
    w.enrol("asker")
    job = w.job()
    fence = w.claim(job, token="asker")
    body = {"fence": fence, "kind": "review", "prompt": "p", "roles": ["reviewer"]}
    made = w.ok("POST", f"P/jobs/{job}/decisions", body, token="asker")["decision"]["id"]
    me = w.ok("GET", "P/me")["actor"]["id"]
    w.ok("POST", f"P/agents/{me}/stop", {"reason": "wrong model"}, token="owner")
    w.refused("stop_requested", "POST", f"P/decisions/{made}/answer", {"answer": "approve"})
    w.ok("POST", "P/resume", {"agent": me}, token="owner")
    w.ok("POST", f"P/decisions/{made}/answer", {"answer": "approve"})
