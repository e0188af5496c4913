"""A tool call that is repeated after a time-out has one effect, whichever tool it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.speaker import Speaker
from tests.sim.world import World, world

EVIDENCE = {"type": "report", "uri": "https://example.org/report"}
ASKED = {"kind": "question", "prompt": "Which?", "blocker": "b", "risk": "r"}
Call = tuple[str, dict[str, Any]]


def held(w: World, agent: Speaker, **fields: Any) -> dict[str, Any]:
    job = w.job(**fields)
    return {"job": job, "fence": agent.ok("claim_job", job=job)["claim"]["fence"]}


def publish(_w: World, _a: Speaker) -> Call:
    return "publish_job", {"summary": "x", "role": "qa"}


def plan(_w: World, _a: Speaker) -> Call:
    return "publish_plan", {"jobs": [{"ref": "a", "summary": "x", "role": "qa"}]}


def claim_next(w: World, _a: Speaker) -> Call:
    for _ in range(3):
        w.job()
    return "claim_next", {"heartbeat_seconds": 30}


def claim(w: World, _a: Speaker) -> Call:
    return "claim_job", {"job": w.job()}


def complete(w: World, a: Speaker) -> Call:
    return "complete_job", {**held(w, a), "result": {"summary": "s", "artifacts": [EVIDENCE]}}


def fail(w: World, a: Speaker) -> Call:
    return "fail_job", {**held(w, a), "reason": "r"}


def block(w: World, a: Speaker) -> Call:
    return "set_job_status", {**held(w, a), "action": "block", "reason": "r"}


def unblock(w: World, a: Speaker) -> Call:
    _, given = block(w, a)
    a.ok("set_job_status", **given)
    return "set_job_status", {**given, "action": "unblock"}


def resume(w: World, a: Speaker) -> Call:
    _, given = unblock(w, a)
    a.ok("set_job_status", **given)
    del given["reason"]
    return "set_job_status", {**given, "action": "resume"}


def release(w: World, a: Speaker) -> Call:
    return "set_job_status", {**held(w, a), "action": "release"}


def restart(w: World, a: Speaker) -> Call:
    _, given = fail(w, a)
    a.ok("fail_job", **given)
    return "set_job_status", {"job": given["job"], "action": "restart"}


def cancel(w: World, _a: Speaker) -> Call:
    return "set_job_status", {"job": w.job(), "action": "cancel", "reason": "r"}


def attach(w: World, a: Speaker) -> Call:
    return "attach_artifact", {**held(w, a), **EVIDENCE}


def announce(w: World, a: Speaker) -> Call:
    digest = hashlib.sha256(b"x").hexdigest()
    return "attach_artifact", {**held(w, a), "type": "log", "name": "a", "size": 1, "sha256": digest}


def record(w: World, _a: Speaker) -> Call:
    return "record_event", {"job": w.job(), "type": "custom.x", "data": {"n": 1}}


def ask(w: World, a: Speaker) -> Call:
    return "request_decision", {**held(w, a), **ASKED}


def answer(w: World, a: Speaker) -> Call:
    w.enrol("bob", ("qa",))
    bob = Speaker(w, "bob")
    given = held(w, bob, role="qa")
    asked = bob.ok("request_decision", **given, **ASKED, roles=["developer"])["decision"]["id"]
    return "answer_decision", {"decision": asked, "answer": "this one"}


def withdraw(w: World, a: Speaker) -> Call:
    _, given = ask(w, a)
    asked = a.ok("request_decision", **given)["decision"]["id"]
    return "answer_decision", {"decision": asked, "action": "withdraw", "note": "not needed"}


def reject(w: World, a: Speaker) -> Call:
    w.enrol("bob", ("developer",))
    bob = Speaker(w, "bob")
    work = held(w, bob)
    review = w.job(role="reviewer", blocked_by=[work["job"]])
    bob.ok("complete_job", **work)
    w.pump()
    fence = a.ok("claim_job", job=review)["claim"]["fence"]
    return "reject_job", {"job": review, "fence": fence, "target": work["job"], "reason": "again"}


def edit(w: World, _a: Speaker) -> Call:
    return "edit_job", {"job": w.job(), "version": 1, "summary": "other"}


def link(w: World, _a: Speaker) -> Call:
    return "edit_job", {"job": w.job(), "upstream": w.job()}


CALLS: list[Callable[[World, Speaker], Call]] = [
    publish, plan, claim_next, claim, complete, fail, block, unblock, resume, release, restart, cancel, attach, announce,
    record, ask, answer, withdraw, reject, edit, link,
]  # fmt: skip
OTHER: dict[str, Any] = {
    "summary": "another", "reason": "another", "jobs": [{"ref": "b", "summary": "y", "role": "qa"}], "prompt": "another",
    "answer": "another", "note": "another", "uri": "https://example.org/other", "data": {"n": 2}, "size": 2,
}  # fmt: skip


def history(w: World) -> list[tuple[str, str]]:
    w.pump()
    feed = w.ok("GET", "P/events", query={"limit": 1_000}, token="owner")
    return [(event["entity"], event["type"]) for event in feed["items"]]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("modern", [False, True], ids=["2025-11-25", "2026-07-28"])
def test_the_same_key_is_the_same_effect(call: Callable[[World, Speaker], Call], modern: bool) -> None:
    w = world()
    agent = Speaker(w, modern=modern)
    tool, given = call(w, agent)
    given = {**given, "idempotency_key": "k-1"}
    first = agent.ok(tool, **given)
    before = history(w)
    again = agent.ok(tool, **given)
    assert history(w) == before, "no event came of the second call"
    for part in ("job", "claim", "decision", "artifact", "jobs", "plan", "retry"):
        one, two = first.get(part), again.get(part)
        if part == "claim" and one is not None:
            assert two["fence"] == one["fence"]
        elif isinstance(one, dict) and "id" in one:
            assert two["id"] == one["id"], part
        elif part in ("jobs", "plan"):
            assert two == one
    changed = {field: value for field, value in OTHER.items() if field in given}
    if changed:
        refused = agent.call(tool, **{**given, **changed})["structuredContent"]
        assert refused["error"]["code"] == "idempotency_mismatch", refused
        assert history(w) == before


@pytest.mark.parametrize("call", [complete, fail], ids=lambda call: call.__name__)
def test_an_end_under_the_same_fence_needs_no_key(call: Callable[[World, Speaker], Call]) -> None:
    w = world()
    agent = Speaker(w)
    tool, given = call(w, agent)
    first = agent.ok(tool, **given)
    before = history(w)
    assert agent.ok(tool, **given)["job"]["status"] == first["job"]["status"]
    assert history(w) == before


def test_a_claim_under_a_key_is_kept_and_another_agents_key_is_its_own() -> None:
    w = world()
    w.enrol("bob")
    agent, bob = Speaker(w), Speaker(w, "bob")
    for _ in range(3):
        w.job()
    first = agent.ok("claim_next", idempotency_key="k")
    assert agent.ok("claim_next", idempotency_key="k")["job"]["id"] == first["job"]["id"]
    other = bob.ok("claim_next", idempotency_key="k")
    assert other["job"]["id"] != first["job"]["id"]
    agent.ok("complete_job", job=first["job"]["id"], fence=first["claim"]["fence"])
    late = agent.ok("claim_next", idempotency_key="k")
    assert "claim" not in late, "that claim has ended, and no other job is taken"
    assert "has ended" in late["next"][0]
