"""Retention: ended lineages move from the table to one NDJSON blob each, where a project says after how many days.

A lineage is a job with every retry that a review made of it. It goes when all of it, and all that waits for it or
comes from it, has ended for that long. It is archived first (archive.py), and then nobody sees it. Its items stay
until nothing can be on its way any more that still names it; then they are deleted, the head last, so that a run
that died in the middle is finished by the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from interlock.app import archive, documents, load, neighbours
from interlock.app.call import Bus
from interlock.app.projects import every_project
from interlock.domain import limits
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import CASCADED, ENDED
from interlock.store import conditions, keys
from interlock.store.ports import ConditionLost, Delete, Key, Put, Query

WORK_MS = 60_000
"""How long one run goes on; the next one goes on from there."""
PAUSE = limits.DAY - limits.HOUR
"""How long a project is left alone after all of its jobs were looked at."""
ROWS = 100


def retain(bus: Bus) -> int:
    """One run over all projects that have a ``retention_days``; answers how many jobs were archived."""
    started, moved = bus.clock(), 0
    for project in every_project(bus):
        days = project.settings.get("retention_days")
        more = days is not None
        while days is not None and more:
            count, more = _next_page(bus, project, days)
            moved += count
            if bus.clock() - started > WORK_MS:
                return moved
    return moved


def _next_page(bus: Bus, project: Project, days: int) -> tuple[int, bool]:
    """Go through the next jobs by creation; (how many were archived, whether to go on).

    Where the page ended is kept, so that jobs which stay for long do not stand in the way of those behind them.
    """
    place, now = keys.retention(project.id), bus.clock()
    state = bus.store.table.get(place) or {}
    if now < state.get("again", 0):
        return 0, False
    before = now - days * limits.DAY
    query = Query(
        keys.jobs_partition(project.id),
        index=2,
        after=state.get("after"),
        upper=keys.time_sort(before, "~"),
        limit=ROWS,
    )
    page = bus.store.table.query(query)
    heads = load.job_heads(bus, project.id, [keys.entity_of(row["pk"])[2] for row in page.items])
    moved = sum(_look_at(bus, project, job, before) for job in heads.values())
    more = page.more and bool(page.items)
    left = {"after": page.items[-1]["g2sk"]} if more else {"again": now + PAUSE}
    bus.store.table.write(Put(place, {"pk": place.pk, "sk": place.sk, **left}))
    return moved, more


def _look_at(bus: Bus, project: Project, job: Job, before: int) -> int:
    """Archive the lineage that begins with this job, or remove a job that was archived; how many were archived."""
    if job.archived is not None:
        if _may_go(bus, job):
            _remove(bus, job)
        return 0
    # a retry goes with the job that it is a retry of
    if job.reopen_of is not None or not _rests([job], before):
        return 0
    lineage = _lineage(bus, job)
    if not _rests(lineage, before) or not _rests(_beside(bus, lineage), before) or _may_revive(bus, lineage):
        return 0
    return len(lineage) if archive.archive(bus, project, lineage) else 0


def _lineage(bus: Bus, job: Job) -> list[Job]:
    """The job and its retries."""
    found = [job]
    while (name := found[-1].retry) is not None and (following := load.job_head(bus, job.project, name)):
        found.append(following)
    return found


def _rests(jobs: Iterable[Job], before: int) -> bool:
    """Whether all of these ended before that time, and nothing is to follow from it. Archived ones do."""
    return all(
        job.archived is not None
        or (job.status in ENDED and job.updated_at < before and not job.unrouted and not job.moot)
        for job in jobs
    )


def _may_revive(bus: Bus, lineage: Sequence[Job]) -> bool:
    """Whether one failed by cascade, and the root of that may still come back: the root goes first."""
    roots = [job.cascade["root"] for job in lineage if job.stage == CASCADED and job.cascade]
    return any(root.archived is None for root in load.job_heads(bus, lineage[0].project, roots).values())


def _beside(bus: Bus, lineage: Sequence[Job]) -> list[Job]:
    """Jobs that wait, or waited, for one of the lineage, or come from it."""
    names = {name for job in lineage for name in neighbours.below(bus, job)} - {job.id for job in lineage}
    return list(load.job_heads(bus, lineage[0].project, sorted(names)).values())


def _may_go(bus: Bus, job: Job) -> bool:
    """Whether an archived job's items may be deleted: its archive is there, and nobody asks for them any more.

    Whoever read it before it was archived may have let a new job wait for it; then it stays until that one ends.
    """
    now, since = bus.clock(), (job.archived or {})["at"]
    return (
        since + limits.ARCHIVE_GRACE < now and _rests(_beside(bus, [job]), now) and archive.is_kept(bus, job)
    )


def _remove(bus: Bus, job: Job) -> None:
    """Delete an archived job's items. First what stands elsewhere, as the rows here say where that is; events from the
    last to the first, so that what is left is always the beginning of a chain."""
    pk, table = keys.partition(job.project, "job", job.id), bus.store.table
    head, body = Key(pk, keys.HEAD), Key(pk, keys.BODY)
    table.write_each(_elsewhere(bus, job, body))
    own = [Key(row["pk"], row["sk"]) for row in neighbours.rows(bus, pk, "")]
    log = [key for key in own if key.sk.startswith(keys.LOG_PREFIX)]
    table.write_each([Delete(key) for key in own if key not in (head, body) and key not in set(log)])
    for key in reversed(log):
        table.write(Delete(key))
    with contextlib.suppress(ConditionLost):  # another run was faster
        table.transact([Delete(head, conditions.archived()), Delete(body)])


def _elsewhere(bus: Bus, job: Job, body: Key) -> list[Delete]:
    """The rows that name the job in other partitions."""
    item = bus.store.table.get(body)
    named = documents.read(bus, item).get("blocked_by", ()) if item else ()
    ups = neighbours.named(bus, job, named)
    found = [Delete(keys.waiting(keys.partition(job.project, "job", up), job.id)) for up in ups]
    for origin in filter(None, (job.parent, job.routed_from, job.reopen_of)):
        found.append(Delete(keys.descending(keys.partition(job.project, "job", origin), job.id)))
    if job.external_id is not None:
        live = keys.external_live(job.project, job.external_id)
        found.append(Delete(live, conditions.names_job(job.id)))
        found.append(Delete(keys.external_job(job.project, job.external_id, job.created_at, job.id)))
    return found
