"""Decisions that move a job along the lifecycle: a job in, a :class:`Change` out, or the refusal raised.

Each function is one operation of lifecycle.py. The caller's relation (source, owner …) was checked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.domain import lifecycle, limits
from interlock.domain.identity import Actor
from interlock.domain.ids import decision_id
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import (
    BLOCKED,
    CANCELLED,
    COMPLETED,
    FAILED,
    HELD,
    IN_PROGRESS,
    PENDING,
    PUBLISHED,
    UNBLOCKED,
)
from interlock.domain.times import rfc3339
from interlock.errors import FieldError, InterlockError

_CLEARED = (
    "blocked_at", "unblocked_at", "failed_at", "cancelled_at",
    "blocked_reason", "unblock_reason", "failure_reason", "cancel_reason",
)  # fmt: skip
_HOLDING = (
    "assignee", "assignee_label", "session", "claim_lease", "heartbeat_seconds",
    "lease_until", "lease_first", "claim_key", "lease_hop", "started_at",
)  # fmt: skip
_LEASE = ("lease_until", "lease_first", "lease_hop")


def _enter(status: str, now: int, **more: Any) -> dict[str, Any]:
    """Attributes of entering a status: its time stamp; what an earlier status left is cleared."""
    cleared: dict[str, Any] = {**dict.fromkeys(_CLEARED), "cascade": None, "decision": None}
    stamp = "started_at" if status == IN_PROGRESS else f"{status}_at"
    return {**cleared, "status": status, **({} if status == PENDING else {stamp: now}), **more}


def _lease(now: int, seconds: int) -> dict[str, Any]:
    until = now + seconds * limits.SECOND
    return {"lease_until": until, "lease_first": until, "lease_hop": 1}


def _nobody(job: Job) -> dict[str, Any]:
    """Attributes of a job that nobody holds: whoever did is remembered, for those who ask for somebody else."""
    return {**dict.fromkeys(_HOLDING), "past": job.workers, "answered": (), "approved": None}


def where_now(job: Job) -> str:
    """One sentence about where a job is, for those who lost it."""
    if job.status in HELD and job.assignee is None:
        return f"the job is {job.status}, held by nobody, until decision {job.decision} is answered"
    if job.status in HELD:
        return (
            f"the job is {job.status}, held by {job.assignee_label or job.assignee} under fence {job.fence}"
        )
    return f"the job is {job.status}"


def allowed(job: Job, by: str | None = None) -> list[str]:
    """The operations that may start from where the job is now, in table order: those of any caller, or of whoever
    stands in the relation ``by`` to it."""
    unfit = ("unblock", "resume", "ask") if job.waits_for_decision else ("answer", "withdraw")
    return [name for name in lifecycle.allowed_now(job.stage, by) if name not in unfit]


def wrong_state(job: Job, operation: str) -> InterlockError:
    """The refusal of an operation that the status does not allow, naming what is allowed."""
    now_allowed = allowed(job)
    choice = "allowed now: " + ", ".join(now_allowed) if now_allowed else "nothing changes it any more"
    return InterlockError(
        "wrong_state",
        f"{operation} is not possible: the job is {_stage(job)}; {choice}",
        extra={"job_status": job.status, "allowed": now_allowed},
    )


def _stage(job: Job) -> str:
    return f"{job.stage} (root: {job.cascade['root']})" if job.cascade else job.status


def require(job: Job, operation: str) -> None:
    """Raise ``wrong_state`` unless the table permits the operation from the job's stage."""
    if not lifecycle.permits(operation, job.stage):
        raise wrong_state(job, operation)


def require_decided(job: Job, operation: str) -> None:
    """Raise ``wrong_state`` while an open decision blocks the job."""
    if job.waits_for_decision:
        raise InterlockError(
            "wrong_state",
            f"{operation} is not possible: the job waits for decision {job.decision}",
            hint="The decision is answered (by an owner, or by an agent that it names), or withdrawn (by whoever asked).",
            extra={"job_status": job.status, "decision": job.decision},
        )


def require_not_stopped(actor: Actor) -> None:
    """Raise ``stop_requested`` while an owner has stopped the agent that acts."""
    if actor.stopped is not None:
        raise InterlockError("stop_requested", stopped(actor))


def stopped(actor: Actor) -> str:
    """That an owner has stopped the agent that acts, and why."""
    return f"an owner has stopped the caller: {actor.stopped}"


def require_claim(job: Job, actor: Actor, fence: int) -> None:
    """Raise unless the actor holds the job under this fence, whatever the status.

    A stale fence is ``stop_requested`` when an owner ended that claim, else ``lease_lost``; the right fence from
    somebody else is ``not_holder``.
    """
    if fence != job.fence or job.assignee is None:
        code = "stop_requested" if fence == job.stopped_fence else "lease_lost"
        raise InterlockError(
            code,
            f"no live claim has fence {fence}; {where_now(job)}",
            extra={"job_status": job.status, "fence": job.fence},
        )
    if job.assignee != actor.id:
        raise InterlockError("not_holder", f"{job.assignee_label or job.assignee} holds the job")
    require_not_stopped(actor)  # a claim of the last moment, whose hands are still to be emptied


def require_source_or_claim(job: Job, actor: Actor, fence: int | None, doing: str) -> None:
    """Raise unless the actor is an owner, holds the job under the fence it sends, or is the job's source."""
    if actor.kind == "owner":
        return
    if fence is not None:
        require_claim(job, actor, fence)
    elif job.held_by(actor.id):
        raise InterlockError(
            "invalid", "a holder sends its fence", errors=[FieldError("fence", "is required")]
        )
    elif job.source != actor.reference:
        raise InterlockError("forbidden", f"only the job's source, its holder or an owner may {doing}")


def activate(now: int, by: Mapping[str, Any], excluded: Sequence[str] = ()) -> Change:
    """pending → published: nothing holds it back any more. ``by``: what opened last, for the event; ``excluded``: who may not claim."""
    return Change(
        _enter(PUBLISHED, now, start_hop=None, excluded=tuple(excluded)),
        (Fact("job.activated", PENDING, PUBLISHED, by),),
    )


def cascade(job: Job, now: int, status: str, upstream: str, root: str) -> Change:
    """An upstream failed or was cancelled, and so does this job. ``root`` is the job with which it began."""
    reason = f"upstream {upstream} {status}"
    field = "failure_reason" if status == FAILED else "cancel_reason"
    data = {field: reason, "caused_by": {"upstreams": [upstream], "root": root}}
    attributes = _enter(status, now, **{field: reason}) | {"cascade": {"upstream": upstream, "root": root}}
    return Change(attributes, (Fact(f"job.{status}", job.status, status, data),))


def blame(job: Job, upstream: str, root: str) -> Change:
    """The root that a job failed by has come back, and another keeps it failed: it names that one from now on."""
    cause = {"upstreams": [upstream], "root": root}
    before = {"upstreams": [job.cascade["upstream"]], "root": job.cascade["root"]} if job.cascade else None
    attributes = {
        "failure_reason": f"upstream {upstream} {FAILED}",
        "cascade": {"upstream": upstream, "root": root},
    }
    fact = Fact("job.updated", FAILED, FAILED, {"changes": {"caused_by": [before, cause]}})
    return Change(attributes, (fact,), work=False)


def revive(job: Job, now: int) -> Change:
    """failed by cascade → pending: no upstream is failed any more; the barrier goes on from there."""
    require(job, "revive")
    data = {"root": job.cascade["root"]} if job.cascade else {}
    return Change(_enter(PENDING, now), (Fact("job.revived", FAILED, PENDING, data),))


def link(job: Job, now: int, upstream: str, *, satisfied: bool, excluded: Sequence[str] = ()) -> Change:
    """A job that nobody has started gets one more upstream; it waits unless that is satisfied already.

    ``excluded``: who else may not claim it, where it stays published.
    """
    require(job, "link")
    to = job.status if satisfied else PENDING
    attributes = {"links": job.links + 1, **(_enter(PENDING, now) if to != job.status else {})}
    if excluded:
        attributes["excluded"] = tuple(dict.fromkeys((*job.excluded, *excluded)))
    fact = Fact("job.linked", job.status, to, {"type": "blocks", "upstream": upstream})
    return Change(attributes, (fact,), work=to != job.status)


def reject(job: Job, now: int, data: Mapping[str, Any]) -> Change:
    """The review sends its upstream back: the reviewer waits for the retry, and nobody holds it."""
    require(job, "reject")
    attributes = {**_nobody(job), **_enter(PENDING, now, fence=job.fence + 1, links=job.links + 1)}
    return Change(attributes, (Fact("job.rejected", IN_PROGRESS, PENDING, {"fence": job.fence, **data}),))


def claim(
    job: Job,
    actor: Actor,
    now: int,
    *,
    lease: int | None,
    heartbeat: int | None,
    session: str | None,
    key: bytes | None,
) -> Change:
    """published → in_progress. ``lease`` and ``heartbeat`` in seconds, as the claim asks for them.

    A job whose lease has lapsed is published first, in the same change, and counts its attempt.
    """
    facts: tuple[Fact, ...] = ()
    fence, retries, start = job.fence, job.retry_count, job.status
    attributes: dict[str, Any] = {}
    if job.status != PUBLISHED:
        lapsed = lapse(job, now)
        attributes, facts = dict(lapsed.set), lapsed.facts
        fence, retries, start = attributes["fence"], attributes["retry_count"], attributes["status"]
    seconds = lease or (heartbeat * limits.BEATS_PER_LEASE if heartbeat else job.lease_seconds)
    attributes |= _enter(IN_PROGRESS, now) | _lease(now, seconds)
    attributes |= {
        "assignee": actor.id,
        "assignee_label": actor.label,
        "session": session,
        "claim_key": key,
        "claim_lease": lease if heartbeat or lease != job.lease_seconds else None,
        "heartbeat_seconds": heartbeat,
        "fence": fence + 1,
    }
    data = {"fence": fence + 1, "attempt": retries + 1, "lease_seconds": seconds}
    return Change(attributes, (*facts, Fact("job.claimed", start, IN_PROGRESS, data)))


def lapse(job: Job, now: int) -> Change:
    """The lease is over: by ``on_expire`` the job is published again (an attempt counted), fails, or is blocked, held by
    nobody, until an owner has decided (:func:`interlock.domain.decision.of_lapse`)."""
    spent = job.retry_count >= job.max_retries
    fails = job.on_expire == "fail" or spent
    data = {"fence": job.fence, "holder": job.assignee, "retry_count": job.retry_count}
    failure = _failure(job, now, "lease_expired")
    if fails:
        data |= {"failure_reason": "lease_expired"}
        attributes = _enter(
            FAILED, now, failure_reason="lease_expired", fence=job.fence + 1, last_failure=failure
        )
        attributes |= dict.fromkeys(_LEASE)
        return Change(attributes, (Fact("job.lease_expired", job.status, FAILED, data),))
    data |= {"retry_count": job.retry_count + 1}
    to, more = PUBLISHED, {}
    if asks_on_lapse(job):
        to, made = BLOCKED, decision_id(job.id, job.version + 1)
        asked = {**(job.asked or {}), made: {"roles": []}}
        more = {"decision": made, "asked": asked, "blocked_reason": "its lease has expired"}
        data |= {"decision": made}
    attributes = {
        **_nobody(job),
        **_enter(to, now, fence=job.fence + 1, retry_count=job.retry_count + 1, last_failure=failure, **more),
    }
    return Change(attributes, (Fact("job.lease_expired", job.status, to, data),))


def asks_on_lapse(job: Job) -> bool:
    """Whether a lapse of the job's lease is a matter for an owner."""
    return job.on_expire == "ask" and job.retry_count < job.max_retries


def _failure(job: Job, now: int, reason: str) -> dict[str, Any]:
    return {"attempt": job.attempt, "at": now, "reason": reason, "by": job.assignee or "system"}


def release(job: Job, now: int, reason: str | None) -> Change:
    """The holder gives the job back; no attempt is counted."""
    require(job, "release")
    data = {"fence": job.fence, **({"reason": reason} if reason else {})}
    attributes = {**_nobody(job), **_enter(PUBLISHED, now, fence=job.fence + 1)}
    return Change(attributes, (Fact("job.released", job.status, PUBLISHED, data),))


def complete(job: Job, now: int, result: Mapping[str, Any], data: Mapping[str, Any]) -> Change:
    """in_progress → completed; ``result`` are the head attributes of the stored result, ``data`` the event's."""
    require(job, "complete")
    attributes = {**_enter(COMPLETED, now), **dict.fromkeys(_LEASE), **result}
    return Change(attributes, (Fact("job.completed", IN_PROGRESS, COMPLETED, {"fence": job.fence, **data}),))


def fail(job: Job, now: int, reason: str, data: Mapping[str, Any] | None) -> Change:
    """The holder gives up, with a reason."""
    require(job, "fail")
    attributes = _enter(FAILED, now, failure_reason=reason, last_failure=_failure(job, now, reason))
    attributes |= dict.fromkeys(_LEASE)
    event = {"fence": job.fence, "failure_reason": reason, **({"data": data} if data is not None else {})}
    return Change(attributes, (Fact("job.failed", job.status, FAILED, event),))


def block(job: Job, now: int, reason: str, data: Mapping[str, Any] | None) -> Change:
    """in_progress → blocked: the lease pauses, the holder keeps its place."""
    require(job, "block")
    attributes = {**_enter(BLOCKED, now, blocked_reason=reason), **dict.fromkeys(_LEASE)}
    event = {"fence": job.fence, "blocked_reason": reason, **({"data": data} if data is not None else {})}
    return Change(attributes, (Fact("job.blocked", IN_PROGRESS, BLOCKED, event),), work=False)


def wait_for(decision: str, now: int, reason: str) -> dict[str, Any]:
    """Attributes of a job that is blocked until the decision is closed: its lease pauses."""
    return {**_enter(BLOCKED, now, blocked_reason=reason, decision=decision), **dict.fromkeys(_LEASE)}


def republish(job: Job, now: int, reason: str) -> Change:
    """blocked → published: what was asked about a job that nobody holds is settled."""
    attributes = {**_nobody(job), **_enter(PUBLISHED, now, unblock_reason=reason)}
    return Change(attributes, (Fact("job.unblocked", BLOCKED, PUBLISHED, {"unblock_reason": reason}),))


def unblock(job: Job, now: int, reason: str) -> Change:
    """blocked → unblocked: a lease of ``lease_seconds`` starts, in which the holder may resume."""
    require(job, "unblock")
    require_decided(job, "unblock")
    attributes = {**_enter(UNBLOCKED, now, unblock_reason=reason), **_lease(now, job.lease_seconds)}
    return Change(
        attributes, (Fact("job.unblocked", BLOCKED, UNBLOCKED, {"unblock_reason": reason}),), work=False
    )


def resume(job: Job, now: int) -> Change:
    """blocked, unblocked → in_progress under the same fence; the lease starts again."""
    require(job, "resume")
    require_decided(job, "resume")
    seconds = job.claim_seconds
    attributes = {**_enter(IN_PROGRESS, now, started_at=job.started_at), **_lease(now, seconds)}
    return Change(
        attributes, (Fact("job.resumed", job.status, IN_PROGRESS, {"fence": job.fence}),), work=False
    )


def restart(job: Job, now: int, seconds: int | None = None) -> Change:
    """failed → in_progress for the last holder; counts an attempt."""
    require(job, "restart")
    _spend(job, job.max_retries)
    lease = seconds or job.claim_seconds
    attributes = {
        **_enter(IN_PROGRESS, now, fence=job.fence + 1, retry_count=job.retry_count + 1, answered=()),
        **_lease(now, lease),
    }
    data = {"fence": job.fence + 1, "retry_count": job.retry_count + 1}
    return Change(attributes, (Fact("job.restarted", FAILED, IN_PROGRESS, data),))


def retry(job: Job, now: int, max_retries: int | None) -> Change:
    """failed → published by an owner, who may raise the budget; counts an attempt."""
    require(job, "retry")
    budget = job.max_retries if max_retries is None else max_retries
    _spend(job, budget)
    attributes = {
        **_nobody(job),
        **_enter(PUBLISHED, now, retry_count=job.retry_count + 1, max_retries=budget),
    }
    data: dict[str, Any] = {"retry_count": job.retry_count + 1}
    if budget != job.max_retries:
        data["changes"] = {"max_retries": [job.max_retries, budget]}
    return Change(attributes, (Fact("job.retried", FAILED, PUBLISHED, data),))


def _spend(job: Job, budget: int) -> None:
    if job.retry_count >= budget:
        raise InterlockError("retries_spent", f"{job.retry_count} of {budget} retries are used")


def stop(job: Job, now: int, then: str, reason: str, role: str | None) -> Change:
    """An owner takes the job from its holder; ``then`` says where it goes (publish, fail, cancel)."""
    require(job, "stop")
    target = {"publish": PUBLISHED, "fail": FAILED, "cancel": CANCELLED}[then]
    reasons = {FAILED: "failure_reason", CANCELLED: "cancel_reason"}
    data: dict[str, Any] = {"fence": job.fence, "holder": job.assignee, "then": then, "reason": reason}
    attributes = {**_nobody(job), **_enter(target, now, fence=job.fence + 1, stopped_fence=job.fence)}
    if target in reasons:
        attributes[reasons[target]] = reason
    if target == FAILED:
        attributes["last_failure"] = _failure(job, now, reason)
    if role and role != job.role:
        attributes["role"] = role
        data["changes"] = {"role": [job.role, role]}
    return Change(attributes, (Fact("job.stopped", job.status, target, data),))


def cancel(job: Job, now: int, reason: str, *, by_holder: bool) -> Change:
    """Any status that has not ended → cancelled. Ending somebody's claim makes its fence answer ``stop_requested``."""
    require(job, "cancel")
    data = {"cancel_reason": reason, **({"fence": job.fence} if job.status in HELD else {})}
    stopped = {"stopped_fence": job.fence} if job.status in HELD and not by_holder else {}
    attributes = {
        **_nobody(job),
        **_enter(CANCELLED, now, cancel_reason=reason, fence=job.fence + 1, **stopped),
    }
    return Change(attributes, (Fact("job.cancelled", job.status, CANCELLED, data),))


def pass_deadline(job: Job, now: int, *, cancels: bool) -> Change:
    """The deadline is over: one ``job.overdue`` event, and an end when the project's setting says so."""
    overdue = Fact("job.overdue", job.status, job.status, {"deadline": rfc3339(job.deadline or now)})
    mark = {"overdue": job.deadline, "deadline_hop": None}
    if not cancels or not lifecycle.permits("expire_deadline", job.stage):
        return Change(mark, (overdue,), work=False)
    ended = cancel(job, now, "deadline", by_holder=False)
    return Change({**ended.set, **mark}, (overdue, *ended.facts))
