"""The graph around a job: what it waits for, what waits for it, what it comes from and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.app import documents, load, neighbours
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.domain import limits
from interlock.domain.job import Job
from interlock.store import keys
from interlock.store.ports import Key

Edge = tuple[str, str, str]
"""(from, to, type): blocks leads from the upstream to the job that waits, the others from the origin to what came of it."""


def read(call: Call) -> Answer:
    """Breadth first, up to ``depth`` links away and up to a bound of nodes; ``truncated`` says that there is more."""
    bus, project, start = call.bus, the_project(call), the_job(call)
    nodes: dict[str, Job] = {start.id: start}
    edges: dict[Edge, None] = {}
    level, truncated = [start], False
    for _ in range(call.query["depth"]):
        found = _edges(bus, project.id, level)
        ends = dict.fromkeys(end for edge in found for end in edge[:2] if end not in nodes)
        room = limits.GRAPH_NODES - len(nodes)
        truncated = truncated or len(ends) > room
        heads = load.job_heads(bus, project.id, list(ends)[:room])
        level = [job for job in heads.values() if load.visible(job, call.actor, project)]
        nodes |= {job.id: job for job in level}
        edges |= dict.fromkeys(found)
        if not level:
            break
    else:
        truncated = truncated or any(
            end not in nodes for edge in _edges(bus, project.id, level) for end in edge[:2]
        )
    shown = [edge for edge in edges if edge[0] in nodes and edge[1] in nodes]
    return Answer(
        {
            "nodes": [_node(job) for job in nodes.values()],
            "edges": [{"from": begin, "to": end, "type": kind} for begin, end, kind in shown],
            "truncated": truncated,
        },
        version=start.version,
    )


def _node(job: Job) -> dict[str, Any]:
    return {"id": job.id, "summary": job.summary, "status": job.status, "role": job.role}


def _edges(bus: Bus, project: str, jobs: Iterable[Job]) -> list[Edge]:
    """The links that begin or end at these jobs."""
    jobs = list(jobs)
    found: list[Edge] = []
    named = _blocked_by(bus, [job for job in jobs if job.upstreams])
    for job in jobs:
        pk = keys.partition(project, "job", job.id)
        ups = neighbours.named(bus, job, named.get(job.id, ()))
        found += [(up, job.id, "blocks") for up, replaced_by in ups.items() if replaced_by is None]
        found += [
            (origin, job.id, kind)
            for kind, origin in (("reopen_of", job.reopen_of), ("routed_from", job.routed_from))
            if origin
        ]
        if job.parent and job.parent != job.routed_from:
            found.append((job.parent, job.id, "parent"))
        for row in neighbours.rows(bus, pk, keys.DOWN):
            if row["sk"].startswith(keys.WAITING):
                found.append((job.id, row["sk"].removeprefix(keys.WAITING), "blocks"))
            else:
                found.append((job.id, row["sk"].removeprefix(keys.DESCENDING), row["type"]))
    return found


def _blocked_by(bus: Bus, jobs: Iterable[Job]) -> dict[str, list[str]]:
    """What each job's ``blocked_by`` named at its creation."""
    bodies: Mapping[Key, Job] = {
        Key(keys.partition(job.project, "job", job.id), keys.BODY): job for job in jobs
    }
    stored = bus.store.table.batch_get(list(bodies)) if bodies else {}
    return {
        bodies[key].id: list(documents.read(bus, item).get("blocked_by", ())) for key, item in stored.items()
    }
