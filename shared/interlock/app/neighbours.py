"""Reading the jobs around a job: what it waits for, what waits for it, and who worked on what it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.app import load
from interlock.app.call import Bus
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import CANCELLED
from interlock.domain.links import Upstream
from interlock.store import keys
from interlock.store.ports import Item, Put, Query

LOOKED_AT = 100
"""Links, each way, that are looked at for whether somebody sees a job because of them."""


def upstream(bus: Bus, job: Job, document: Mapping[str, Any]) -> list[Upstream]:
    """The upstream jobs of a job: as its creation named them, then those that were linked since, by id.

    ``document`` is its BODY's.
    """
    replaced = named(bus, job, document.get("blocked_by", ()))
    if not replaced:
        return []
    pk = keys.partition(job.project, "job", job.id)
    states: dict[str, str] = {}
    if job.waits or job.status == CANCELLED:
        # bad rows come first, so that a failed hold, which has both, ends as failed
        for row in reversed(list(rows(bus, pk, keys.HOLDS))):
            bad = row["sk"].startswith(keys.BAD_HOLD)
            states[row["sk"][len(keys.BAD_HOLD) :]] = "failed" if bad else "open"
    return [
        Upstream(up, "replaced" if by else states.get(up, "satisfied"), by) for up, by in replaced.items()
    ]


def named(bus: Bus, job: Job, blocked_by: Iterable[str]) -> dict[str, str | None]:
    """Every upstream that was ever named, and by which job it was replaced, if it was."""
    replaced: dict[str, str | None] = dict.fromkeys(blocked_by)
    if job.links:
        for row in rows(bus, keys.partition(job.project, "job", job.id), keys.UPSTREAM):
            replaced[row["sk"].removeprefix(keys.UPSTREAM)] = row.get("replaced_by")
    return replaced


def rows(bus: Bus, pk: str, prefix: str) -> Iterable[Item]:
    """All rows of a partition that begin so."""
    after = None
    while True:
        page = bus.store.table.query(Query(pk, prefix=prefix, after=after, limit=500))
        yield from page.items
        if not page.more:
            return
        after = page.items[-1]["sk"]


def sees_by_link(bus: Bus, job: Job, actor: Actor, project: Project) -> bool:
    """Whether a link leads from the job, one way or the other, to one that the actor sees by itself.

    So an agent whose project shows each role its own jobs follows the links of these. The first of the job's links
    are looked at, those that the head names before all.
    """
    if actor.kind != "agent" or not actor.roles or job.archived is not None:
        return False
    origins = [name for name in (job.parent, job.reopen_of, job.routed_from, job.retry) if name]
    return any(
        load.visible(other, actor, project)
        for names in (origins, _first_below(bus, job), _first_upstream(bus, job))
        for other in load.job_heads(bus, job.project, names).values()
    )


def _first_below(bus: Bus, job: Job) -> list[str]:
    pk = keys.partition(job.project, "job", job.id)
    page = bus.store.table.query(Query(pk, prefix=keys.DOWN, limit=LOOKED_AT))
    return [row["sk"][len(keys.WAITING) :] for row in page.items]


def _first_upstream(bus: Bus, job: Job) -> list[str]:
    if not job.upstreams and not job.links:
        return []
    named_first = load.work(bus, job).get("blocked_by", ())[:LOOKED_AT]
    return list(named(bus, job, named_first))[:LOOKED_AT]


def below(bus: Bus, job: Job) -> list[str]:
    """Every job that waits, or waited, for this one, or comes from it; some may never have come."""
    pk = keys.partition(job.project, "job", job.id)
    return [row["sk"][len(keys.WAITING) :] for row in rows(bus, pk, keys.DOWN)]


def downstream(bus: Bus, job: Job, limit: int) -> tuple[list[str], bool]:
    """(up to ``limit`` jobs that wait, or waited, for this one, whether there are more)."""
    pk = keys.partition(job.project, "job", job.id)
    page = bus.store.table.query(Query(pk, prefix=keys.WAITING, limit=limit))
    ids = [row["sk"].removeprefix(keys.WAITING) for row in page.items]
    # a row is written before the job that it names, which may never have come
    there = load.job_heads(bus, job.project, ids)
    return [job_id for job_id in ids if job_id in there and there[job_id].archived is None], page.more


def workers_upstream(bus: Bus, job: Job) -> list[str]:
    """Whoever held an upstream of the job, or an earlier attempt at one: they may not take an independent job."""
    named = upstream(bus, job, load.work(bus, job))
    heads = load.job_heads(bus, job.project, [up.id for up in named])
    return workers(bus, job.project, heads.values())


def workers(bus: Bus, project: str, jobs: Iterable[Job]) -> list[str]:
    """Everybody who held one of these jobs, or one that a review sent back to become it."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    level = list(jobs)
    while level:
        seen |= {job.id for job in level}
        for job in level:
            found |= dict.fromkeys(job.workers)
        earlier = {job.reopen_of for job in level if job.reopen_of} - seen
        level = list(load.job_heads(bus, project, sorted(earlier)).values())
    return list(found)


def waiting_rows(project: str, upstream_ids: Sequence[str], job: str) -> list[Put]:
    """The rows by which upstream jobs know that ``job`` waits for them; harmless without a head."""
    found = []
    for up in upstream_ids:
        key = keys.waiting(keys.partition(project, "job", up), job)
        found.append(Put(key, {"pk": key.pk, "sk": key.sk}))
    return found
