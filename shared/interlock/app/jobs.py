"""Use cases of a job outside a claim: create, read, edit, record, cancel, retry, stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.app import documents, external, load, write
from interlock.app.artifacts import initial
from interlock.app.call import Answer, Call, the_job, the_project
from interlock.app.references import require_role
from interlock.app.settle import settle
from interlock.domain import ids, moves
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import FAILED, HELD, OPEN, PENDING, PUBLISHED
from interlock.domain.times import rfc3339
from interlock.errors import FieldError, InterlockError, StoreError
from interlock.store import conditions, keys
from interlock.store.ports import ConditionLost, Item, Key, Put


def create(call: Call) -> Answer:
    """Publish a job. A repeat with the same Idempotency-Key answers the job as it is now."""
    bus, body, project = call.bus, call.body, the_project(call)
    if call.key:
        job_id = ids.derived("job", project.id, call.key.hex())
    else:
        job_id = ids.ulid("job", call.now, bus.entropy(10))
    require_role(project, body["role"])
    if body["parent"] and not _parent(call, body["parent"]):
        raise InterlockError(
            "unknown_job", f"there is no job {body['parent']}", errors=[FieldError("parent", "unknown job")]
        )
    pk = keys.partition(project.id, "job", job_id)
    if call.key and (known := load.job_head(bus, project.id, job_id)):
        _require_same_request(call, bus.store.table.get(Key(pk, keys.BODY)))
        return load.answer(call, known, replayed=True)
    job = _new(call, job_id)
    parts = external.parts(bus, job)
    document = _stage_body(call, pk, job_id)
    staged = external.listing(job)
    if job.parent:
        kin = Key(pk, "KIN")
        row = {
            "pk": pk,
            "sk": kin.sk,
            "g2pk": keys.children_partition(project.id, job.parent),
            "g2sk": keys.time_sort(job.created_at, job.id),
        }
        staged.append(Put(kin, row))
    if staged:
        bus.store.table.write_each(staged)
    data: dict[str, Any] = {"role": job.role, "priority": job.priority, "summary": job.summary}
    if job.parent:
        data["parent"] = job.parent
    if job.status == PENDING:
        data["not_before"] = rfc3339(job.not_before or 0)
    for _ in range(write.TRIES):
        try:
            made = write.create(bus, job, call.actor, [Fact("job.created", None, job.status, data)], parts)
        except write.Lost:
            twin = load.job_head(bus, project.id, job_id)
            if twin is not None:
                return load.answer(call, twin, replayed=True)
            parts = external.parts(bus, job)  # whose the external id is has changed
        else:
            return load.answer(call, made, created=True, work=document)
    raise StoreError("throttled", "many callers change this external id at once")


def _parent(call: Call, parent: str) -> Job | None:
    found = load.job_head(call.bus, the_project(call).id, parent)
    return found if found and load.visible(found, call.actor, the_project(call)) else None


def _stage_body(call: Call, pk: str, job_id: str) -> dict[str, Any]:
    """Store what the head will name, once, and answer it as stored: a crashed first try may have stored it.

    Raises ``idempotency_mismatch`` when the key had another body.
    """
    body = call.body
    document = {
        "constraints": body["constraints"],
        "context": body["context"],
        "artifacts": initial(call, job_id, body["artifacts"]),
    }
    key = Key(pk, keys.BODY)
    item = {
        **documents.item(call.bus, key, document),
        "request": call.body_hash[:16],
        "g2pk": keys.jobs_partition(the_project(call).id),
        "g2sk": keys.time_sort(call.now, job_id),
    }
    try:
        call.bus.store.table.write(Put(key, item, conditions.absent()))
    except ConditionLost as lost:
        found = lost.item or call.bus.store.table.get(key)
        _require_same_request(call, found)
        return dict(documents.read(call.bus, found or item))
    return document


def _require_same_request(call: Call, body: Item | None) -> None:
    if body is None or body.get("request") != call.body_hash[:16]:
        raise InterlockError("idempotency_mismatch")


def _new(call: Call, job_id: str) -> Job:
    """The head as its creation wants it: the request's fields, then the role's and the project's defaults."""
    body, project, now = call.body, the_project(call), call.now
    role = project.roles[body["role"]]
    waits = body["not_before"] is not None and body["not_before"] > now
    return Job(
        id=job_id,
        project=project.id,
        status=PENDING if waits else PUBLISHED,
        role=role.key,
        summary=body["summary"],
        priority=body["priority"],
        source=call.actor.reference,
        source_label=call.actor.label,
        created_at=now,
        updated_at=now,
        published_at=None if waits else now,
        max_retries=body["max_retries"],
        lease_seconds=body["lease_seconds"] or role.lease_seconds or project.settings["lease_seconds"],
        on_expire=body["on_expire"] or role.on_expire or "publish",
        external_id=body["external_id"],
        parent=body["parent"],
        requires=tuple(body["requires"]),
        capabilities=tuple(body["capabilities"] if "capabilities" in call.sent else role.capabilities),
        not_before=body["not_before"],
        deadline=body["deadline"],
        trace=call.trace,
        artifacts=len(body["artifacts"]),
        start_hop=1 if waits else None,
        deadline_hop=1 if body["deadline"] is not None else None,
    )


def get(call: Call) -> Answer:
    """Read a whole job."""
    return load.answer(call, the_job(call))


def edit(call: Call) -> Answer:
    """Change a job that nobody has started. If-Match names the version that the caller read."""
    project = the_project(call)
    given = {name: call.body[name] for name in call.sent}
    owner_only = {"role", "max_retries"} & given.keys()
    if owner_only and call.actor.kind != "owner":
        raise InterlockError("forbidden", f"only an owner may change {', '.join(sorted(owner_only))}")
    if "role" in given:
        require_role(project, given["role"])

    def decision(job: Job) -> Change | None:
        # The owner may move a job to another role, or change its budget, while nobody holds it.
        movable = job.status in OPEN or (
            call.actor.kind == "owner" and job.status == FAILED and given.keys() <= {"role", "max_retries"}
        )
        if not movable:
            raise moves.wrong_state(job, "edit")
        return _edited(call, job, given)

    job, _ = settle(call, the_job(call), decision)
    return load.answer(call, job)


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
    return load.answer(call, job, replayed=repeat)


def retry(call: Call) -> Answer:
    """Publish a failed job again; may raise the budget."""
    job, repeat = settle(
        call,
        the_job(call),
        lambda job: moves.retry(job, call.now, call.body["max_retries"]),
        parts=lambda job: external.parts(call.bus, job),
    )
    return load.answer(call, job, replayed=repeat)


def stop(call: Call) -> Answer:
    """Take a held job from its holder."""
    body, project = call.body, the_project(call)
    if body["role"]:
        require_role(project, body["role"])

    def decision(job: Job) -> Change:
        return moves.stop(job, call.now, body["then"], body["reason"], body["role"])

    job, repeat = settle(call, the_job(call), decision)
    return load.answer(call, job, replayed=repeat)
