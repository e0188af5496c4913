"""Use cases of a job outside a claim: create, read, edit, record, cancel, retry, stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import documents, external, load, making, neighbours, shown, views, write
from interlock.app.artifacts import initial
from interlock.app.call import Answer, Call, the_job, the_project
from interlock.app.references import require_jobs, require_role, require_roles
from interlock.app.settle import settle
from interlock.domain import ids, limits, moves, usage
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import FAILED, HELD, OPEN, PUBLISHED
from interlock.domain.times import rfc3339
from interlock.errors import InterlockError, StoreError
from interlock.store import keys
from interlock.store.ports import ConditionLost, Item, Key, Put


def create(call: Call) -> Answer:
    """Publish a job. A repeat with the same Idempotency-Key answers the job as it is now."""
    bus, body, project = call.bus, call.body, the_project(call)
    job_id = _job_id(call)
    if call.key and (known := load.job_head(bus, project.id, job_id)):
        _require_same_request(
            call, bus.store.table.get(Key(keys.partition(project.id, "job", job_id), keys.BODY))
        )
        return shown.answer(call, known, replayed=True)
    require_roles(project, body)
    named = {name: f"blocked_by/{n}" for n, name in enumerate(body["blocked_by"])}
    if body["parent"]:
        named.setdefault(body["parent"], "parent")
    there = require_jobs(call, named)
    draft = _draft(call, job_id, [there[name] for name in body["blocked_by"]])
    parts = external.parts(bus, draft.head)
    document = _staged(call, draft)
    for _ in range(write.TRIES):
        try:
            holds = making.hold_before(bus, draft)
            made = write.create(bus, draft.head, call.actor, draft.facts, [*parts, *holds])
        except (write.Lost, ConditionLost):
            twin = load.job_head(bus, project.id, job_id)
            if twin is not None:
                return shown.answer(call, twin, replayed=True)
            parts = external.parts(bus, draft.head)  # whose the external id is has changed
        else:
            made = making.look_again(bus, made, draft.waits_for)
            return shown.answer(call, made, created=True, work=document)
    raise StoreError("throttled", "many callers change this external id at once")


def _job_id(call: Call) -> str:
    if call.key:
        return ids.derived("job", the_project(call).id, call.key.hex())
    return ids.ulid("job", call.now, call.bus.entropy(10))


def _draft(call: Call, job_id: str, waits_for: Sequence[Job]) -> making.Draft:
    body, project = call.body, the_project(call)
    head = making.head(
        project.id,
        making.resolved(project, body),
        id=job_id,
        source=(call.actor.reference, call.actor.label),
        now=call.now,
        waits_for=waits_for,
        trace=call.trace,
    )
    if head.independent and head.status == PUBLISHED:
        head = replace(head, excluded=tuple(neighbours.workers(call.bus, project.id, waits_for)))
    document = making.document(body, initial(call.actor, call.now, job_id, body["artifacts"]))
    return making.Draft(
        head,
        document,
        call.body_hash[:16],
        waits_for,
        (making.created(head, waits_for),),
        {head.parent: "parent"} if head.parent else {},
    )


def _staged(call: Call, draft: making.Draft) -> dict[str, Any]:
    """Store what the head will name, once, and answer it as stored: a crashed first try may have stored it.

    Raises ``idempotency_mismatch`` when the key had another body.
    """
    bus, stored = call.bus, draft.document
    body, *rest = making.staged(bus, draft)
    if not bus.store.table.write_each([body])[0]:
        found = bus.store.table.get(body.key)
        _require_same_request(call, found)
        stored = documents.read(bus, found or {})
    if rest:  # only now: other jobs learn of this one by these
        bus.store.table.write_each(rest)
    return dict(stored)


def _require_same_request(call: Call, body: Item | None) -> None:
    if body is None or body.get("request") != call.body_hash[:16]:
        raise InterlockError("idempotency_mismatch")


def get(call: Call) -> Answer:
    """Read a whole job, and the names of those that wait for it."""
    job = the_job(call)
    answer = shown.answer(call, job)
    below, more = neighbours.downstream(call.bus, job, limits.NEIGHBOURS)
    answer.value["job"] |= {"downstream": below, "downstream_more": more}
    return answer


def edit(call: Call) -> Answer:
    """Change a job that nobody has started. If-Match names the version that the caller read."""
    project = the_project(call)
    given = {name: call.body[name] for name in call.sent}
    owner_only = {"role", "max_retries", "budget"} & given.keys()
    if owner_only and call.actor.kind != "owner":
        raise InterlockError("forbidden", f"only an owner may change {', '.join(sorted(owner_only))}")
    if "role" in given:
        require_role(project, given["role"])

    def decision(job: Job) -> Change | None:
        # The owner may move a job to another role, or change its budget, while nobody holds it.
        movable = job.status in OPEN or (
            call.actor.kind == "owner"
            and job.status == FAILED
            and given.keys() <= {"role", "max_retries", "budget"}
        )
        if not movable:
            raise moves.wrong_state(job, "edit")
        return _edited(call, job, given)

    job, repeated = settle(call, the_job(call), decision)
    return shown.answer(call, job, replayed=repeated)


def _edited(call: Call, job: Job, given: Mapping[str, Any]) -> Change | None:
    bus, pk = call.bus, keys.partition(job.project, "job", job.id)
    attributes: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    document_fields = {"constraints", "context"} & given.keys()
    if document_fields:
        now_stored = load.work(bus, job)
        document = {name: given.get(name, now_stored[name]) for name in ("constraints", "context")}
        name = documents.content_hash(document)
        bus.store.table.write_each(
            [Put(keys.context(pk, name), documents.item(bus, keys.context(pk, name), document))]
        )
        for field in sorted(document_fields):
            if given[field] != now_stored[field]:
                before, after = (documents.content_hash(value) for value in (now_stored[field], given[field]))
                changes[field] = [f"sha256:{before}", f"sha256:{after}"]
        attributes["context"] = name
    for field in ("summary", "priority", "deadline", "role", "max_retries"):
        if field in given and given[field] != getattr(job, field):
            attributes[field] = given[field]
            shown = [getattr(job, field), given[field]]
            changes[field] = (
                [None if at is None else rfc3339(at) for at in shown] if field == "deadline" else shown
            )
    if "budget" in given and (budget := usage.budget(given["budget"])) != job.budget:
        attributes["budget"] = budget
        changes["budget"] = [views.amounts(job.budget), views.amounts(budget)]
    if "deadline" in changes:
        attributes |= {"overdue": None, "deadline_hop": 1 if given["deadline"] is not None else None}
    if not changes:
        return None
    return Change(attributes, (Fact("job.updated", job.status, job.status, {"changes": changes}),))


def record(call: Call) -> Answer:
    """Record a custom event on a job that the caller sees; the status does not matter."""
    fact = Fact(call.body["type"], None, None, call.body["data"] or {})
    job, repeat = settle(call, the_job(call), lambda _: Change({}, (fact,), work=False))
    event = None if repeat else {"seq": job.version, "type": fact.type, "digest": job.digest}
    return Answer(
        {"event": event, "job": {"id": job.id, "status": job.status, "version": job.version}},
        not repeat,
        repeat,
        job.version,
    )


def cancel(call: Call) -> Answer:
    """Cancel: the source while nobody holds the job, its holder with the fence, an owner always."""
    fence = call.body["fence"]
    actor = call.actor

    def check(job: Job) -> None:
        moves.require_source_or_claim(job, actor, fence, "cancel it")
        if actor.kind != "owner" and fence is None and job.status in HELD:
            raise InterlockError(
                "not_holder",
                "the job is held; only its holder (with the fence) or an owner may cancel it now",
            )

    def decision(job: Job) -> Change:
        return moves.cancel(job, call.now, call.body["reason"], by_holder=fence is not None)

    job, repeat = settle(call, the_job(call), decision, check=check)
    return shown.answer(call, job, replayed=repeat)


def retry(call: Call) -> Answer:
    """Publish a failed job again; may raise the budget."""
    job, repeat = settle(
        call,
        the_job(call),
        lambda job: moves.retry(job, call.now, call.body["max_retries"]),
        parts=lambda job: external.parts(call.bus, job),
    )
    return shown.answer(call, job, replayed=repeat)


def stop(call: Call) -> Answer:
    """Take a held job from its holder."""
    body, project = call.body, the_project(call)
    if body["role"]:
        require_role(project, body["role"])

    def decision(job: Job) -> Change:
        return moves.stop(job, call.now, body["then"], body["reason"], body["role"])

    job, repeat = settle(call, the_job(call), decision)
    return shown.answer(call, job, replayed=repeat)
