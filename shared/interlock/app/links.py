"""Links that are added to jobs which exist already: an upstream to wait for, and no circles."""

from __future__ import annotations

from interlock.app import barrier, load, shown
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.app.neighbours import rows, upstream, workers
from interlock.app.references import require_jobs
from interlock.app.settle import settle
from interlock.domain import limits, moves
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import PUBLISHED
from interlock.errors import FieldError, InterlockError, StoreError
from interlock.store import conditions, keys
from interlock.store.ports import Put, TransactionPart, Update


def add(call: Call) -> Answer:
    """Let a job that nobody has started wait for one more upstream. A link that is there already is left as it is."""
    bus, project, name = call.bus, the_project(call).id, call.body["upstream"]
    pk = keys.partition(project, "job", the_job(call).id)
    parts: list[TransactionPart] = []

    def decision(job: Job) -> Change | None:
        parts.clear()
        up = require_jobs(call, {name: "upstream"})[name]
        moves.require(job, "link")
        there = upstream(bus, job, load.work(bus, job))
        if any(found.id == up.id for found in there):
            return None
        if sum(found.state != "replaced" for found in there) >= limits.UPSTREAMS:
            raise InterlockError("limit_reached", f"a job waits for at most {limits.UPSTREAMS} jobs")
        satisfied = barrier.satisfies(up, continues=job.on_upstream_failure == "continue")
        parts.extend(added(pk, up))
        if not satisfied:
            parts.append(guarded(bus, job, up))
            parts.append(barrier.hold(pk, up, continues=job.on_upstream_failure == "continue"))
        # the barrier finds out who is excluded when it publishes; this job stays published
        stays = satisfied and job.independent and job.status == PUBLISHED
        excluded = workers(bus, job.project, [up]) if stays else ()
        return moves.link(job, call.now, up.id, satisfied=satisfied, excluded=excluded)

    job, repeat = settle(call, the_job(call), decision, parts=lambda _: parts, reads_on=True)
    if job.waits:
        job = barrier.catch_up(bus, job, [name])
    return shown.answer(call, job, replayed=repeat)


def added(pk: str, up: Job) -> list[TransactionPart]:
    """The rows of a link to an upstream, at both its ends."""
    _, _, job = keys.entity_of(pk)
    waiting = keys.waiting(keys.partition(up.project, "job", up.id), job)
    key = keys.upstream(pk, up.id)
    return [Put(key, {"pk": pk, "sk": key.sk}), Put(waiting, {"pk": waiting.pk, "sk": waiting.sk})]


def guarded(bus: Bus, job: Job, up: Job, field: str = "upstream") -> Update:
    """Refuse a hold on ``up`` that would close a circle; the part makes sure that no other link came in between.

    Raises ``cycle``, naming the way round. Holds that exist since creation cannot close one; only links between jobs
    that are there already can, and these meet at one item per project.
    """
    key = keys.links(job.project)
    item = bus.store.table.get(key)
    count = item["count"] if item else 0
    way = _way(bus, job.project, up.id, job.id)
    if way:
        shown = " waits for ".join([job.id, *way])
        raise InterlockError(
            "cycle", f"it would close a circle: {shown}", errors=[FieldError(field, "waits for the job")]
        )
    return Update(key, {"count": count + 1}, (), conditions.links_unchanged(count))


def _way(bus: Bus, project: str, start: str, goal: str) -> list[str]:
    """How ``start`` waits for ``goal``: the jobs from one to the other by open holds; empty when it does not.

    A job that a plan has still to make gets its holds together with its head. Until then nobody knows what it will
    wait for: heads are read before holds, and one that is missing is an error (``throttled``), to ask again.
    """
    came: dict[str, str | None] = {start: None}
    level = [start]
    while level:
        if goal in level:
            way = [goal]
            while (before := came[way[0]]) is not None:
                way.insert(0, before)
            return way
        there = load.job_heads(bus, project, level)
        if len(there) < len(level):
            raise StoreError("throttled", "a plan that the upstream waits for is still being made")
        found: dict[str, str] = {}
        for job in level:
            for row in rows(bus, keys.partition(project, "job", job), keys.OPEN_HOLD):
                found.setdefault(row["sk"].removeprefix(keys.OPEN_HOLD), job)
        level = [up for up in found if up not in came]
        came |= {up: found[up] for up in level}
        if len(came) > limits.LINK_WALK:
            raise InterlockError(
                "limit_reached",
                f"the upstream waits for more than {limits.LINK_WALK:,} jobs; whether a circle would close is not found out",
            )
    return []
