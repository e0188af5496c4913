"""Whole jobs as answers: the head, what it names, and what it waits for, put together."""

from __future__ import annotations

from typing import Any

from interlock.app import load, neighbours, views
from interlock.app.call import Answer, Bus, Call
from interlock.domain.job import Job


def whole(bus: Bus, job: Job, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """A job as `GET job` shows it; ``known`` is its work where the caller has it at hand."""
    shown = dict(known) if known is not None else load.work(bus, job)
    shown["upstream"] = neighbours.upstream(bus, job, shown)
    shown["artifacts"] = [*shown["artifacts"], *load.later_artifacts(bus, job)]
    shown["result"] = load.result(bus, job)
    return views.whole(job, shown)


def answer(
    call: Call, job: Job, *, created: bool = False, replayed: bool = False, work: dict[str, Any] | None = None
) -> Answer:
    """`{job}`: the whole job, built from the head as written; ``work`` where it is at hand."""
    return Answer({"job": whole(call.bus, job, work)}, created, replayed, job.version)
