"""The archive of a lineage: one NDJSON blob with its jobs, links, decisions and events, and the commit that makes it
count.

The blob is written first. Then one transaction records ``project.archived`` and marks the heads, each only as it was
read: from there on nobody sees the jobs, and no write of theirs holds any more.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any

from interlock.app import decisions, ledger, neighbours, records, shown, views, write
from interlock.app.call import Bus
from interlock.domain.identity import SYSTEM, Project
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.store import conditions, items, keys
from interlock.store.ports import TransactionPart, Update

BYTES = 64 * 1024 * 1024
"""A lineage whose archive would be larger stays in the table: the function that makes it has half a gigabyte."""
TRIES = 3
"""The project's head may be what has moved."""


def archive(bus: Bus, project: Project, lineage: Sequence[Job]) -> bool:
    """Archive a lineage that is at rest; False when it cannot be now: it moves, or the ledger lacks an event."""
    text = _text(bus, lineage)
    if text is None:
        return False
    digest = hashlib.sha256(text).hexdigest()
    blob = f"archive/{project.id}/{lineage[0].id}/{digest}.ndjson"
    bus.store.blobs.put(blob, text)
    now, where = bus.clock(), {"blob": blob, "sha256": digest}
    jobs = [{"id": job.id, "version": job.version, "digest": job.digest} for job in lineage]
    fact = Fact("project.archived", data={"lineage": lineage[0].id, "jobs": jobs, **where})
    marks: list[TransactionPart] = [
        Update(
            items.head_key(job),
            {"archived": {"at": now, **where}, "quiet": 1},
            ("g1pk", "g1sk"),
            conditions.unchanged(job.version),
        )
        for job in lineage
    ]
    for _ in range(TRIES):
        head = write.reload(bus, project)
        with contextlib.suppress(write.Lost):
            write.change(bus, head, SYSTEM, now, Change({}, (fact,)), parts=marks)
            return True
    return False


def is_kept(bus: Bus, job: Job) -> bool:
    """Whether the archive of an archived job is there, byte for byte."""
    where = job.archived or {}
    data = bus.store.blobs.get(where["blob"])
    return data is not None and hashlib.sha256(data).hexdigest() == where["sha256"]


def _text(bus: Bus, lineage: Sequence[Job]) -> bytes | None:
    """The archive's lines, the same for the same jobs; None while the ledger lacks an event, or when it is too much."""
    first = {"format": records.FORMAT, "project": lineage[0].project, "lineage": lineage[0].id}
    lines, size = [records.line("archive", first)], 0
    for job in lineage:
        whole = shown.whole(bus, job)
        events = _events(bus, job)
        if events is None:
            return None
        lines.append(records.line("job", whole))
        lines += [records.line("link", link) for link in records.links(whole)]
        asked = [
            views.decision(found, job, bus.clock()) for found in decisions.of_job(bus, job.project, job.id)
        ]
        lines += [records.line("decision", records.decision(each)) for each in asked]
        lines += [records.line("event", event) for event in events]
        size = sum(map(len, lines))
        if size > BYTES:
            return None
    return "".join(lines).encode("ascii")


def _events(bus: Bus, job: Job) -> list[dict[str, Any]] | None:
    """All of a job's events by their rows; None unless each has one: the dispatcher has nothing to write any more."""
    pk = keys.partition(job.project, "job", job.id)
    found = [
        (pk, event)
        for row in neighbours.rows(bus, pk, keys.LOG_PREFIX)
        for event in items.unpack(row["events"])
    ]
    if [event["seq"] for _, event in found] != list(range(1, job.version + 1)):
        return None
    return ledger.with_data(bus, found) if found[-1][1]["digest"] == job.digest else None
