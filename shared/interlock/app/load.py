"""Reading jobs: heads, their documents, and what an actor may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import cursors, documents, objects
from interlock.app.call import Bus, Call
from interlock.domain import limits
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


def held_jobs(
    bus: Bus, project: str, agent: str, *, after: str | None = None, limit: int = limits.CLAIMS_PAGE
) -> tuple[list[Job], str | None]:
    """The jobs that an agent holds (heads read consistently), oldest claim first, and where to go on."""
    page = bus.store.table.query(
        Query(keys.live_partition(project), index=1, prefix=f"{agent}#", after=after, limit=limit)
    )
    ids = [keys.entity_of(row["pk"])[2] for row in page.items]
    heads = job_heads(bus, project, ids)
    jobs = [heads[job_id] for job_id in ids if job_id in heads and heads[job_id].held_by(agent)]
    return jobs, page.items[-1]["g1sk"] if page.more and page.items else None


def visible(job: Job, actor: Actor, project: Project) -> bool:
    """Whether the actor may see the job: owners see all of their project, agents by its setting.

    An agent without a live role sees nothing but what it holds: a claim can always be ended by its holder. Nobody
    sees what went to the archive.
    """
    if job.archived is not None:
        return False
    if actor.kind != "agent" or job.held_by(actor.id):
        return True
    if not actor.roles:
        return False
    if project.settings.get("visibility") != "roles":
        return True
    if job.role in actor.roles or actor.reference == job.source or job.assignee == actor.id:
        return True
    return any(role in actor.roles for entry in (job.asked or {}).values() for role in entry["roles"])


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
    """Artifacts attached after creation, oldest first; uploads as they are found now."""
    if not job.later_artifacts:
        return []
    pk = keys.partition(job.project, "job", job.id)
    rows: list[Item] = []
    more, after = True, None
    while more:
        page = bus.store.table.query(Query(pk, prefix=keys.ARTIFACT_PREFIX, after=after))
        rows += page.items
        more, after = page.more and bool(page.items), rows[-1]["sk"] if rows else None
    found = _artifacts(bus, {Key(pk, row["sk"]): row for row in rows})
    return objects.judged(bus, job, sorted(found, key=lambda artifact: str(artifact["created_at"])))


def later_artifact(bus: Bus, job: Job, artifact_id: str) -> dict[str, Any] | None:
    """One artifact that was attached after creation, as it is found now; None when there is none."""
    pk = keys.partition(job.project, "job", job.id)
    wanted = [keys.artifact(pk, artifact_id), keys.verification(pk, artifact_id)]
    found = objects.judged(bus, job, _artifacts(bus, bus.store.table.batch_get(wanted)))
    return found[0] if found else None


def _artifacts(bus: Bus, rows: Mapping[Key, Item]) -> list[dict[str, Any]]:
    """Artifacts with their verifications, which stand in rows of their own."""
    found = []
    for key, row in rows.items():
        if not keys.is_verification(key):
            artifact = dict(documents.read(bus, row))
            verified = rows.get(keys.verification(key.pk, artifact["id"]))
            found.append({**artifact, **documents.read(bus, verified)} if verified else artifact)
    return found


def result(bus: Bus, job: Job) -> Any:
    """The result of a completed job, or None."""
    if job.result is not None:
        return items.unpack(job.result)
    if job.result_ref is None:
        return None
    item = bus.store.table.get(keys.result(keys.partition(job.project, "job", job.id), job.result_ref))
    return documents.read(bus, item) if item else None


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
