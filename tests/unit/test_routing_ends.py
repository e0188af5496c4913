"""Routing: every ending once, whatever way it came and however its message comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.sim.requests import park_changes
from tests.sim.services import serve_messages
from tests.unit.checked import CheckedWorld, checked
from tests.unit.ruled import at_rest, children, complete, events, fail, message, one_each, retry, routed, rule

from interlock.app import routing, write
from interlock.app.consumers import CONSUMERS
from interlock.store import keys


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- endings


def lapse(w: CheckedWorld, **more: Any) -> str:
    job = w.job(lease_seconds=30, on_expire="fail", **more)
    w.claim(job)
    w.dispatch()
    w.clock.advance(34)
    return job


def cancel_when_late(w: CheckedWorld, **more: Any) -> str:
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")
    job = w.job(deadline="2026-11-30T21:01:00Z", **more)
    w.dispatch()
    w.clock.advance(61)
    return job


def stop(then: str) -> Callable[..., str]:
    def act(w: CheckedWorld, **more: Any) -> str:
        job = w.job(**more)
        w.claim(job)
        w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r", "then": then}, token="owner")
        return job

    return act


def below(verb: str) -> Callable[..., str]:
    """It waits for a job that fails or is cancelled."""

    def act(w: CheckedWorld, **more: Any) -> str:
        up = w.job()
        job = w.job(blocked_by=[up], **more)
        if verb == "fail":
            fail(w, up)
        else:
            w.ok("POST", f"P/jobs/{up}/cancel", {"reason": "r"})
        return job

    return act


def ends(status: str) -> Callable[..., str]:
    return lambda w, **more: w.job_in(status, **more)[0]


WAYS: list[tuple[str, Callable[..., str], str]] = [
    ("completed by its holder", ends("completed"), "completed"),
    ("failed by its holder", ends("failed"), "failed"),
    ("cancelled by an owner", ends("cancelled"), "cancelled"),
    ("a lease that lapsed", lapse, "failed"),
    ("a deadline that cancels", cancel_when_late, "cancelled"),
    ("stopped, then failed", stop("fail"), "failed"),
    ("stopped, then cancelled", stop("cancel"), "cancelled"),
    ("an upstream that failed", below("fail"), "failed"),
    ("an upstream that was cancelled", below("cancel"), "cancelled"),
]


@pytest.mark.parametrize(("way", "ended"), [row[1:] for row in WAYS], ids=[row[0] for row in WAYS])
def test_every_way_to_an_end_is_routed(w: CheckedWorld, way: Callable[..., str], ended: str) -> None:
    job = way(w, routing=one_each())
    w.pump()
    assert w.get(job)["status"] == ended
    assert [child["summary"] for child in children(w, job)] == [f"after {ended}"]
    ((created, skipped),) = [(data["created"], data["skipped"]) for data in routed(w, job)]
    assert (len(created), skipped) == (1, [])
    at_rest(w)


@pytest.mark.parametrize("status", ["pending", "published", "in_progress", "blocked", "unblocked"])
def test_nothing_follows_before_the_end(w: CheckedWorld, status: str) -> None:
    job, _ = w.job_in(status, routing=one_each())
    w.dispatch()
    assert w.bus.store.queues.depth("routing") == 0
    w.pump()
    assert children(w, job) == []
    assert routed(w, job) == []


def test_an_end_without_a_rule_asks_nothing_of_the_bus(w: CheckedWorld) -> None:
    job, _ = w.job_in("failed", routing=[rule(), rule(on="cancelled")])
    w.dispatch()
    assert w.bus.store.queues.depth("routing") == 0
    w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    w.pump()
    assert (children(w, job), routed(w, job)) == ([], [])


def test_a_job_that_comes_back_from_a_cascade_and_falls_again_is_routed_each_time(w: CheckedWorld) -> None:
    up = w.job()
    job = w.job(blocked_by=[up], routing=one_each())
    fail(w, up)
    w.pump()
    retry(w, up)
    w.pump()
    assert w.get(job)["status"] == "pending"
    fail(w, up)
    w.pump()
    w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="owner")
    w.pump()
    assert sorted(child["summary"] for child in children(w, job)) == [
        "after cancelled",
        *["after failed"] * 2,
    ]
    assert len(routed(w, job)) == 3
    at_rest(w)


def test_a_retry_of_a_review_routes_for_itself(w: CheckedWorld) -> None:
    job = w.job(routing=[rule()])
    complete(w, job)
    reviewer = w.job(role="ops", blocked_by=[job])
    w.pump()
    body = {"fence": w.claim(reviewer), "target": job, "reason": "again"}
    again = w.ok("POST", f"P/jobs/{reviewer}/reject", body)["retry"]["id"]
    complete(w, again)
    w.pump()
    (child,) = children(w, again)
    assert w.get(child["id"])["context"] == {"routed_from_job_id": again}
    assert len(children(w, job)) == len(routed(w, job)) == 1
    at_rest(w)


# ---- messages


def test_a_message_that_comes_again_finds_nothing_to_do(w: CheckedWorld) -> None:
    job = w.job(routing=[rule(), rule(when={"field": "data", "op": "exists"})])
    complete(w, job)
    w.pump()
    before = w.everything()
    for receives in (1, 2, 3):
        CONSUMERS["routing"](w.bus, message(job), receives)
    assert w.everything() == before


def test_a_message_about_nothing_is_dropped(w: CheckedWorld) -> None:
    for job in ("job_none", w.job(), w.job(routing=[rule()])):
        before = w.everything()
        CONSUMERS["routing"](w.bus, message(job), 1)
        assert w.everything() == before


def test_one_message_routes_every_ending_that_is_left(w: CheckedWorld) -> None:
    """The message of the first failure comes when the job has failed again."""
    job = w.job(routing=one_each())
    for _ in range(3):
        fail(w, job)
        retry(w, job)
    w.dispatch()
    CONSUMERS["routing"](w.bus, message(job), 1)
    assert [child["summary"] for child in children(w, job)] == ["after failed"] * 3
    assert [len(data["created"]) for data in routed(w, job)] == [1, 1, 1]
    w.pump()
    assert len(children(w, job)) == 3
    at_rest(w)


@pytest.mark.parametrize(
    "when", ["before the retry", "after the retry", "when it is held again", "after the end"]
)
def test_each_failure_is_routed_once_whenever_its_message_comes(w: CheckedWorld, when: str) -> None:
    job = w.job(routing=[rule(on="failed", summary="mend"), rule(summary="show")])
    fail(w, job)
    if when == "before the retry":
        w.pump()
    retry(w, job)
    if when == "after the retry":
        w.pump()
    fence = w.claim(job)
    if when == "when it is held again":
        w.pump()
        assert w.get(job)["fence"] == fence
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "again"})
    w.ok("POST", f"P/jobs/{job}/restart", {})
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.get(job)["fence"]})
    w.pump()
    assert sorted(child["summary"] for child in children(w, job)) == ["mend", "mend", "show"]
    assert w.get(job)["status"] == "completed"
    at_rest(w)


def test_routing_does_not_disturb_whoever_holds_the_job(w: CheckedWorld) -> None:
    job = w.job(routing=one_each())
    fail(w, job)
    restarted = w.ok("POST", f"P/jobs/{job}/restart", {})
    w.pump()
    assert [event["from"] for event in events(w, job, "job.routed")] == ["in_progress"]
    now = w.get(job)
    assert now["rev"] == restarted["job"]["rev"]
    assert now["lease_expires_at"] == restarted["claim"]["expires_at"]
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": restarted["claim"]["fence"]})


def test_repair_makes_what_a_lost_message_owed(w: CheckedWorld) -> None:
    job = w.job(routing=one_each())
    fail(w, job)
    retry(w, job)
    complete(w, job)
    w.dispatch()
    queues = w.bus.store.queues
    while lost := queues.receive("routing"):
        queues.delete("routing", [one.receipt for one in lost])
    w.pump()
    assert children(w, job) == []
    w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    w.pump()
    assert sorted(child["summary"] for child in children(w, job)) == ["after completed", "after failed"]
    at_rest(w)


def test_dead_messages_are_redriven(w: CheckedWorld) -> None:
    job = w.job(routing=[rule()])
    complete(w, job)
    w.dispatch()
    queues = w.bus.store.queues
    (found,) = queues.receive("routing")
    queues.delete("routing", [found.receipt])
    queues.send("routing-dead", [(found.body, 0), (found.body, 0)])
    done = w.ok("POST", "/v1/dead-letters/redrive", {"queue": "routing-dead"}, token="owner")
    assert (done["redriven"], done["failed"]) == (2, 0)
    w.pump()
    assert len(children(w, job)) == len(routed(w, job)) == 1
    at_rest(w)


def test_changes_that_were_parked_route_when_they_are_redriven(w: CheckedWorld) -> None:
    job = w.job(routing=one_each())
    w.pump()
    fail(w, job)
    park_changes(w)
    retry(w, job)
    fail(w, job)
    w.pump()
    w.ok("POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner")
    w.pump()
    assert len(children(w, job)) == 2
    at_rest(w)


def test_a_head_that_never_stands_still_leaves_the_message_for_later(w: CheckedWorld) -> None:
    job = w.job(routing=[rule()])
    complete(w, job)
    w.dispatch()
    with patch.object(routing.write, "change", side_effect=write.Lost) as tries, pytest.raises(write.Lost):
        CONSUMERS["routing"](w.bus, message(job), 1)
    assert tries.call_count == write.TRIES
    assert children(w, job) == []  # what was staged is nothing yet
    serve_messages(w, "routing")
    assert len(children(w, job)) == 1
    at_rest(w)


def test_a_twin_that_comes_late_leaves_what_is_there_as_it_is(w: CheckedWorld) -> None:
    """It has read the head before another one routed it, and prepares the same jobs a while after."""
    job = w.job(routing=[rule(artifacts=[{"type": "spec", "uri": "s3://x"}])])
    complete(w, job)
    w.dispatch()
    read, seen = routing.load.work, []

    def overtaken(bus: Any, head: Any) -> Any:
        if not seen:
            seen.append(head)
            CONSUMERS["routing"](w.bus, message(job), 1)
            seen.append(w.everything())
            w.clock.advance(5)
        return read(bus, head)

    with patch.object(routing.load, "work", overtaken):
        CONSUMERS["routing"](w.bus, message(job), 1)
    assert w.everything() == seen[1]
    assert len(children(w, job)) == 1


def test_what_was_staged_for_a_role_that_went_meanwhile_is_seen_by_nobody(w: CheckedWorld) -> None:
    job = w.job(routing=[rule(), rule(role="ops")])
    complete(w, job)
    w.dispatch()
    with patch.object(routing.write, "change", side_effect=write.Lost), pytest.raises(write.Lost):
        CONSUMERS["routing"](w.bus, message(job), 1)
    w.ok("DELETE", "P/roles/ops", token="owner")
    w.pump()
    (data,) = routed(w, job)
    assert [child["id"] for child in children(w, job)] == data["created"]
    assert [item["rule"] for item in data["skipped"]] == [1]
    graph = w.ok("GET", f"P/jobs/{job}/graph")
    assert {node["id"] for node in graph["nodes"]} == {job, *data["created"]}
    newest = w.ok("GET", "P/jobs", query={"limit": 100}, token="owner")["items"]
    assert {found["id"] for found in newest} == {job, *data["created"]}


def test_the_head_forgets_what_was_routed(w: CheckedWorld) -> None:
    job = w.job(routing=one_each())
    head = keys.head("default", "job", job)
    fail(w, job)
    assert w.bus.store.table.get(head)["unrouted"] == {"3": "failed"}
    w.pump()
    assert "unrouted" not in w.bus.store.table.get(head)
