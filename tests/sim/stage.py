"""The stage of the model test: a bus whose processes may die, and the model of its jobs beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.sim import oracle
from tests.sim.faults import DiedError, Fault, Faults
from tests.sim.model import Model
from tests.sim.world import Reply, World, world

from interlock.app import dispatch
from interlock.domain.job import Job
from interlock.domain.lifecycle import ENDED, LEASED
from interlock.store import items, keys

ROLES = {"agent": ("developer", "qa", "reviewer", "ops"), "ada": ("developer",), "bob": ("developer", "qa")}


class Stage(RuleBasedStateMachine):
    """What every story needs: jobs and their models, calls that may fail, time, timers, and the comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.w: World = world(wrap=self.faults.wrap)
        self.ids = {"agent": self.w.ok("GET", "P/me")["actor"]["id"]}
        for name in ("ada", "bob"):
            self.ids[name] = self.w.enrol(name, ROLES[name])
        self.jobs: list[Model] = []
        self.owner_of_name: dict[str, str] = {}
        self.paused = False
        self.cancels = False
        self.number = 0
        self.sent: list[tuple[str, Callable[[], Reply], str]] = []
        self.history: list[Any] = []

    def _one(self, number: int, *statuses: str) -> Model:
        """Mostly one of these statuses, where there is one."""
        fits = [job for job in self.jobs if job.status in statuses and number < 10] or self.jobs
        return fits[number % len(fits)]

    def _set(self, after: Model) -> None:
        self.jobs = [after if job.id == after.id else job for job in self.jobs]

    def _key(self) -> str:
        self.number += 1
        return f"key{self.number}"

    def _call(self, job: str, method: str, path: str, body: Any, fault: Any = None, **more: Any) -> Reply:
        """A call; with a fault its process dies (or its store client repeats a step), and the caller sends it again."""

        def send() -> Reply:
            return self.w.call(method, path, body, **more)

        reply = None
        if fault is not None and more.get("key"):
            k, when = fault
            self.faults.arm(Fault(k, when, "" if when == "again" else "crash"))
            try:
                reply = send()
            except DiedError:
                reply = None
            self.faults.disarm()
        if reply is None:
            reply = send()
        assert reply.status < 500, reply.body
        if more.get("key") and reply.status < 300:
            self.sent.append((job, send, more["key"]))
        return reply

    def _expect(self, reply: Reply, refused: str | None) -> bool:
        """The answer must be as predicted; whether it was a success."""
        assert reply.code == refused or (refused is None and reply.status < 300), (
            refused,
            reply.status,
            reply.body,
        )
        return refused is None

    def _name_taken(self, job: Model) -> bool:
        owner = self.owner_of_name.get(job.external_id or "")
        other = next((o for o in self.jobs if o.id == owner), None)
        return other is not None and other.id != job.id and other.status not in ENDED

    def _revival_refused(self, job: Model, budget: int) -> str | None:
        if job.retries >= budget:
            return "retries_spent"
        return "already_exists" if self._name_taken(job) else None

    def _revived(self, job: Model) -> None:
        if job.external_id:
            self.owner_of_name[job.external_id] = job.id

    # ---- the bus, and time

    @rule(on=st.booleans())
    def pause(self, on: bool) -> None:
        self.w.ok("POST", "P/pause" if on else "P/resume", {"role": "developer"}, token="owner")
        self.paused = on

    @rule(seconds=st.sampled_from([1, 9, 29, 33, 61, 600, 2_010, -600]))
    def time_passes(self, seconds: int) -> None:
        self.w.clock.advance(seconds)

    @rule(count=st.sampled_from([1, 4, 100]), again=st.integers(0, 30))
    def dispatch_some(self, count: int, again: int) -> None:
        """And an old record once more."""
        changes = self.w.engine.feed.read(limit=count)
        self.w.engine.feed.acknowledge(changes)
        self.history += changes
        some = [*changes, *self.history[again : again + 1]]
        dispatch.carry_out(self.w.bus, [dispatch.effects(change.new, self.w.clock.now) for change in some])

    @rule(twice=st.booleans())
    def consume(self, twice: bool) -> None:
        if twice:
            queues = self.w.engine.store.queues
            queues.send(
                "lease",
                [(body, 0) for queue, _, body in oracle.memory(self.w).messages[:3] if queue == "lease"],
            )
        self.w.consume()
        self._follow()

    @rule()
    def pump(self) -> None:
        oracle.settle(self.w)
        self._follow()
        now = self.w.clock.now
        assert not [job for job in self.jobs if job.waits_in_vain(now)]

    def _follow(self) -> None:
        """Timers may have moved jobs, as far as the model allows."""
        now = self.w.clock.now
        for job in self.jobs:
            shown = self._shown(job)
            found = next((m for m in job.reachable(now, cancels=self.cancels) if m.seen() == shown), None)
            assert found is not None, (job, shown)
            self._set(found)

    def _head(self, job: Model) -> Job:
        item = self.w.engine.store.table.get(keys.head("default", "job", job.id))
        return items.job(item)

    def _shown(self, job: Model) -> tuple[object, ...]:
        h = self._head(job)
        return (
            (h.status, h.role, h.priority, h.fence, h.retry_count, h.max_retries, h.version),
            (h.assignee, h.session, h.lease_until, h.stopped_fence, h.overdue is not None),
            (frozenset(h.asked or ()), h.decision),
        )

    @invariant()
    def they_agree(self) -> None:
        for job in self.jobs:
            assert self._shown(job) == job.seen(), job
            assert (job.until is not None) == (job.status in LEASED)

    def teardown(self) -> None:
        try:
            oracle.settle(self.w)
            oracle.check(self.w)
            oracle.drain(self.w)
            oracle.check(self.w)
        finally:
            self.w.engine.close()
