"""Races for plans: all of their jobs become real or none, whoever makes them, and whatever the others do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.hands import ALIVE, STORIES, Hand, answers, creates, held, messengers, post, rest, statuses
from tests.sim.race import Race, explore

from interlock.app import making, plans


def planned(ref: str, *ups: str, **more: Any) -> dict[str, Any]:
    """A job of a plan."""
    return {"ref": ref, "summary": ref, "role": "developer", "blocked_by": list(ups), **more}


def diamond(*outside: str, **more: Any) -> dict[str, Any]:
    """a; b and c after it and what is outside; d after all of them; e beside them."""
    jobs = [planned("a"), planned("b", "a", *outside), planned("c", "a"), planned("d", "b", "c", *outside)]
    return {"jobs": [{**job, **more} for job in [*jobs, planned("e")]]}


def plan_of(race: Race) -> dict[str, str]:
    """The jobs by ref of the one plan that calls were answered with."""
    (found,) = {
        tuple(s.reply.body["jobs"].items())
        for s in race.record
        if s.path.endswith("/plans") and s.status in (200, 201)
    }
    return dict(found)


def twins_of_a_plan(race: Race) -> None:
    """One key, three creators: one plan, and the bus lends a hand."""
    twins = [race.calls(f"twin{n}", "POST", "P/plans", diamond(), key="k") for n in range(3)]
    messengers(race)
    race.run()
    assert answers(twins) == {201: 1, 200: 2}
    rest(race)
    assert statuses(race, list(plan_of(race).values())) == ["published", *["pending"] * 3, "published"]


def the_same_key_with_another_plan(race: Race) -> None:
    """One of the two becomes real, whole; the other is refused, and nothing of it is there."""
    bodies = [diamond(), {"jobs": [planned("a", "z"), planned("z")]}]
    sent = [race.calls(f"creator{n}", "POST", "P/plans", body, key="k") for n, body in enumerate(bodies * 2)]
    messengers(race)
    race.run()
    assert answers(sent) == {201: 1, 200: 1, "idempotency_mismatch": 2}
    rest(race)
    assert len(oracle.memory(race.w).jobs) == len(plan_of(race))


def work_on_what_is_there(race: Race) -> None:
    """Made piece by piece: the first jobs are claimed, completed and fail while later ones are still being made."""
    w = race.w
    body = diamond(max_retries=9)
    twins = [race.calls(f"twin{n}", "POST", "P/plans", body, key="k") for n in range(race.rng.choice([1, 2]))]

    def worker() -> None:
        for verb in ("complete", "fail", "complete", "complete", "complete"):
            claim = post(w, "P/claims", {}, key=f"{race.rng.random()}")
            if claim.status == 200 and claim.body["claim"]:
                hand = Hand(race, claim.body["job"]["id"], fence=claim.body["claim"]["fence"])
                hand.step(verb)
                if verb == "fail" and race.rng.random() < 0.7:
                    hand.step("restart")
                    hand.step("complete")

    race.does("worker", worker)
    messengers(race, rounds=10)
    race.run()
    assert answers(twins)[201] == 1


def outside_jobs_that_end(race: Race) -> None:
    """Jobs that the plan waits for complete, fail, come back and are cancelled while it is made."""
    hands = held(race, 2)
    ways = {"on_upstream_failure": race.rng.choice(["match", "match", "continue"])}
    body = diamond(*(hand.job for hand in hands), **ways)
    twins = [race.calls(f"twin{n}", "POST", "P/plans", body, key="k") for n in range(2)]
    for hand in hands:
        hand.does(race.rng.choice(STORIES))
    messengers(race, rounds=8)
    race.run()
    assert answers(twins) == {201: 1, 200: 1}


def a_planner_that_dies(race: Race) -> None:
    """Anywhere on the way, and nobody asks again: the bus finishes what was begun, or nothing was."""
    w = race.w
    (hand,) = held(race, 1)
    race.dies_at("planner", race.rng.randrange(1, 60))
    race.calls("planner", "POST", "P/plans", diamond(hand.job), key="k")
    race.run()
    hand.does(race.rng.choice(ALIVE))
    messengers(race, rounds=8)
    race.run()
    rest(race)
    made = len(oracle.memory(w).jobs) - 1
    assert made in (0, 5)
    if race.rng.random() < 0.5:
        w.ok("POST", "P/plans", diamond(hand.job), key="k")
        rest(race)
        assert len(oracle.memory(w).jobs) == 6


def planners_that_die_often(race: Race) -> None:
    """Processes die and stores fail, again and again; the creators ask until they are answered."""
    (hand,) = held(race, 1)
    race.trouble = 0.03
    for n in range(2):
        creates(race, f"twin{n}", diamond(hand.job, independent=True), "P/plans", key="k")
    hand.does(race.rng.choice(ALIVE))
    messengers(race, rounds=10)
    race.run()
    race.trouble = 0
    race.w.ok("POST", "P/plans", diamond(hand.job, independent=True), key="k")


def external_ids_of_a_plan(race: Race) -> None:
    """The plan and other creators want the same external ids: the plan gets all of its own, or is not made."""
    w = race.w
    old = w.job(external_id="ISSUE-1")
    fence = w.claim(old)
    wanted = {"jobs": [planned("a", external_id="ISSUE-1"), planned("b", "a", external_id="ISSUE-2")]}
    twins = [race.calls(f"plan{n}", "POST", "P/plans", wanted, key="k") for n in range(2)]
    if race.rng.random() < 0.7:
        Hand(race, old, fence=fence).does(["fail" if race.rng.random() < 0.5 else "complete"])
    body = {"summary": "s", "role": "developer", "external_id": race.rng.choice(["ISSUE-1", "ISSUE-2"])}
    others = [race.calls(f"other{n}", "POST", "P/jobs", body, key=f"o{n}") for n in range(2)]
    race.calls("owner", "POST", f"P/jobs/{old}/retry", {}, token="owner")
    messengers(race)
    race.run()
    assert set(answers([*twins, *others])) <= {200, 201, "already_exists"}
    made = [s for s in twins if s.status in (200, 201)]
    if made:
        assert [s.status for s in others].count(201) <= (body["external_id"] == "ISSUE-1") * 1 or len(
            made
        ) < 2


def a_link_into_a_plan(race: Race) -> None:
    """An outside job that the plan waits for is told to wait for the plan's end, while the plan is made: no circle."""
    w = race.w
    outside = w.job()
    jobs = [planned("a", outside), planned("b", "a"), planned("c", "b"), planned("d", "c")]
    twins = [race.calls(f"twin{n}", "POST", "P/plans", {"jobs": jobs}, key="k") for n in range(2)]

    def linker() -> None:
        for _ in range(60):
            found = [job for job in oracle.memory(w).jobs if job.summary == "d"]
            if found:
                post(w, f"P/jobs/{outside}/links", {"upstream": found[0].id}, key="round")
                return
            race.schedule.step("wait")

    race.does("linker", linker)
    messengers(race)
    race.run()
    assert answers(twins) == {201: 1, 200: 1}


def plans_that_wait_for_each_other(race: Race) -> None:
    """A plan is built on another's jobs, which are completed and fail meanwhile."""
    w = race.w
    first = w.ok("POST", "P/plans", {"jobs": [planned("a", max_retries=9), planned("b", "a")]})["jobs"]
    w.pump()
    hand = Hand(race, first["a"]).take()
    second = {
        "jobs": [
            planned("x", first["a"], first["b"]),
            planned("y", "x", first["b"]),
            planned("z", first["a"]),
        ]
    }
    twins = [race.calls(f"twin{n}", "POST", "P/plans", second, key="k") for n in range(2)]
    hand.does(race.rng.choice(STORIES))
    messengers(race, rounds=8)
    race.run()
    assert answers(twins) == {201: 1, 200: 1}


SCENARIOS: list[Callable[[Race], None]] = [
    twins_of_a_plan,
    the_same_key_with_another_plan,
    work_on_what_is_there,
    outside_jobs_that_end,
    a_planner_that_dies,
    planners_that_die_often,
    external_ids_of_a_plan,
    a_link_into_a_plan,
    plans_that_wait_for_each_other,
]


@pytest.fixture(autouse=True, params=[90, 3], ids=["in one piece", "in pieces"])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small plans are made in one transaction, large ones in many."""
    monkeypatch.setattr(plans, "TOGETHER", request.param)
    monkeypatch.setattr(making, "PARTS", 80 if request.param == 90 else 1)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 4)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 40)
