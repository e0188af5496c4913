"""Watches a race: after every write of a head, no more jobs are held in a scope than a cap allows.

What is counted is what heads say: held, whether the lease has lapsed or not, until somebody ends it. A claim goes by
the caps that were there when its call began. So a cap that is lowered while calls are under way binds those that
begin later: the bound of a write is the highest cap since the first of the calls began that overlap with its call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.sim.ports import Step
from tests.sim.race import Race

from interlock.domain.identity import Agent, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import HELD
from interlock.store import items

Scope = tuple[str, str]


@dataclass(frozen=True)
class Set:
    """From which step on a scope has which cap."""

    at: int
    scope: Scope
    cap: int | None


def _held(job: Job) -> bool:
    return job.status in HELD and job.assignee is not None


class Watch:
    """Installed on a race before its actors run. ``wrong`` says which claims exceeded a cap."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.jobs: dict[str, Job] = {}
        self.sets: list[Set] = []
        self.claims = 0
        self.wrong: list[str] = []
        table: Any = race.w.bus.store.table
        self._inner, table._hook = table._hook, self._hook

    def _hook(self, step: Step, carry_out: Callable[[], Any]) -> Any:
        def carried_out() -> Any:
            answer = carry_out()
            if answer is not False:
                for part in step.heads:
                    self._see(items.read(self.race.w.engine.store.table.get(part.key)))
            return answer

        return self._inner(step, carried_out)

    def _see(self, head: Any) -> None:
        now = self.race.schedule.steps
        if isinstance(head, Agent):
            self._cap(now, ("agent", head.id), head.max_claims)
        elif isinstance(head, Project):
            self._cap(now, ("project", head.id), head.settings.get("max_claims"))
            for key, role in head.roles.items():
                self._cap(now, ("role", key), role.max_claims)
        elif isinstance(head, Job):
            before = self.jobs.get(head.id)
            self.jobs[head.id] = head
            if _held(head) and not (before and _held(before) and before.assignee == head.assignee):
                self.claims += 1
                self._judge(head)

    def _cap(self, at: int, scope: Scope, cap: int | None) -> None:
        if [entry.cap for entry in self.sets if entry.scope == scope][-1:] != [cap]:
            self.sets.append(Set(at, scope, cap))

    def held(self, scope: Scope) -> list[Job]:
        """The jobs that are held in a scope."""
        kind, name = scope
        return [
            job
            for job in self.jobs.values()
            if _held(job) and {"agent": job.assignee, "role": job.role, "project": job.project}[kind] == name
        ]

    def _judge(self, claimed: Job) -> None:
        assert claimed.assignee is not None
        since = self._since()
        for scope in (
            ("agent", claimed.assignee),
            ("role", claimed.role),
            ("project", claimed.project),
        ):
            count = len(self.held(scope))
            bound = self._bound(scope, since)
            if bound is not None and count > bound:
                self.wrong.append(
                    f"{count} claims of {scope} live under a cap of {bound}, {claimed.id} the last"
                )

    def _since(self) -> int:
        """When the first of the calls began that overlap with the one that writes now."""
        mine = self.race._open.get(self.race.schedule.name())
        if mine is None:
            return self.race.schedule.steps
        return min(s.began for s in self.race.record if s.ended < 0 or s.ended >= mine.began)

    def _bound(self, scope: Scope, since: int) -> int | None:
        """The highest cap that was there at any time since then; None when there was a time without."""
        sets = [entry for entry in self.sets if entry.scope == scope]
        before = [entry for entry in sets if entry.at <= since][-1:]
        caps = [entry.cap for entry in [*before, *(entry for entry in sets if entry.at > since)]]
        if not before or None in caps:
            return None
        return max(cap for cap in caps if cap is not None)
