"""A crowd under one seed: anybody does anything, time passes, messages misbehave; the oracle finds what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.crowd import Crowd
from tests.sim.race import Race, explore


def a_calm_day(race: Race) -> None:
    """Timers and records come as they should: nothing needs repair."""
    Crowd(race).start()
    race.clock(10, 15, 9, 30, 900)
    race.dispatcher(rounds=6)
    race.consumer(rounds=6)
    race.run()


def a_wild_day(race: Race) -> None:
    """They come twice, early, late, in any order and never; what was lost is found by repair."""
    Crowd(race, agents=4, jobs=4).start(actions=7)
    race.clock(10, 22, 9, 30, 900, 2_000)
    race.dispatcher(rounds=6, chaos=True)
    race.consumer(rounds=6, chaos=True)
    race.consumer(rounds=6, chaos=True, name="consumer2")
    race.run()
    race.settle()
    for job in oracle.memory(race.w).jobs:
        race.w.ok("POST", "P/repair", {"entity": f"job/{job.id}"}, token="owner")


def a_deadly_day(race: Race) -> None:
    """Processes die, the store fails, its client repeats: who has a key sends the same call until it is answered."""
    crowd = Crowd(race, agents=3, jobs=3)
    race.trouble = 0.03
    crowd.start(actions=7)
    race.clock(10, 22, 9, 30, 900)
    race.dispatcher(rounds=8)
    race.consumer(rounds=8)
    race.run()


def a_crowd_around_one_job(race: Race) -> None:
    """Everybody wants the same."""
    Crowd(race, agents=5, jobs=1).start(actions=5)
    race.clock(25, 10, 25, 10)
    race.dispatcher(rounds=4)
    race.consumer(rounds=4)
    race.run()


SCENARIOS = [a_calm_day, a_wild_day, a_deadly_day, a_crowd_around_one_job]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 5)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 250)
