"""Retention: ended lineages move from the table to one NDJSON blob each.

A lineage is a job with every retry that a review made of it. The blob is written first; then one transaction records
``project.archived`` and marks the heads, each only as it was read: that is the commit, and from there on nobody sees
the jobs, and nothing can bring them back to life. Then their items go, the head last, so that a run that died in the
middle is finished by the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from interlock.app import documents, ledger, load, neighbours, records, shown, write
from interlock.app.call import Bus
from interlock.app.projects import every_project
from interlock.domain import limits
from interlock.domain.identity import SYSTEM, Project
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import ENDED
from interlock.store import conditions, items, keys
from interlock.store.ports import Delete, Key, Put, Query, TransactionPart, Update

WORK_MS = 10_000
"""How long one run goes on; the next one goes on from there."""
ROWS = 100
EVENTS = 1_000


def retain(bus: Bus) -> int:
    """One run over all projects that have a ``retention_days``; answers how many jobs went to the archive."""
    started, moved = bus.clock(), 0
    for project in every_project(bus):
        days = project.settings.get("retention_days")
        more = True
        while days is not None and more:
            count, more = _next_page(bus, project, days)
            moved += count
            if bus.clock() - started > WORK_MS:
                return moved
    return moved


def _next_page(bus: Bus, project: Project, days: int) -> tuple[int, bool]:
    """Go through the next jobs by creation; (how many went to the archive, whether there are more old ones).

    Where the page ended is kept, so that jobs which stay for long do not stand in the way of those behind them.
    """
    place, before = keys.retention(project.id), bus.clock() - days * limits.DAY
    item = bus.store.table.get(place) or {}
    query = Query(
        keys.jobs_partition(project.id),
        index=2,
        after=item.get("after"),
        upper=keys.time_sort(before, "~"),
        limit=ROWS,
    )
    page = bus.store.table.query(query)
    heads = load.job_heads(bus, project.id, [keys.entity_of(row["pk"])[2] for row in page.items])
    moved = sum(_look_at(bus, project, job, days) for job in heads.values())
    more = page.more and bool(page.items)
    at = {"after": page.items[-1]["g2sk"]} if more else {}
    bus.store.table.write(Put(place, {"pk": place.pk, "sk": place.sk, **at}))
    return moved, more


def _look_at(bus: Bus, project: Project, job: Job, days: int) -> int:
    """Archive the lineage that begins with this job, if it has ended for long enough; answers how many jobs went."""
    if job.archived is not None:
        _remove(bus, job)
        return 0
    lineage = _lineage(bus, job)
    if not lineage or not _at_rest(bus, lineage, bus.clock() - days * limits.DAY):
        return 0
    text = _text(bus, project, lineage)
    if text is None or not _mark(bus, project, lineage, text):
        return 0
    for one in lineage:
        _remove(bus, one)
    return len(lineage)


def _lineage(bus: Bus, job: Job) -> list[Job]:
    """The job and its retries; empty where it is a retry itself: it goes with the job that it is a retry of."""
    if job.reopen_of is not None:
        return []
    found = [job]
    while (name := found[-1].retry) is not None:
        following = load.job_head(bus, job.project, name)
        if following is None:
            break
        found.append(following)
    return found


def _at_rest(bus: Bus, lineage: Sequence[Job], before: int) -> bool:
    """Whether all of it ended before that time, and all that waits for it or comes from it."""
    own = {job.id for job in lineage}
    beside = {name for job in lineage for name in neighbours.below(bus, job)} - own
    heads = load.job_heads(bus, lineage[0].project, sorted(beside))
    return all(
        job.status in ENDED and job.updated_at < before and not job.unrouted
        for job in (*lineage, *heads.values())
    )


def _text(bus: Bus, project: Project, lineage: Sequence[Job]) -> bytes | None:
    """The archive; None while the ledger lacks an event."""
    lines = [
        records.line("archive", {"format": records.FORMAT, "project": project.id, "lineage": lineage[0].id})
    ]
    for job in lineage:
        whole = shown.whole(bus, job)
        lines.append(records.line("job", whole))
        lines += [records.line("link", link) for link in records.links(whole)]
        after = 0
        while after < job.version:
            pk = keys.partition(job.project, "job", job.id)
            found, version, _ = ledger.events_of(bus, pk, after, EVENTS)
            if version != job.version or not found or found[0][1]["seq"] != after + 1:
                return None
            if any(event["seq"] != after + 1 + number for number, (_, event) in enumerate(found)):
                return None
            after += len(found)
            lines += [records.line("event", event) for event in ledger.with_data(bus, found)]
    return "".join(lines).encode("ascii")


def _mark(bus: Bus, project: Project, lineage: Sequence[Job], text: bytes) -> bool:
    """Store the archive and commit it; False when a job of it, or the project, has moved meanwhile."""
    digest = hashlib.sha256(text).hexdigest()
    name = f"archive/{project.id}/{lineage[0].id}/{digest}.ndjson"
    bus.store.blobs.put(name, text)
    now = bus.clock()
    jobs = [{"id": job.id, "version": job.version, "digest": job.digest} for job in lineage]
    fact = Fact(
        "project.archived", data={"lineage": lineage[0].id, "jobs": jobs, "blob": name, "sha256": digest}
    )
    marks: list[TransactionPart] = [
        Update(
            items.head_key(job),
            {"archived": {"at": now, "blob": name}, "quiet": 1},
            ("g1pk", "g1sk"),
            conditions.unchanged(job.version),
        )
        for job in lineage
    ]
    try:
        write.change(bus, write.reload(bus, project), SYSTEM, now, Change({}, (fact,)), parts=marks)
    except write.Lost:
        return False
    return True


def _remove(bus: Bus, job: Job) -> None:
    """Delete an archived job's items. Events go from the last to the first, so that what is left is always a chain."""
    pk, table = keys.partition(job.project, "job", job.id), bus.store.table
    body = Key(pk, keys.BODY)
    own = [Key(row["pk"], row["sk"]) for row in neighbours.rows(bus, pk, "")]
    log = sorted((key for key in own if key.sk.startswith(keys.LOG_PREFIX)), reverse=True)
    rest = [key for key in own if key not in log and key.sk not in (keys.HEAD, keys.BODY)]
    item = table.get(body)
    named = documents.read(bus, item).get("blocked_by", ()) if item else ()
    elsewhere = [
        Delete(keys.waiting(keys.partition(job.project, "job", up), job.id))
        for up in neighbours.named(bus, job, named)
    ]
    for origin in (job.parent, job.routed_from, job.reopen_of):
        if origin:
            elsewhere.append(Delete(keys.descending(keys.partition(job.project, "job", origin), job.id)))
    if job.external_id is not None:
        live = keys.external_live(job.project, job.external_id)
        elsewhere.append(Delete(live, conditions.names_job(job.id)))
        elsewhere.append(Delete(keys.external_job(job.project, job.external_id, job.created_at, job.id)))
    # first what stands elsewhere: the rows here say what that is
    table.write_each(elsewhere)
    table.write_each([Delete(key) for key in rest])
    for key in log:
        table.write(Delete(key))
    table.transact([Delete(body), Delete(Key(pk, keys.HEAD))])
