"""One request of an MCP client as the bus sees it: who asks, and the operations that are carried out for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.app import notices
from interlock.app.call import Answer, Bus, Call
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.edges import auth, calls
from interlock.edges.mcp import brief
from interlock.edges.operations import Operation
from interlock.errors import StoreError


@dataclass(slots=True)
class Session:
    """An identified caller in its project; it lives as long as one request."""

    bus: Bus
    caller: auth.Caller
    base: str
    request_id: str
    trace: str | None = None
    target: Job | None = None
    """The job of the latest operation, as it was before it."""

    @property
    def project(self) -> Project:
        """The project that the credential belongs to."""
        assert self.caller.project is not None  # the handler lets nobody else in
        return self.caller.project

    def call(
        self,
        operation: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
        if_match: int | None = None,
    ) -> Answer:
        """Carry out an operation in the caller's project. Raises InterlockError as REST would answer it."""
        entry = calls.entry(operation)
        named = {"project": self.project.id, **(params or {})}

        def admit(row: Operation, _now: int) -> auth.Admission:
            admitted = auth.admit_known(self.bus, row, named, self.caller)
            self.target = admitted.target if isinstance(admitted.target, Job) else self.target
            return admitted

        asked = calls.Asked(
            named,
            dict(body or {}),
            lambda: dict(query or {}),
            calls.check_key(key) if key is not None and entry.operation.keyed else None,
            if_match,
            self.trace,
            self.base,
        )
        return entry.carry_out(self.bus, asked, admit)

    def page(
        self,
        operation: str,
        shown: Callable[[dict[str, Any]], dict[str, Any]],
        query: Mapping[str, Any],
        params: Mapping[str, str] | None = None,
        *,
        of: str = "items",
    ) -> dict[str, Any]:
        """A page of a list that fits: with fewer items than asked for, rather than without some of its items."""
        limit = query["limit"]
        while True:
            value = self.call(operation, params, query={**query, "limit": limit}).value
            items = [shown(item) for item in value[of]]
            heavy = brief.weight(items) / brief.PAGE_ROOM
            if heavy <= 1 or len(items) <= 1:
                return {**value, of: items}
            limit = max(1, min(limit - 1, int(len(items) / heavy)))

    def notices(self) -> list[dict[str, Any]]:
        """What the caller should know now, of itself and of the job at hand; it reads what became of decisions on that
        job, and nothing else."""
        now, job = self.bus.clock(), self.target
        held = [job] if job is not None and job.held_by(self.caller.actor.id) else []
        call = Call(self.bus, "system.me", self.caller.actor, now, project=self.project)
        try:
            return notices.of_agent(call, held)
        except StoreError:
            return []  # what was asked for is done, and is answered; the next answer tells
