"""Routing: when a job ends, its rules make the jobs that follow, once per rule and ending.

The head says which of its endings are still to be routed. One transaction makes the jobs, says so in the ended job's
event, and takes the ending off the head, so that a message may come any number of times, at any time: what is there
is there as a whole, and whoever comes later finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.app import load, making, write
from interlock.app.artifacts import initial
from interlock.app.call import Bus
from interlock.domain import ids, routing
from interlock.domain.identity import SYSTEM, Actor, Project
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import COMPLETED
from interlock.domain.routing import Verdict
from interlock.errors import StoreError
from interlock.store import items, keys

QUEUE = "routing"

_PLAIN: Mapping[str, Any] = {
    "external_id": None, "lease_seconds": None, "on_expire": None, "requires": (), "capabilities": None,
    "not_before": None, "deadline": None, "on_upstream_failure": "match", "independent": None, "routing": (),
}  # fmt: skip
"""What a rule does not say of its job."""


def handle(bus: Bus, body: Mapping[str, Any], receives: int) -> None:  # noqa: ARG001  every delivery is the same
    """One message: route every ending of the job that is still to be routed."""
    job = load.job_head(bus, body["project"], body["job"])
    for _ in range(write.TRIES):
        if job is None or not job.unrouted:
            return
        try:
            job = _route(bus, job, min(job.unrouted, key=int))
        except write.Lost:
            job = load.job_head(bus, body["project"], body["job"])
    raise write.Lost


def _route(bus: Bus, job: Job, seq: str) -> Job:
    """Make the jobs that follow from the ending ``seq``; answers the head as it is then. Raises Lost."""
    left = dict(job.unrouted or {})
    ended = left.pop(seq)
    project = _project(bus, job.project)
    # a completed job stays as it is, so that what the head names is the result of this ending
    result = load.result(bus, job) if ended == COMPLETED else None
    verdicts = routing.judge(load.work(bus, job)["routing"], ended, result, project.roles)
    drafts = [_draft(bus, project, job, seq, verdict) for verdict in verdicts if verdict.skipped is None]
    bus.store.table.write_each([put for draft in drafts for put in making.staged(bus, draft)])
    data = {"created": [draft.head.id for draft in drafts], "skipped": _skipped(verdicts)}
    fact = Fact("job.routed", job.status, job.status, data)
    made = [write.creating(bus, draft.head, SYSTEM, draft.facts)[0] for draft in drafts]
    change = Change({"unrouted": left or None}, (fact,), work=False)
    return write.change(bus, job, SYSTEM, bus.clock(), change, parts=made)


def _project(bus: Bus, project: str) -> Project:
    item = bus.store.table.get(keys.project_head(project))
    if item is None:
        raise StoreError(detail=f"project {project} is gone")
    return items.project(item)


def _skipped(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    """The rules that made no job, as the event shows them."""
    return [
        {
            "rule": verdict.number,
            "reason": verdict.skipped,
            **({"role": verdict.rule["role"]} if verdict.skipped == "unknown_role" else {}),
        }
        for verdict in verdicts
        if verdict.skipped is not None
    ]


def _draft(bus: Bus, project: Project, job: Job, seq: str, verdict: Verdict) -> making.Draft:
    """The job that a rule asks for. Its id is that of this rule and ending; its author is who wrote the rule."""
    now, rule = bus.clock(), verdict.rule
    name = ids.derived("job", job.id, "route", str(verdict.number), seq)
    fields = making.resolved(project, {**_PLAIN, **rule, "parent": job.id})
    head = making.head(
        project.id, fields, id=name, source=(job.source, job.source_label), now=now, trace=job.trace
    )
    kind, _, source = job.source.partition(":")
    artifacts = initial(Actor(kind, source, job.source_label), now, name, rule["artifacts"])
    context = {**rule["context"], "routed_from_job_id": job.id}
    return making.Draft(
        replace(head, routed_from=job.id),
        making.document({**fields, "context": context}, artifacts),
        b"routed",
        facts=(making.created(head, routed_from=job.id, rule=verdict.number),),
        descends={job.id: "routed_from"},
    )
