"""The graph around a job: what it waits for, what waits for it, what it comes from and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.app import documents, load, neighbours
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.domain import limits
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.store import keys
from interlock.store.ports import Key

LOOK = 200
"""Jobs that are read at once."""

Edge = tuple[str, str, str]
"""(from, to, type): blocks leads from the upstream to the job that waits, the others from the origin to what came of it."""


def read(call: Call) -> Answer:
    """Breadth first, up to ``depth`` links away and up to a bound of nodes; ``truncated`` says that there is more."""
    project, start = the_project(call), the_job(call)
    nodes: dict[str, Job] = {start.id: start}
    edges: dict[Edge, None] = {}
    level, truncated = [start], False
    # the last round adds no nodes: it finds the links among those that are there, and whether there is more
    for room in (*[limits.GRAPH_NODES] * call.query["depth"], 0):
        found = _edges(call.bus, project.id, level)
        edges |= dict.fromkeys(found)
        ends = dict.fromkeys(end for edge in found for end in edge[:2] if end not in nodes)
        left = max(0, room - len(nodes))
        level = _seen(call, project, list(ends), left + 1)
        truncated = truncated or len(level) > left
        level = level[:left]
        nodes |= {job.id: job for job in level}
        if not level:
            break
    shown = [edge for edge in edges if edge[0] in nodes and edge[1] in nodes]
    return Answer(
        {
            "nodes": [_node(job) for job in nodes.values()],
            "edges": [{"from": begin, "to": end, "type": kind} for begin, end, kind in shown],
            "truncated": truncated,
        },
        version=start.version,
    )


def _seen(call: Call, project: Project, names: Sequence[str], most: int) -> list[Job]:
    """Of these jobs, those that are there and that the caller may see; no more than ``most``."""
    found: list[Job] = []
    for first in range(0, len(names), LOOK):
        heads = load.job_heads(call.bus, project.id, names[first : first + LOOK])
        found += [job for job in heads.values() if load.visible(job, call.actor, project)]
        if len(found) >= most:
            return found[:most]
    return found


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
