"""Races of reports: heartbeats of several sessions, and all that ends a claim meanwhile. No amount is lost or doubled.

What must hold of every job is judged by tests/sim/oracle_usage.py after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.sim import oracle, oracle_usage
from tests.sim.hands import REASON, Hand, messengers, rest, statuses, told
from tests.sim.race import Race, Sent, explore
from tests.sim.requests_presence import daily

from interlock.domain import usage
from interlock.domain.job import Job

WAYS = ("complete", "fail", "block", "release", "stop", "cancel")


def holder(race: Race, name: str = "maker", **fields: Any) -> Hand:
    """An agent that holds a job."""
    race.w.enrol(name, ("developer", "reviewer"))
    return Hand(race, race.w.job(**{"max_retries": 9, **fields}), name).take()


def some(race: Race) -> dict[str, int]:
    """What one report says."""
    names = race.rng.sample(["input_tokens", "output_tokens", "seconds"], race.rng.choice([1, 2]))
    return {name: race.rng.randrange(1, 50) for name in names}


def beats(hand: Hand, name: str, *reports: dict[str, int]) -> list[Sent]:
    """An actor that reports, one after the other, with heartbeats."""
    race, sent = hand.race, []

    def work() -> None:
        for report in reports:
            body = {"jobs": [{"id": hand.job, "fence": hand.fence, "usage": report}]}
            race.w.call("POST", "P/heartbeat", body, token=hand.token)
            sent.append(next(each for each in reversed(race.record) if each.actor == name))

    race.does(name, work)
    return sent


def ends(hand: Hand, way: str, report: dict[str, int] | None) -> Sent:
    """An actor that ends the claim, and reports what the call lets it report."""
    path = f"P/jobs/{hand.job}/{way}"
    if way in ("stop", "cancel"):
        return hand.race.calls(way, "POST", path, REASON, token="owner")
    body = {
        "fence": hand.fence,
        **({} if way == "complete" else REASON),
        **({"usage": report} if report else {}),
    }
    return hand.race.calls(way, "POST", path, body, token=hand.token)


def accepted(sent: Sent, hand: Hand) -> bool:
    """Whether the caller was told that it holds the job, so that its report must count."""
    if not sent.path.endswith("/heartbeat"):
        return sent.status == 200
    claims = sent.reply.body["claims"] if sent.status == 200 else []
    return any(claim["job"] == hand.job and "stop" not in claim for claim in claims)


def of(sent: Sent) -> dict[str, int]:
    """The report of a call."""
    given = sent.body["jobs"][0]["usage"] if "jobs" in sent.body else sent.body.get("usage")
    return {name: amount * (1_000 if name == "seconds" else 1) for name, amount in (given or {}).items()}


def head_of(race: Race, job: str) -> Job:
    found = oracle.memory(race.w).heads[f"default#job#{job}"]
    assert isinstance(found, Job)
    return found


def exact(race: Race, hand: Hand, sent: Sequence[Sent]) -> None:
    """Of each amount the largest that was accepted counts, and nothing that nobody sent."""
    said = usage.reported(head_of(race, hand.job))
    for name in usage.AMOUNTS:
        least = max((of(each).get(name, 0) for each in sent if accepted(each, hand)), default=0)
        most = max((of(each).get(name, 0) for each in sent), default=0)
        assert least <= said.get(name, 0) <= most, f"{name}: {said}, accepted {least}, sent {most}"


def counted(race: Race) -> None:
    """The day's counters add up to what the heads say."""
    state = oracle.memory(race.w)
    found = oracle_usage.day_counters(state)["default"]
    assert {name: found[name] for name in usage.BUDGETED} == oracle_usage.reported(state)


def reports_at_once(race: Race) -> None:
    """Several sessions of one agent report about one job, in any order: the largest amounts count."""
    if race.rng.random() < 0.5:
        daily(race.w)
    hand = holder(race)
    sent = [beats(hand, f"session{n}", *[some(race) for _ in range(2)]) for n in range(3)]
    race.run()
    all_sent = [each for one in sent for each in one]
    assert all(accepted(each, hand) for each in all_sent)
    rest(race)
    exact(race, hand, all_sent)


def a_report_against_the_end(race: Race) -> None:
    """A claim ends, with or without a last report, while others come: none that was accepted is lost."""
    counts = race.rng.random() < 0.5
    if counts:
        daily(race.w)
    hand = holder(race)
    sent = [beats(hand, f"session{n}", some(race)) for n in range(2)]
    way = race.rng.choice(WAYS)
    end = ends(hand, way, some(race) if race.rng.random() < 0.6 else None)
    messengers(race)
    race.run()
    assert end.status == 200, end
    rest(race)
    exact(race, hand, [*sent[0], *sent[1], end])
    if counts:
        counted(race)
    if way != "block":
        reported = bool(usage.reported(head_of(race, hand.job)))
        assert told(race, hand.job)["job.usage_reported"] == reported


def a_report_against_a_lapse(race: Race) -> None:
    """The lease is over: the report renews it, or comes under an older fence and counts for nothing."""
    daily(race.w)
    hand = holder(race, lease_seconds=30)
    race.w.ok("POST", "P/heartbeat", {"jobs": [{"id": hand.job, "usage": {"seconds": 3}}]}, token="maker")
    race.w.enrol("other")
    race.w.clock.advance(33)
    first = beats(hand, "late", {"seconds": 20})
    race.does("other", lambda: race.w.call("POST", f"P/jobs/{hand.job}/claim", {}, token="other") and None)
    messengers(race)
    race.run()
    rest(race)
    said = usage.reported(head_of(race, hand.job))["seconds"]
    assert said in (3_000, 20_000)
    if accepted(first[0], hand):
        assert said == 20_000
    counted(race)


def claims_of_two_sessions(race: Race) -> None:
    """Reports under the old fence come while the same agent holds the job anew, and reports there."""
    daily(race.w)
    hand = holder(race)
    old = hand.fence
    race.w.ok(
        "POST",
        "P/heartbeat",
        {"jobs": [{"id": hand.job, "fence": old, "usage": {"seconds": 5}}]},
        token="maker",
    )

    def again() -> None:
        hand.step("release")
        hand.step("claim")
        body = {"jobs": [{"id": hand.job, "fence": hand.fence, "usage": {"seconds": 1}}]}
        race.w.call("POST", "P/heartbeat", body, token="maker")

    race.does("again", again)
    for n in range(2):
        body = {"jobs": [{"id": hand.job, "fence": old, "usage": {"seconds": 8 + n}}]}
        race.calls(f"old{n}", "POST", "P/heartbeat", body, token="maker")
    messengers(race)
    race.run()
    rest(race)
    said = usage.reported(head_of(race, hand.job))["seconds"]
    assert said in (6_000, 9_000, 10_000)
    counted(race)


def one_day_of_many_jobs(race: Race) -> None:
    """One agent's jobs share a counter; so do its sessions. Faults and repeats count nothing twice."""
    daily(race.w)
    race.w.enrol("maker", ("developer", "reviewer"))
    hands = [
        Hand(race, race.w.job(role=role), "maker").take() for role in ("developer", "developer", "reviewer")
    ]
    race.trouble = race.rng.choice([0.0, 0.05])
    for n, hand in enumerate(hands):
        report = some(race)
        beats(hand, f"beat{n}", report, report, some(race))
    ends(hands[0], race.rng.choice(WAYS[:4]), some(race))
    messengers(race)
    race.run()
    race.trouble = 0.0
    rest(race)
    counted(race)


def a_day_that_is_spent(race: Race) -> None:
    """Claims that begin once the day's budget is spent are refused; those before may go on."""
    w = race.w
    w.ok("PATCH", "P/roles/developer", {"daily_budget": {"seconds": 10}}, token="owner")
    hand = holder(race)
    waiting = w.job()
    beats(hand, "spends", {"seconds": 10})
    claims = [race.calls(f"claim{n}", "POST", f"P/jobs/{waiting}/claim", {}) for n in range(2)]
    race.run()
    late = w.call("POST", f"P/jobs/{w.job()}/claim", {})
    assert late.code == "budget_spent"
    assert late.body["until"] == "2026-12-01T00:00:00.000Z"
    assert {each.code for each in claims} <= {None, "budget_spent", "already_claimed"}
    rest(race)
    counted(race)


def a_metered_budget(race: Race) -> None:
    """Judged by heartbeats and by the lease's timer at once: asked once, and the job waits."""
    hand = holder(race, budget={"seconds": 20, "count": "metered"}, lease_seconds=30)
    race.w.dispatch()
    race.w.clock.advance(25)
    for n in range(2):
        race.calls(f"beat{n}", "POST", "P/heartbeat", {}, token="maker")
    race.clock(3, 3)
    messengers(race, chaos=race.rng.random() < 0.5)
    race.run()
    rest(race)
    assert statuses(race, [hand.job]) == ["blocked"]
    assert told(race, hand.job)["job.budget_exceeded"] == 1


SCENARIOS: list[Callable[[Race], None]] = [
    reports_at_once,
    a_report_against_the_end,
    a_report_against_a_lapse,
    claims_of_two_sessions,
    one_day_of_many_jobs,
    a_day_that_is_spent,
    a_metered_budget,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 8)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 200)
