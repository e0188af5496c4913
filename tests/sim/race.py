"""One race: a world whose store calls are the steps of a seeded schedule, and the record of what was called.

A scenario prepares the world, adds actors and runs them; the oracle then judges the record and what is left.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim import oracle
from tests.sim.copies import Replica
from tests.sim.faults import DiedError
from tests.sim.oracle_graph import Written
from tests.sim.ports import Step, hooked
from tests.sim.schedule import Schedule
from tests.sim.world import Reply, World, world

from interlock.app import dispatch, write
from interlock.app.consumers import CONSUMERS
from interlock.domain.job import Job
from interlock.domain.plan import Plan
from interlock.errors import StoreError
from interlock.store.ports import ConditionLost, Put, Store, Update


@dataclass
class Sent:
    """A call of the record: when it began (in steps, and by the bus's clock) and ended, what it wrote, what was
    answered."""

    actor: str
    method: str
    path: str
    body: Any
    token: str | None
    key: str | None
    began: int
    now: int = 0
    ended: int = -1
    heads: list[Put | Update] = field(default_factory=list)
    reply: Reply = field(default_factory=lambda: Reply(0, {}, None))

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def code(self) -> str | None:
        return self.reply.code

    @property
    def replayed(self) -> bool:
        return self.reply.headers.get("idempotency-replayed") == "true"

    def __str__(self) -> str:
        return (
            f"[{self.began}-{self.ended}] {self.actor}: {self.method} {self.path} {self.body}"
            f" key={self.key} -> {self.status} {self.code or ''}"
        )


class Race:
    """A world under one seed. ``lag``: queries of indexes may answer what was true a while ago."""

    def __init__(self, seed: int, *, lag: bool = True) -> None:
        self.seed = seed
        self.rng = random.Random(f"race {seed}")
        self.schedule = Schedule(seed)
        self.record: list[Sent] = []
        self.history: list[Written] = []
        self.lossy = False
        """Whether messages were lost, so that some jobs hang until they are repaired."""
        self._open: dict[str, Sent] = {}
        self._replica: Replica | None = None
        self.w: World = world(seed, wrap=self._wrapped)
        if lag:
            self._replica = Replica(self.w.engine, self.rng, self.w.clock)
        self.trouble = 0.0
        """How likely a step ends its process, fails, or is carried out twice by a client that missed the answer."""
        self._dies: dict[str, int] = {}
        self._send = self.w.call
        self.w.call = self._call  # everything that is called is recorded

    def _wrapped(self, store: Store) -> Store:
        plain = store.table.query
        return hooked(
            store,
            self._hook,
            self.rng,
            replica=lambda q: self._replica.query(q) if self._replica else plain(q),
        )

    def _hook(self, step: Step, carry_out: Callable[[], Any]) -> Any:
        self.schedule.step(step)
        self._dies_now()

        def carried_out() -> Any:
            answer = carry_out()
            if step.heads and answer is not False:
                self._remember(step)
            return answer

        answer = self._troubled(step, carried_out) if self._strikes() else carried_out()
        sent = self._open.get(self.schedule.name())
        if sent is not None and step.heads and answer is not False:
            sent.heads.extend(step.heads)
        return answer

    def dies_at(self, name: str, number: int) -> None:
        """That actor's process dies before its step of this number (from 1), if it comes so far."""
        self._dies[name] = number

    def _dies_now(self) -> None:
        name = self.schedule.name()
        if name in self._dies:
            self._dies[name] -= 1
            if self._dies[name] <= 0:
                raise DiedError

    def _remember(self, step: Step) -> None:
        at = len(self.history)
        for part in step.heads:
            new = part.item if isinstance(part, Put) else part.set
            self.history.append(Written(at, part.key.pk, new["version"], new.get("status")))

    def _strikes(self) -> bool:
        return self.schedule.running is not None and self.trouble > 0 and self.rng.random() < self.trouble

    def _troubled(self, step: Step, carry_out: Callable[[], Any]) -> Any:
        kind = self.rng.choice(("dies before", "dies after", "fails before", "fails after", "is made twice"))
        self.schedule.note(f"{kind}: {step}")
        if kind.endswith("before"):
            raise DiedError if kind.startswith("dies") else StoreError
        if kind == "is made twice":
            if step.writes or step.verb == "send":
                carry_out()
            return carry_out()
        with contextlib.suppress(ConditionLost):
            carry_out()
        raise DiedError if kind.startswith("dies") else StoreError

    def _call(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        name = self.schedule.name()
        sent = Sent(
            name,
            method,
            path,
            body,
            more.get("token", "agent"),
            more.get("key"),
            self.schedule.steps,
            self.w.clock.now,
        )
        self.record.append(sent)
        self._open[name] = sent
        try:
            sent.reply = self._send(method, path, body, **more)
        except DiedError:
            pass  # the caller gets no answer: status 0
        finally:
            del self._open[name]
            sent.ended = self.schedule.steps
        return sent.reply

    # ---- actors

    def does(self, name: str, work: Callable[[], Any]) -> None:
        """An actor that carries out ``work``."""
        self.schedule.actor(name, work)

    def calls(self, name: str, method: str, path: str, body: Any = None, **more: Any) -> Sent:
        """An actor that makes one call; its place in the record, filled in by the run."""
        place = Sent(name, method, path, body, None, None, -1)

        def work() -> None:
            self.w.call(method, path, body, **more)
            made = next(sent for sent in reversed(self.record) if sent.actor == name)
            place.__dict__.update(made.__dict__)

        self.does(name, work)
        return place

    def clock(self, *seconds: float) -> None:
        """An actor that lets time pass, so much at a time."""

        def work() -> None:
            for some in seconds:
                self.schedule.step(f"{some} s pass")
                self.w.clock.advance(some)

        self.does("clock", work)

    def dispatcher(self, rounds: int = 4, *, chaos: bool = False) -> None:
        """An actor that dispatches. ``chaos``: records come twice, in another order, and again later."""

        def work() -> None:
            for _ in range(rounds):
                with contextlib.suppress(DiedError, StoreError):
                    batch()

        def batch() -> None:
            self.schedule.step("read the feed")
            changes = self.w.engine.feed.read(limit=self.rng.choice((1, 3, 100)))
            seen = list(changes)
            if chaos:
                seen += [change for change in changes if self.rng.random() < 0.3]
                self.rng.shuffle(seen)
            dispatch.carry_out(self.w.bus, [dispatch.effects(c.new, self.w.clock()) for c in seen])
            self.schedule.step("acknowledge")
            if not chaos or self.rng.random() < 0.6:
                self.w.engine.feed.acknowledge(changes)

        self.does("dispatcher", work)

    def consumer(self, rounds: int = 4, *, chaos: bool = False, name: str = "consumer") -> None:
        """An actor that handles messages. ``chaos``: they come twice, early, late, in any order, or never."""
        self.lossy = self.lossy or chaos

        def work() -> None:
            for _ in range(rounds):
                with contextlib.suppress(DiedError, StoreError):
                    batch()

        def batch() -> None:
            queues = self.w.bus.store.queues
            depth = self.w.engine.store.queues.depth  # no step: of the queues with messages, one
            queue = self.rng.choice([name for name in CONSUMERS if depth(name)] or ["lease"])
            messages = queues.receive(queue, limit=self.rng.choice((1, 10)), visibility=5)
            if chaos:
                self.rng.shuffle(messages)
            for message in messages:
                fate = self.rng.random() if chaos else 1.0
                if fate < 0.1:
                    queues.delete(queue, [message.receipt])  # lost
                    continue
                if fate < 0.2:
                    queues.send(queue, [(message.body, 0), (message.body, 60)])  # twins, one early, one late
                with contextlib.suppress(write.Lost):  # too many others at this head: the message comes again
                    CONSUMERS[queue](self.w.bus, message.body, message.receives)
                    if fate > 0.35:
                        queues.delete(queue, [message.receipt])  # else it comes again

        self.does(name, work)

    # ---- running

    def run(self) -> None:
        """Run the actors that were added."""
        if self._replica:
            self._replica.refresh()
        self.schedule.run()

    def settle(self) -> None:
        """Let the bus come to rest, indexes included, and judge."""
        if self._replica:
            self._replica.lags = False
        self.w.clock.advance(6)  # what a consumer left hidden comes again
        oracle.settle(self.w)
        self._judge()

    def _judge(self) -> None:
        oracle.check(self.w, self.record, self.history, complete=not self.lossy)

    def repair(self) -> None:
        """Send again what every head implies, as a person does who misses something: then nothing is lost any more."""
        self.settle()
        for head in oracle.memory(self.w).heads.values():
            if isinstance(head, Job | Plan):
                kind = "plan" if isinstance(head, Plan) else "job"
                self.w.ok("POST", "P/repair", {"entity": f"{kind}/{head.id}"}, token="owner")
        self.lossy = False

    def finish(self) -> None:
        """Settle; then let all leases run out: nothing may hang."""
        if self.lossy:
            self.repair()
        self.settle()
        oracle.drain(self.w)
        self._judge()


# ---- exploring

Scenario = Callable[[Race], None]


def explore(scenario: Scenario, count: int, *, lag: bool = True) -> None:
    """Run a scenario under ``count`` seeds, or under the one that the environment's SCHEDULE_SEED names."""
    given = os.environ.get("SCHEDULE_SEED")
    first = int(os.environ.get("SCHEDULE_SEEDS_FROM", "0"))
    for seed in [int(given)] if given else range(first, first + count):
        race = Race(seed, lag=lag)
        try:
            scenario(race)
            race.finish()
        except BaseException as error:
            raise AssertionError(told(scenario, race, error)) from error


def told(scenario: Scenario, race: Race, error: BaseException) -> str:
    """What a person needs to understand a failure and to see it again."""
    name = scenario.__name__
    steps = [f"  {actor}: {step}" for actor, step in race.schedule.trace]
    return "\n".join(
        (
            f"{name} fails under seed {race.seed}; again: SCHEDULE_SEED={race.seed} pytest tests/model -k {name}",
            f"{type(error).__name__}: {error}",
            "calls:",
            *(f"  {sent}" for sent in race.record[-60:]),
            "steps:",
            *(steps if bool(os.environ.get("SCHEDULE_SEED")) else steps[-80:]),
        )
    )
