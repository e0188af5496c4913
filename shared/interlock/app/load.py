"""Reading jobs: heads, their documents, and what an actor may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.app import cursors, documents, views
from interlock.app.call import Answer, Bus, Call
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.errors import StoreError
from interlock.store import items, keys
from interlock.store.ports import Item, Key, Query


def job_head(bus: Bus, project: str, job_id: str) -> Job | None:
    """A job's head, read consistently."""
    item = bus.store.table.get(keys.head(project, "job", job_id))
    return items.job(item) if item else None


def job_heads(bus: Bus, project: str, ids: Sequence[str]) -> dict[str, Job]:
    """The heads that exist among ``ids``."""
    found = bus.store.table.batch_get([keys.head(project, "job", job_id) for job_id in ids])
    return {job.id: job for job in (items.job(item) for item in found.values())}


def visible(job: Job, actor: Actor, project: Project) -> bool:
    """Whether the actor may see the job: owners see all of their project, agents by its setting.

    An agent without a live role sees nothing but what it holds: a claim can always be ended by its holder.
    """
    if actor.kind != "agent" or job.held_by(actor.id):
        return True
    if not actor.roles:
        return False
    if project.settings.get("visibility") != "roles":
        return True
    return job.role in actor.roles or actor.reference == job.source or job.assignee == actor.id


def work(bus: Bus, job: Job) -> dict[str, Any]:
    """The constraints and context that the head names, and the artifacts of creation."""
    pk = keys.partition(job.project, "job", job.id)
    body, *edited = _immutable(
        bus, [Key(pk, keys.BODY), *([keys.context(pk, job.context)] if job.context else [])]
    )
    document = dict(documents.read(bus, body))
    return {**document, **documents.read(bus, edited[0])} if edited else document


def _immutable(bus: Bus, wanted: Sequence[Key]) -> list[Item]:
    """Items that were written before a head named them and never change: the cheap read is right once it finds them."""
    found = bus.store.table.batch_get(wanted, consistent=False)
    missing = [key for key in wanted if key not in found]
    if missing:
        found |= bus.store.table.batch_get(missing)
    if not found.keys() >= set(wanted):
        raise StoreError(detail="a stored document is missing")
    return [found[key] for key in wanted]


def later_artifacts(bus: Bus, job: Job) -> list[dict[str, Any]]:
    """Artifacts attached after creation, oldest first."""
    if not job.later_artifacts:
        return []
    pk = keys.partition(job.project, "job", job.id)
    page = bus.store.table.query(Query(pk, prefix=keys.ARTIFACT_PREFIX))
    found = [documents.read(bus, item) for item in page.items]
    return sorted(found, key=lambda artifact: str(artifact["created_at"]))


def result(bus: Bus, job: Job) -> Any:
    """The result of a completed job, or None."""
    if job.result is not None:
        return items.unpack(job.result)
    if job.result_ref is None:
        return None
    item = bus.store.table.get(keys.result(keys.partition(job.project, "job", job.id), job.result_ref))
    return documents.read(bus, item) if item else None


def whole(bus: Bus, job: Job, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """A job as `GET job` shows it; ``known`` is its work where the caller has it at hand."""
    shown = dict(known) if known is not None else work(bus, job)
    shown["artifacts"] = [*shown["artifacts"], *later_artifacts(bus, job)]
    shown["result"] = result(bus, job)
    return views.whole(job, shown)


def answer(
    call: Call, job: Job, *, created: bool = False, replayed: bool = False, work: dict[str, Any] | None = None
) -> Answer:
    """`{job}`: the whole job, built from the head as written; ``work`` where it is at hand."""
    return Answer({"job": whole(call.bus, job, work)}, created, replayed, job.version)


def members(call: Call, scope: str, kind: str) -> tuple[list[dict[str, Any]], str | None]:
    """(items of one page of all entities of a kind, where to go on)."""
    position = cursors.read(f"{kind}s", {"scope": scope}, call.query["cursor"])
    query = Query(keys.members_partition(scope, kind), index=1, after=position, limit=call.query["limit"])
    page = call.bus.store.table.query(query)
    wanted = [Key(row["pk"], keys.HEAD) for row in page.items]
    found = call.bus.store.table.batch_get(wanted)
    more = page.more and bool(page.items)
    cursor = cursors.write(f"{kind}s", {"scope": scope}, page.items[-1]["g1sk"]) if more else None
    return [found[key] for key in wanted if key in found], cursor
