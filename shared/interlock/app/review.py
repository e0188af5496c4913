"""Review: a reviewer sends the job that it waited for back, and waits for the retry.

One transaction moves three jobs: the reviewer waits again, the reviewed job names its retry, and the retry is
published (or, when another reviewer was first, shared). The retry attaches to the leaf of the lineage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from interlock.app import barrier, documents, links, load, making, neighbours, shown, views, write
from interlock.app.call import Answer, Bus, Call, the_job
from interlock.app.references import require_jobs
from interlock.app.settle import settle
from interlock.domain import ids, limits, moves, usage
from interlock.domain.identity import SYSTEM
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import COMPLETED, ENDED, PENDING, PUBLISHED
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import Check, Delete, Put, TransactionPart

REASON = "rejection_reason"
LOOKED_AT = 100
"""Other downstream jobs of the reviewed job that are looked at for what had begun already."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a rejection writes beside the reviewer's head, and the job that the reviewer waits for from now on."""

    parts: list[TransactionPart]
    retry: Job
    made: bool


def reject(call: Call) -> Answer:
    """Send the reviewed job back: the reviewer's holder says why, and a retry is published for the same role."""
    bus, body = call.bus, call.body
    reason = body["reason"][: limits.REJECTION_CHARACTERS]
    cut = len(body["reason"]) > limits.REJECTION_CHARACTERS
    outcome: list[_Outcome] = []
    require_jobs(call, {body["target"]: "target"})  # fields come before the claim

    def decision(reviewer: Job) -> Change:
        outcome.clear()
        moves.require(reviewer, "reject")
        target = _reviewed(call, reviewer)
        found = _outcome(call, reviewer, target, reason, cut=cut)
        outcome.append(found)
        data = {"target": target.id, "retry": found.retry.id, "reason": reason}
        return moves.reject(reviewer, call.now, {**data, "reason_truncated": True} if cut else data)

    reviewer, repeat = settle(
        call,
        the_job(call),
        decision,
        check=lambda job: moves.require_claim(job, call.actor, body["fence"]),
        parts=lambda _: outcome[0].parts,
        reads_on=True,
    )
    retry = _retry_of(call, reviewer) if repeat else outcome[0].retry
    if not repeat and not outcome[0].made:
        # a shared retry may have ended already
        reviewer = barrier.catch_up(bus, reviewer, [retry.id])
    return Answer(
        {
            "retry": shown.whole(bus, retry),
            "reviewer": shown.whole(bus, reviewer),
            "reason_truncated": cut,
        },
        replayed=repeat,
        version=reviewer.version,
    )


def _retry_of(call: Call, reviewer: Job) -> Job:
    """The job that took the target's place for this reviewer, when the call is repeated."""
    key = keys.upstream(keys.partition(reviewer.project, "job", reviewer.id), call.body["target"])
    row = call.bus.store.table.get(key) or {}
    retry = load.job_head(call.bus, reviewer.project, row.get("replaced_by", ""))
    if retry is None:
        raise InterlockError("not_reviewable", f"{call.body['target']} was not sent back by this job")
    return retry


def _reviewed(call: Call, reviewer: Job) -> Job:
    """The completed job that the reviewer waited for. Raises ``unknown_job``, ``not_reviewable``."""
    name = call.body["target"]
    target = require_jobs(call, {name: "target"})[name]
    at = [FieldError("target", "cannot be sent back")]
    pk = keys.partition(reviewer.project, "job", target.id)
    if call.bus.store.table.get(keys.waiting(pk, reviewer.id)) is None:
        raise InterlockError("not_reviewable", f"{reviewer.id} does not wait for {name}", errors=at)
    if target.status != COMPLETED:
        raise InterlockError("not_reviewable", f"{name} is {target.status}, not completed", errors=at)
    return target


def _outcome(call: Call, reviewer: Job, target: Job, reason: str, *, cut: bool) -> _Outcome:
    bus = call.bus
    leaf = _leaf(bus, target)
    if leaf.id == target.id:
        retry, parts = _new_retry(call, reviewer, target, reason, cut=cut)
    else:
        retry, parts = _shared_retry(call, reviewer, target, leaf, reason, cut=cut)
    pk = keys.partition(reviewer.project, "job", reviewer.id)
    target_pk = keys.partition(reviewer.project, "job", target.id)
    data: dict[str, Any] = {"reviewer": reviewer.id, "retry": retry.id, "reason": reason}
    begun = _already_started(bus, target, reviewer)
    attributes: dict[str, Any] = {"retry": target.retry or retry.id}
    if begun:
        data["already_started"] = begun
        attributes["begun"] = {"at": call.now, "jobs": begun}
    change = Change(attributes, (Fact("job.reopened", COMPLETED, COMPLETED, data),), work=False)
    reopened, _ = write.changing(bus, target, call.actor, call.now, change)
    replaced = keys.upstream(pk, target.id)
    continues = reviewer.on_upstream_failure == "continue"
    parts += [
        reopened,
        barrier.hold(pk, retry, continues=continues),
        *links.added(pk, retry),
        Put(replaced, {"pk": pk, "sk": replaced.sk, "replaced_by": retry.id}),
        Delete(keys.waiting(target_pk, reviewer.id)),
    ]
    return _Outcome(parts, retry, made=leaf.id == target.id)


def _leaf(bus: Bus, job: Job) -> Job:
    """The latest retry of a job's lineage, or the job itself."""
    seen = {job.id}
    while job.retry and job.retry not in seen:
        following = load.job_head(bus, job.project, job.retry)
        if following is None:
            break
        job = following
        seen.add(job.id)
    return job


def _new_retry(
    call: Call, reviewer: Job, target: Job, reason: str, *, cut: bool
) -> tuple[Job, list[TransactionPart]]:
    """The target's work once more, published. What it names is staged; the head is a part of the transaction."""
    if target.retry_count >= target.max_retries:
        raise InterlockError(
            "retries_spent", f"{target.retry_count} of {target.max_retries} retries of {target.id} are used"
        )
    bus, now = call.bus, call.now
    count = target.retry_count + 1
    job_id = ids.derived("job", target.project, target.id, "retry", str(count))
    document = {name: value for name, value in load.work(bus, target).items() if name != "blocked_by"}
    head = Job(
        id=job_id,
        project=target.project,
        status=PUBLISHED,
        role=target.role,
        summary=target.summary,
        priority=target.priority,
        source=call.actor.reference,
        source_label=call.actor.label,
        created_at=now,
        updated_at=now,
        published_at=now,
        max_retries=target.max_retries,
        retry_count=count,
        lease_seconds=target.lease_seconds,
        on_expire=target.on_expire,
        parent=target.parent,
        on_upstream_failure=target.on_upstream_failure,
        independent=target.independent,
        excluded=target.excluded,
        routing=target.routing,
        requires=target.requires,
        capabilities=target.capabilities,
        budget=target.budget,
        usage=usage.handed_on(target),
        reopen_of=target.id,
        trace=target.trace,
        artifacts=target.artifacts,
        later_artifacts=1,
    )
    head = replace(head, spent=bool(usage.over(head, now)) or None)
    draft = making.Draft(
        head,
        document,
        b"retry",
        facts=(making.created(head, reopen_of=target.id, attempt=head.attempt),),
        descends={target.id: "reopen_of", **({head.parent: "parent"} if head.parent else {})},
    )
    bus.store.table.write_each(making.staged(bus, draft))
    put, made = write.creating(bus, head, call.actor, draft.facts)
    return made, [put, _rejection(call, reviewer, target, made, reason, cut=cut)]


def _shared_retry(
    call: Call, reviewer: Job, target: Job, leaf: Job, reason: str, *, cut: bool
) -> tuple[Job, list[TransactionPart]]:
    """Another reviewer has sent the work back already: this one waits for the same retry, and adds its reason."""
    bus = call.bus
    artifact = _rejection(call, reviewer, target, leaf, reason, cut=cut)
    guard = links.guarded(bus, reviewer, leaf, field="target")
    if leaf.status in ENDED:
        return leaf, [Check(items.head_key(leaf), conditions.unchanged(leaf.version)), guard]
    named = {"type": REASON, "uri": f"inline://{REASON}", "reviewer": reviewer.id}
    fact = Fact("job.artifact_added", leaf.status, leaf.status, {"artifacts": [named]})
    change = Change({"later_artifacts": leaf.later_artifacts + 1}, (fact,))
    update, changed = write.changing(bus, leaf, SYSTEM, call.now, change)
    return changed, [update, artifact, guard]


def _rejection(call: Call, reviewer: Job, original: Job, retry: Job, reason: str, *, cut: bool) -> Put:
    """The authoritative text of the rejection, as an artifact of the retry."""
    artifact_id = ids.derived("art", retry.id, reviewer.id, str(reviewer.fence))
    given = {
        "type": REASON,
        "uri": f"inline://{REASON}",
        "metadata": {
            "reason": reason,
            "reason_truncated": cut,
            "reviewer": reviewer.id,
            "rejected_by": call.actor.as_event(),
            "original": original.id,
            "retry_count": retry.retry_count,
        },
    }
    key = keys.artifact(keys.partition(retry.project, "job", retry.id), artifact_id)
    return Put(key, documents.item(call.bus, key, views.artifact(artifact_id, given, SYSTEM, call.now)))


def _already_started(bus: Bus, target: Job, reviewer: Job) -> list[str]:
    """Other jobs that waited for the target and did not wait for this review: owners should know."""
    below, _ = neighbours.downstream(bus, target, LOOKED_AT)
    heads = load.job_heads(bus, target.project, [name for name in below if name != reviewer.id])
    return [
        job.id for job in heads.values() if job.status not in (PENDING, *ENDED) or job.status == COMPLETED
    ]


def reopen_context(call: Call) -> Answer:
    """Why the work was sent back, for whoever takes the retry."""
    job, bus = the_job(call), call.bus
    told = sorted(
        (
            made
            for made in load.later_artifacts(bus, job)
            if made["type"] == REASON and made["author"]["kind"] == "system"
        ),
        key=lambda made: str(made["created_at"]),
    )
    if job.reopen_of is None or not told:
        raise InterlockError("not_found", "the job is not a retry of work that a review sent back")
    rejections = [_told(made) for made in told]
    value = {
        "retry": job.id,
        "original": job.reopen_of,
        **rejections[-1],
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "summary": job.summary,
        "constraints": load.work(bus, job)["constraints"],
        "role": job.role,
        "rejections": rejections,
    }
    return Answer(value, version=job.version)


def _told(artifact: dict[str, Any]) -> dict[str, Any]:
    metadata = artifact["metadata"]
    return {
        "reviewer": metadata["reviewer"],
        "rejected_by": metadata["rejected_by"],
        "rejected_at": artifact["created_at"],
        "reason": metadata["reason"],
        "reason_truncated": metadata["reason_truncated"],
    }
