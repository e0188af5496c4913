"""A seeded scheduler: actors run one at a time and change hands only between two steps.

Each actor is a thread that runs until its next step (a store call, or a step of its own), where the seed picks who
goes on. One seed is one schedule, however the operating system runs threads.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

STEPS = 100_000
"""More steps than any schedule takes: an endless one is a defect and ends here."""


class EndlessError(AssertionError):
    """The schedule did not end."""


class _Actor:
    def __init__(self, name: str, work: Callable[[], None], rank: float) -> None:
        self.name, self.work, self.rank = name, work, rank
        self.baton = threading.Lock()
        self.baton.acquire()
        self.error: BaseException | None = None


def _uniform(schedule: Schedule) -> _Actor:
    """Whoever."""
    return schedule.rng.choice(schedule.live)


def _sticky(schedule: Schedule) -> _Actor:
    """Mostly whoever runs: long stretches, then a change."""
    running = schedule.running
    if running in schedule.live and schedule.rng.random() < 0.85:
        return running
    return schedule.rng.choice(schedule.live)


def _ranked(schedule: Schedule) -> _Actor:
    """The first of a random order, who now and then becomes the last: finds what few changes of hands bring about."""
    best = min(schedule.live, key=lambda actor: actor.rank)
    if schedule.rng.random() < 0.06:
        best.rank = max(actor.rank for actor in schedule.live) + 1
        best = min(schedule.live, key=lambda actor: actor.rank)
    return best


POLICIES = (_uniform, _sticky, _ranked)


class Schedule:
    """Runs actors under one seed; ``trace`` lists who made which step."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"schedule {seed}")
        self.policy = POLICIES[seed % len(POLICIES)]
        self.live: list[_Actor] = []
        self.running: _Actor | None = None
        self.steps = 0
        self.trace: list[tuple[str, object]] = []
        self._done = threading.Lock()

    def actor(self, name: str, work: Callable[[], None]) -> None:
        """One more actor of the next :meth:`run`."""
        self.live.append(_Actor(name, work, self.rng.random()))

    def run(self) -> None:
        """Run all actors to their ends; raises what the first of them raised."""
        actors = list(self.live)
        if not actors:
            return
        threads = [threading.Thread(target=self._live, args=(actor,), daemon=True) for actor in actors]
        for thread in threads:
            thread.start()
        self._done.acquire()
        self._hand_over()
        self._done.acquire()
        for thread in threads:
            thread.join()
        self._done.release()
        failed = [actor for actor in actors if actor.error is not None]
        if failed:
            raise failed[0].error

    def step(self, what: object) -> None:
        """A step is about to be made: perhaps somebody else goes first. Outside :meth:`run` nothing happens."""
        actor = self.running
        if actor is None:
            return
        chosen = self.policy(self)
        if chosen is not actor:
            self.running = chosen
            chosen.baton.release()
            actor.baton.acquire()
        self.steps += 1
        self.trace.append((actor.name, what))
        if self.steps > STEPS:
            raise EndlessError(f"no end after {STEPS} steps")

    def note(self, what: object) -> None:
        """Something to remember in the trace."""
        self.trace.append((self.name(), what))

    def name(self) -> str:
        """Who runs."""
        return self.running.name if self.running else ""

    def _live(self, actor: _Actor) -> None:
        actor.baton.acquire()
        try:
            actor.work()
        except BaseException as error:
            actor.error = error
        finally:
            self.live.remove(actor)
            self._hand_over()

    def _hand_over(self) -> None:
        if self.live:
            self.running = self.policy(self)
            self.running.baton.release()
        else:
            self.running = None
            self._done.release()
