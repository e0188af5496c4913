"""Crowds that ask, answer and withdraw among everything else, under one seed; and processes that die on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.model.test_schedules_decisions import QUESTION, body_of, state_of
from tests.sim.crowd import Crowd
from tests.sim.hands import Hand, messengers, post, rest, statuses
from tests.sim.race import Race, explore


class AskingCrowd(Crowd):
    """A crowd that also asks, answers and withdraws."""

    on_expire = ("publish", "fail", "ask", "ask")

    def _on_a_claim(self, name: str, held: dict[str, int], number: int) -> None:
        if self.rng.random() < 0.5:
            super()._on_a_claim(name, held, number)
            return
        job = self.rng.choice(sorted(held))
        more = {"wait": self.rng.random() < 0.5, "expires_in": self.rng.choice([None, 5, 40])}
        body = {"fence": held[job], **QUESTION, **more, "roles": self.rng.choice([[], ["qa"], ["developer"]])}
        self._repeated("POST", f"P/jobs/{job}/decisions", body, token=name, key=f"ask{number}{name}")

    def _look_for_work(self, name: str, held: dict[str, int], number: int) -> None:
        if self.rng.random() < 0.5 or not self._decide(name, number):
            super()._look_for_work(name, held, number)

    def _owner(self, actions: int) -> None:
        for number in range(actions):
            if self.rng.random() < 0.4 or not self._decide("owner", number):
                super()._owner(1)

    def _decide(self, name: str, number: int) -> bool:
        found = self._call(
            "GET", "P/decisions", token=name, query={"state": self.rng.choice(["open", "all"])}
        )
        if found.status != 200 or not found.body["items"]:
            return False
        each = self.rng.choice(found.body["items"])
        given = self.rng.choice(each["options"] or ["a", "b"])
        verb, body = self.rng.choice([("answer", {"answer": given})] * 3 + [("withdraw", {"note": "n"})])
        self._repeated("POST", f"P/decisions/{each['id']}/{verb}", body, token=name, key=f"d{number}{name}")
        return True


def a_crowd_that_asks(race: Race) -> None:
    """Anybody does anything, and time passes."""
    AskingCrowd(race, agents=4).start(actions=7)
    race.clock(10, 15, 9, 30, 900)
    race.dispatcher(rounds=6)
    race.consumer(rounds=6)
    race.run()


def a_wild_crowd_that_asks(race: Race) -> None:
    """Messages come twice, early, late and never; what was lost is found by repair."""
    AskingCrowd(race, agents=3, jobs=2).start(actions=7)
    race.clock(10, 22, 9, 30, 900)
    race.dispatcher(rounds=6, chaos=True)
    race.consumer(rounds=6, chaos=True)
    race.consumer(rounds=6, chaos=True, name="consumer2")
    race.run()


def a_deadly_crowd_that_asks(race: Race) -> None:
    """Processes die, the store fails, its client repeats: who has a key sends the same call until it is answered."""
    crowd = AskingCrowd(race, agents=3, jobs=2)
    race.trouble = 0.03
    crowd.start(actions=7)
    race.clock(10, 22, 9, 30, 900)
    race.dispatcher(rounds=8)
    race.consumer(rounds=8)
    race.run()
    race.trouble = 0


def decisions_in_spite_of_deaths(race: Race) -> None:
    """Asked and answered by processes that die on the way: one decision, one answer, and the job goes on."""
    w = race.w
    w.enrol("maker")
    hand = Hand(race, w.job(), "maker").take()
    race.trouble = 0.05

    def maker() -> None:
        made = post(w, f"P/jobs/{hand.job}/decisions", body_of(hand), token="maker", key="k")
        post(w, f"P/decisions/{made.body['decision']['id']}/answer", {"answer": "a"}, token="owner", key="l")
        post(w, f"P/jobs/{hand.job}/resume", {"fence": hand.fence}, token="maker", key="m")

    race.does("maker", maker)
    messengers(race, rounds=8)
    race.run()
    race.trouble = 0
    rest(race)
    assert state_of(race, hand.job) == [("answered", "a")]
    assert statuses(race, [hand.job]) == ["in_progress"]


SCENARIOS: list[Callable[[Race], None]] = [
    a_crowd_that_asks,
    a_wild_crowd_that_asks,
    a_deadly_crowd_that_asks,
    decisions_in_spite_of_deaths,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 4)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)
