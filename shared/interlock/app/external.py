"""External ids: unique among jobs that have not ended, and a list of all jobs that carried one."""

from __future__ import annotations

from interlock.app import load
from interlock.app.call import Bus
from interlock.domain.job import Job
from interlock.domain.lifecycle import CASCADED, ENDED
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import Check, Put, TransactionPart


def require_free(bus: Bus, job: Job, field: str = "external_id") -> tuple[str, Job | None]:
    """(id of the job that last held the external id or our own, its ended head). Raises ``already_exists``."""
    assert job.external_id is not None
    item = bus.store.table.get(keys.external_live(job.project, job.external_id))
    holder = str(item["job"]) if item else job.id
    if holder == job.id:
        return holder, None
    other = load.job_head(bus, job.project, holder)
    # a job that a plan has still to make holds its id already; one that failed by cascade may come back
    if other is None or other.status not in ENDED or other.stage == CASCADED:
        raise InterlockError(
            "already_exists",
            f"job {holder} carries external_id {job.external_id!r} and has not ended",
            errors=[FieldError(field, f"in use by {holder}")],
            extra={"job": holder},
        )
    return holder, other


def parts(bus: Bus, job: Job, field: str = "external_id") -> list[TransactionPart]:
    """What a write that brings the job to life adds to its transaction: take the id, from an ended job if need be.

    ``field`` is where a body names it.
    """
    if job.external_id is None:
        return []
    holder, ended = require_free(bus, job, field)
    key = keys.external_live(job.project, job.external_id)
    taken: list[TransactionPart] = [
        Put(key, {"pk": key.pk, "sk": key.sk, "job": job.id}, conditions.slot_free(holder))
    ]
    if ended is not None and ended.archived is None:
        taken.append(Check(items.head_key(ended), conditions.unchanged(ended.version)))
    return taken


def listing(job: Job) -> list[Put]:
    """The row by which `?external_id=` finds the job; harmless without a head."""
    if job.external_id is None:
        return []
    key = keys.external_job(job.project, job.external_id, job.created_at, job.id)
    return [Put(key, {"pk": key.pk, "sk": key.sk, "job": job.id})]
