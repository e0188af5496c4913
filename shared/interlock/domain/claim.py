"""Who may take which job: one function decides it, for claim, claim-next and explain alike."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.domain import moves, usage
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import BLOCKED, ENDED, FINAL, HELD, PENDING
from interlock.domain.times import rfc3339
from interlock.errors import InterlockError


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job is not claimable: an error code, a sentence, and (ms) until when, where that is known."""

    code: str
    detail: str
    until: int | None = None


def reasons(job: Job, actor: Actor, project: Project, now: int) -> list[Reason]:
    """Every reason why ``actor`` may not claim ``job`` now, rights before state; empty when it may.

    A job whose lease has lapsed counts as published, unless the lapse would fail it.
    """
    found: list[Reason] = []
    found.extend(barred(actor))
    if job.role not in actor.roles:
        held = ", ".join(actor.roles) or "none"
        found.append(Reason("wrong_role", f"the job is for role {job.role}; the caller's live roles: {held}"))
    missing = [name for name in job.capabilities if name not in actor.capabilities]
    if missing:
        found.append(Reason("missing_capability", f"the job asks for {', '.join(missing)}"))
    if actor.id in job.excluded:
        found.append(
            Reason("excluded", "the job is independent, and the caller worked on what it depends on")
        )
    found.extend(_state_reasons(job, actor, now))
    found.extend(spent(job, now))
    pause = project.pause_of((job.role,), actor.id)
    if pause:
        found.append(Reason("paused", f"an owner has paused claims of {pause.replace(':', ' ')}"))
    return found


def barred(actor: Actor) -> list[Reason]:
    """Why an owner's word keeps the actor from holding the job, whether it claims it or starts it again."""
    if actor.stopped is None:
        return []
    return [Reason("stop_requested", moves.stopped(actor))]


def spent(job: Job, now: int) -> list[Reason]:
    """Why the job's own budget keeps everybody from holding it."""
    over = usage.over(job, now) if job.status not in FINAL else None
    if over is None:
        return []
    return [Reason("budget_spent", f"the job's own budget is spent: {over}; an owner may raise it")]


def _state_reasons(job: Job, actor: Actor, now: int) -> list[Reason]:
    if job.status == PENDING:
        found = []
        if job.upstreams or job.links or job.not_before is None:
            found.append(Reason("waiting_upstream", "it waits for jobs that are not completed"))
        if job.not_before is not None and (job.not_before > now or not found):
            found.append(Reason("not_yet", f"not before {rfc3339(job.not_before)}", job.not_before))
        return found
    state = _state_reason(job, actor, now)
    return [state] if state else []


def _state_reason(job: Job, actor: Actor, now: int) -> Reason | None:
    if job.status in ENDED:
        return Reason("ended", f"the job is {job.stage}")
    if job.status in HELD:
        if job.status == BLOCKED and job.assignee is None:
            return Reason("not_yet", f"an owner is asked what becomes of it: decision {job.decision}")
        if not job.lapsed(now):
            who = (
                "the caller holds it in another session"
                if job.assignee == actor.id
                else (job.assignee_label or "an agent")
            )
            return Reason(
                "already_claimed",
                f"{job.status}: held by {who}" if job.assignee != actor.id else who,
                job.lease_until,
            )
        if moves.asks_on_lapse(job):
            return Reason("not_yet", "its lease has lapsed, and an owner is asked what becomes of it")
        if job.on_expire == "fail" or job.retry_count >= job.max_retries:
            return Reason("ended", "its lease has lapsed and the lapse fails it")
    return None


def refusal(reason: Reason, job: Job, actor: Actor) -> InterlockError:
    """The error that answers a claim for this reason."""
    hint = None
    if reason.code == "already_claimed" and job.assignee == actor.id:
        hint = (
            "You hold this job already, in another session: `GET P/me` names its fence. "
            "Send the same `session` or Idempotency-Key to repeat a claim."
        )
    elif reason.code == "not_yet" and job.status in HELD:
        hint = "Nobody can claim it before an owner has answered; take another job."
    extra = {"until": rfc3339(reason.until)} if reason.until else {}
    return InterlockError(reason.code, reason.detail, hint=hint, extra={"job_status": job.status, **extra})
