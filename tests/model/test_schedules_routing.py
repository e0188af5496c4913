"""Races around routing: every ending makes its jobs once, whatever comes twice, late, in another order or never.

The oracle computes from rules and ledger which jobs there must be; the scenarios see to it that there is something to
get wrong, and judge what only they know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.race import Race, explore

OK = {"field": "data.ok", "op": "eq", "value": True}
RULES = [
    {"role": "qa", "summary": "mend", "on": "failed"},
    {"role": "qa", "summary": "look", "context": {"a": 1}},
    {"role": "ops", "summary": "ship", "when": OK, "artifacts": [{"type": "spec", "uri": "s3://x"}]},
    {"role": "ops", "summary": "tidy", "on": "cancelled"},
    {"role": "reviewer", "summary": "never", "when": {**OK, "op": "neq"}},
]
DONE = {"summary": "done", "data": {"ok": True}}


def followers(race: Race, job: str) -> Counter[str]:
    """What came of a job, counted by summary."""
    return Counter(found.summary for found in oracle.memory(race.w).jobs if found.routed_from == job)


def told(race: Race, job: str) -> list[dict[str, Any]]:
    """What the job's ledger tells of its routing."""
    events = oracle.memory(race.w).events[f"default#job#{job}"]
    return [event["data"] for event in events if event["type"] == "job.routed"]


def held(race: Race, **more: Any) -> tuple[str, int]:
    """A job with rules, and the fence under which the world's agent holds it."""
    job = race.w.job(routing=RULES, **more)
    return job, race.w.claim(job)


def complete(race: Race, job: str, fence: int, name: str = "done") -> Any:
    return race.calls(name, "POST", f"P/jobs/{job}/complete", {"fence": fence, "result": DONE})


def servants(race: Race, *, chaos: bool = False) -> None:
    """A dispatcher that sends things twice, and two consumers who look often enough to be there when they come."""
    race.dispatcher(rounds=20, chaos=True)
    for n in range(2):
        race.consumer(rounds=50, chaos=chaos, name=f"consumer{n}")


def a_message_that_two_have(race: Race) -> None:
    """Several consumers route the same ending at once."""
    w = race.w
    job, fence = held(race)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "result": DONE})
    w.dispatch()
    body = {"kind": "route", "project": "default", "job": job}
    w.engine.store.queues.send("routing", [(body, 0)] * 3)
    for n in range(3):
        race.consumer(rounds=2, name=f"consumer{n}")
    race.run()
    race.settle()
    assert followers(race, job) == {"look": 1, "ship": 1}
    assert [entry["skipped"] for entry in told(race, job)] == [[{"rule": 4, "reason": "guard"}]]


def failures_and_retries(race: Race) -> None:
    """The job fails, is retried and fails again while the messages of earlier failures are still on their way."""
    w = race.w
    job, fence = held(race, max_retries=9)

    def work() -> None:
        now = fence
        for turn in range(3):
            w.ok("POST", f"P/jobs/{job}/fail", {"fence": now, "reason": "broken"})
            if race.rng.random() < 0.5:
                now = w.ok("POST", f"P/jobs/{job}/restart", {})["claim"]["fence"]
            else:
                w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
                now = w.claim(job)
            if turn == 1:
                w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.note"})
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": now, "result": DONE})

    race.does("worker", work)
    servants(race, chaos=race.rng.random() < 0.7)
    race.run()
    if race.lossy:
        race.repair()
    race.settle()
    assert followers(race, job) == {"mend": 3, "look": 1, "ship": 1}
    assert len(told(race, job)) == 4


def one_end_of_many(race: Race) -> None:
    """Completed, stopped, cancelled or lapsed, all at once: what follows is of the end that it was."""
    w = race.w
    job, fence = held(race, lease_seconds=30, on_expire="fail", deadline="2026-11-30T21:00:50Z")
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")
    complete(race, job, fence)
    path = f"P/jobs/{job}"
    race.calls("stop", "POST", f"{path}/stop", {"reason": "r", "then": "fail"}, token="owner")
    race.calls("cancel", "POST", f"{path}/cancel", {"reason": "r"}, token="owner")
    race.clock(20, 20, 20)
    servants(race)
    race.run()
    race.settle()
    events = oracle.memory(w).events[f"default#job#{job}"]
    ends = Counter(e["to"] for e in events if e["to"] != e["from"])
    wanted: Counter[str] = Counter()
    for status, names in {"completed": ("look", "ship"), "failed": ("mend",), "cancelled": ("tidy",)}.items():
        wanted.update({name: ends[status] for name in names if ends[status]})
    assert followers(race, job) == wanted


def a_role_that_comes_and_goes(race: Race) -> None:
    """A role is deleted, and made again, while its rules fire: what the event tells is what there is."""
    w = race.w
    jobs = [held(race) for _ in range(3)]
    for n, (job, fence) in enumerate(jobs):
        complete(race, job, fence, f"done{n}")

    def owner() -> None:
        w.ok("DELETE", "P/roles/ops", token="owner")
        if race.rng.random() < 0.5:
            w.ok("POST", "P/roles", {"key": "ops", "label": "O"}, token="owner")

    race.does("owner", owner)
    servants(race)
    race.run()
    race.settle()
    for job, _ in jobs:
        (entry,) = told(race, job)
        gone = {"rule": 2, "reason": "unknown_role", "role": "ops"} in entry["skipped"]
        assert followers(race, job) == ({"look": 1} if gone else {"look": 1, "ship": 1})
        assert w.get(job)["status"] == "completed"


def a_role_that_was_gone_before(race: Race) -> None:
    """What ended after the role had been deleted makes no job of it, not even one that was begun by halves."""
    w = race.w
    (job, fence), (late, late_fence) = held(race), held(race)
    complete(race, job, fence)
    servants(race)
    race.run()
    w.ok("DELETE", "P/roles/ops", token="owner")
    complete(race, late, late_fence)
    servants(race)
    race.run()
    race.settle()
    assert followers(race, late) == {"look": 1}
    assert followers(race, job)["look"] == 1


def a_head_that_does_not_stand_still(race: Race) -> None:
    """Others write on the job while it is routed: notes, artifacts; nobody loses anything."""
    w = race.w
    job, fence = held(race)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "result": DONE})
    for n in range(4):
        race.calls(f"note{n}", "POST", f"P/jobs/{job}/events", {"type": "custom.note"}, token="owner")
    artifact = {"type": "log", "uri": "s3://x"}
    race.calls("owner", "POST", f"P/jobs/{job}/artifacts", artifact, token="owner")
    servants(race)
    race.run()
    race.settle()
    assert followers(race, job) == {"look": 1, "ship": 1}
    events = oracle.memory(w).events[f"default#job#{job}"]
    assert Counter(e["type"] for e in events)["custom.note"] == 4
    assert len(w.get(job)["artifacts"]) == 1


def dead_and_repaired(race: Race) -> None:
    """Redrive and repair send again what is being handled."""
    w = race.w
    job, fence = held(race)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    w.dispatch()
    queues = w.engine.store.queues
    found = queues.receive("routing")
    queues.delete("routing", [message.receipt for message in found])
    queues.send("routing-dead", [(message.body, 0) for message in found] * 2)
    race.calls("end", "POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="owner")
    for n in range(2):
        path = "/v1/dead-letters/redrive"
        race.calls(f"redrive{n}", "POST", path, {"queue": "routing-dead"}, token="owner")
    race.calls("repair", "POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    servants(race, chaos=True)
    race.run()
    w.clock.advance(61)
    w.ok("POST", "/v1/dead-letters/redrive", {"queue": "routing-dead"}, token="owner")
    race.repair()
    race.settle()
    assert followers(race, job) == {"mend": 1, "tidy": 1}


def parked_and_redriven(race: Race) -> None:
    """The records of some endings were parked: redrive brings them back beside later ones."""
    from tests.sim.requests import park_changes

    w = race.w
    job, fence = held(race, max_retries=9)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    park_changes(w)
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    again = w.claim(job)
    race.calls("fail", "POST", f"P/jobs/{job}/fail", {"fence": again, "reason": "r"})
    race.calls("redrive", "POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner")
    servants(race)
    race.run()
    race.settle()
    assert followers(race, job) == {"mend": 2}


def a_cascade_that_flaps(race: Race) -> None:
    """An upstream fails and comes back: each time that the waiting job failed with it, its rule fired once."""
    w = race.w
    up = w.job(max_retries=9)
    job = w.job(routing=RULES, blocked_by=[up])
    fence = w.claim(up)

    def work() -> None:
        now = fence
        for _ in range(3):
            w.ok("POST", f"P/jobs/{up}/fail", {"fence": now, "reason": "broken"})
            for _ in range(race.rng.choice((0, 4, 30))):
                race.schedule.step("wait")
            now = w.ok("POST", f"P/jobs/{up}/restart", {})["claim"]["fence"]
        if race.rng.random() < 0.5:
            w.ok("POST", f"P/jobs/{up}/cancel", {"reason": "r"}, token="owner")

    race.does("worker", work)
    servants(race, chaos=race.rng.random() < 0.3)
    race.run()
    if race.lossy:
        race.repair()
    race.settle()
    events = oracle.memory(w).events[f"default#job#{job}"]
    ends = Counter(e["to"] for e in events if e["to"] != e["from"])
    found = followers(race, job)
    assert (found["mend"], found["tidy"]) == (ends["failed"], ends["cancelled"])


def a_review_that_sends_it_back(race: Race) -> None:
    """The retry has the rules too; each of the two routes for itself."""
    w = race.w
    w.enrol("rev", ("reviewer",))
    job, fence = held(race)
    review = w.job(role="reviewer", blocked_by=[job])
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "result": DONE})
    oracle.settle(w)
    taken = w.claim(review, token="rev")
    body = {"fence": taken, "target": job, "reason": "again"}
    sent = race.calls("reject", "POST", f"P/jobs/{review}/reject", body, token="rev")
    repair = {"entity": f"job/{job}"}
    race.calls("repair", "POST", "P/repair", repair, token="owner")
    servants(race)
    race.run()
    again = sent.reply.body["retry"]["id"]
    complete(race, again, w.claim(again))
    servants(race)
    race.run()
    race.settle()
    assert followers(race, job) == followers(race, again) == {"look": 1, "ship": 1}


def a_deadly_day(race: Race) -> None:
    """Processes die, the store fails, its client repeats, while jobs end in every way and are routed."""
    w = race.w
    (a, fence_a), (b, fence_b), (c, fence_c) = [held(race, max_retries=9) for _ in range(3)]

    def end(verb: str, job: str, body: dict[str, Any], **more: Any) -> None:
        def work() -> None:
            for _ in range(20):
                reply = w.call("POST", f"P/jobs/{job}/{verb}", body, key=f"{verb} {job}", **more)
                if reply.status in (200, 201, 409):
                    return

        race.does(f"{verb} {job}", work)

    race.trouble = 0.04
    end("complete", a, {"fence": fence_a, "result": DONE})
    end("fail", b, {"fence": fence_b, "reason": "r"})
    end("stop", c, {"reason": "r", "then": "cancel"}, token="owner")
    end("complete", c, {"fence": fence_c, "result": DONE})
    race.run()
    end("retry", b, {}, token="owner")
    end("cancel", b, {"reason": "r"}, token="owner")
    w.dispatch()
    servants(race)
    race.run()
    race.trouble = 0.0
    w.clock.advance(61)
    race.settle()
    assert followers(race, a) == {"look": 1, "ship": 1}
    assert followers(race, b)["mend"] <= 1
    assert followers(race, c) in ({"look": 1, "ship": 1}, {"tidy": 1})


SCENARIOS: list[Callable[[Race], None]] = [
    a_message_that_two_have,
    failures_and_retries,
    one_end_of_many,
    a_role_that_comes_and_goes,
    a_role_that_was_gone_before,
    a_head_that_does_not_stand_still,
    dead_and_repaired,
    parked_and_redriven,
    a_cascade_that_flaps,
    a_review_that_sends_it_back,
    a_deadly_day,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)
