"""Decisions: one mechanism for every question that a job waits for, or goes on without.

A decision belongs to a job and is asked, answered, withdrawn and expired by changes of that job: an event of the job
says each. Its subject is the job in the ``rev`` of the asking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.domain import fit, limits, moves, usage
from interlock.domain.identity import SYSTEM, Actor
from interlock.domain.ids import decision_id
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import BLOCKED, HELD, IN_PROGRESS
from interlock.errors import FieldError, InterlockError

OPEN, ANSWERED, WITHDRAWN, EXPIRED = "open", "answered", "withdrawn", "expired"
ASKED, BUDGET, LAPSE = "asked", "budget", "lapse"
"""Why a decision was asked: an agent wanted it, a job's budget is spent, a lease has lapsed."""
QUESTION = "question"
VERDICTS = ("approve", "reject")
ON_LAPSE = ("publish", "fail", "cancel")
ON_BUDGET = ("raise", "stop", "cancel")

_QUOTED = 120
"""Characters of a prompt or an answer that a reason quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A question with one answer. Times are ms; actors are as events show them.

    ``rev`` is the version of the job's work that it is about. ``waits``: the job is blocked until it is closed.
    ``roles``: whose agents may answer beside owners. ``hop`` numbers the timer chain that counts. ``request`` is the
    digest of the call that asked, so that its repeat finds this decision.
    """

    id: str
    project: str
    job: str
    kind: str
    cause: str
    rev: int
    prompt: str
    asked_by: Mapping[str, str]
    asked_at: int
    waits: bool = True
    blocker: str | None = None
    risk: str | None = None
    options: tuple[str, ...] = ()
    schema: Any = None
    roles: tuple[str, ...] = ()
    expires_at: int | None = None
    request: str | None = None
    hop: int = 1
    state: str = OPEN
    answer: Any = None
    note: str | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    segment: int | None = None
    data: Any = None
    closed_by: Mapping[str, str] | None = None
    closed_at: int | None = None

    def asked_by_actor(self, actor: Actor) -> bool:
        """Whether this actor asked it."""
        return (self.asked_by["kind"], self.asked_by["id"]) == (actor.kind, actor.id)

    def current(self, job: Job) -> bool:
        """Whether its subject is still as it was when an agent asked; what the bus asks is not about the work."""
        return self.cause != ASKED or self.rev == job.rev

    def names(self, actor: Actor) -> bool:
        """Whether it names a live role of this agent."""
        return actor.kind == "agent" and not set(self.roles).isdisjoint(actor.roles)


def of_call(job: Job, actor: Actor, now: int, fields: Mapping[str, Any], request: str | None) -> Decision:
    """What the holder asks, from the fields of its call."""
    expires_in = fields["expires_in"]
    return Decision(
        id=decision_id(job.id, job.version + 1),
        project=job.project,
        job=job.id,
        kind=fields["kind"],
        cause=ASKED,
        rev=job.rev,
        prompt=fields["prompt"],
        asked_by=actor.as_event(),
        asked_at=now,
        waits=fields["wait"],
        blocker=fields["blocker"],
        risk=fields["risk"],
        options=tuple(fields["options"] or ()),
        schema=fields["answer_schema"],
        roles=tuple(fields["roles"]),
        expires_at=None if expires_in is None else now + expires_in * limits.SECOND,
        request=request,
    )


def _of_bus(
    job: Job, now: int, cause: str, prompt: str, blocker: str, risk: str, options: Sequence[str]
) -> Decision:
    return Decision(
        id=decision_id(job.id, job.version + 1),
        project=job.project,
        job=job.id,
        kind=QUESTION,
        cause=cause,
        rev=job.rev,
        prompt=prompt,
        asked_by=SYSTEM.as_event(),
        asked_at=now,
        blocker=blocker,
        risk=risk,
        options=tuple(options),
    )


def of_lapse(job: Job, now: int) -> Decision:
    """What becomes of a job whose lease has lapsed, where ``on_expire`` is ``ask``; see :func:`moves.lapse`."""
    holder = job.assignee_label or job.assignee
    # the lapse is a change of the work; what was reported and what is withdrawn with the claim are events more
    events = 1 + bool(usage.told(job, {})) + bool(job.asked)
    return _of_bus(
        replace(job, rev=job.version + events),
        now,
        LAPSE,
        f"The lease of {holder} has expired. Publish the job again, fail it, or cancel it?",
        "Nobody holds the job, and nobody can claim it.",
        f"{holder} may have left work half done.",
        ON_LAPSE,
    )


def of_budget(job: Job, now: int, detail: str) -> Decision:
    """Whether a job whose budget is spent may use more; ``detail`` says what was used of what."""
    return _of_bus(
        job,
        now,
        BUDGET,
        f"The budget is spent: {detail}. Raise it (data says to what), stop the job, or cancel it?",
        "The job is blocked; its holder keeps its place.",
        "More is spent when it goes on; what was spent is lost when it ends.",
        ON_BUDGET,
    )


def exceed_budget(job: Job, now: int) -> tuple[Change, Decision] | None:
    """in_progress → blocked: what was used is beyond the job's budget, and owners are asked. None while it is not."""
    detail = usage.over(job, now)
    if detail is None or job.status != IN_PROGRESS:
        return None
    asked = of_budget(job, now, detail)
    attributes = moves.wait_for(asked.id, now, f"the budget is spent: {detail}")
    attributes["asked"] = {**(job.asked or {}), asked.id: {"roles": []}}
    data = {**usage.exceeded(job, now), "decision": asked.id}
    return Change(attributes, (Fact("job.budget_exceeded", IN_PROGRESS, BLOCKED, data),), work=False), asked


def ask(job: Job, asked: Decision, now: int) -> Change:
    """The holder asks. The job is blocked (its lease pauses), unless the holder goes on without the answer."""
    moves.require(job, "ask")
    still_open = job.asked or {}
    if asked.waits:
        moves.require_decided(job, "ask")
    if len(still_open) >= limits.DECISIONS:
        raise InterlockError("limit_reached", f"a job has at most {limits.DECISIONS} open decisions")
    entry: dict[str, Any] = {"roles": list(asked.roles)}
    if asked.expires_at is not None:
        entry["until"] = asked.expires_at
    opened = {"asked": {**still_open, asked.id: entry}}
    data = {"decision": asked.id, "kind": asked.kind, "rev": asked.rev, "fence": job.fence}
    if not asked.waits:
        return Change(opened, (Fact("job.decision_requested", job.status, job.status, data),), work=False)
    reason = f"asks ({asked.kind}): {asked.prompt}"[: limits.REASON_CHARACTERS]
    blocked = moves.wait_for(asked.id, now, reason)
    fact = Fact("job.decision_requested", job.status, BLOCKED, data)
    return Change({**blocked, **opened}, (fact,), work=False)


def require_open(job: Job, found: Decision) -> None:
    """Raise ``decision_closed`` unless the decision can still be closed by somebody."""
    if found.state != OPEN:
        raise InterlockError(
            "decision_closed", f"the decision is {found.state}", extra={"state": found.state}
        )
    if found.id not in (job.asked or {}):
        raise InterlockError(
            "decision_closed", "the claim under which it was asked has ended", extra={"state": WITHDRAWN}
        )


def answer(
    job: Job, found: Decision, actor: Actor, now: int, given: Mapping[str, Any]
) -> tuple[Change, Decision]:
    """The one answer. It lets a blocked job go on, by what the answer says; the decision as it is then."""
    require_open(job, found)
    if not found.current(job):
        raise InterlockError(
            "subject_changed", f"it was asked about rev {found.rev}; the job is at rev {job.rev}"
        )
    _require_acceptable(found, given["answer"])
    closed = replace(
        found,
        state=ANSWERED,
        answer=given["answer"],
        note=given["note"],
        findings=tuple(given["findings"]),
        segment=given["segment"],
        data=given["data"],
        closed_by=actor.as_event(),
        closed_at=now,
    )
    said = _quoted(given["answer"])
    data = {"decision": found.id, "kind": found.kind, "answer": said}
    change = _closing(
        job, found, now, Fact("job.decision_answered", data=data), f"decision {found.id}: {said}", closed
    )
    if found.kind == "review" and given["answer"] == "approve":
        approval = {"rev": found.rev, "by": actor.reference, "decision": found.id}
        change = replace(change, set={**change.set, "approved": approval})
    elif found.kind == "review" and job.approved is not None:  # the latest review counts
        change = replace(change, set={**change.set, "approved": None})
    return change, closed


def withdraw(job: Job, found: Decision, actor: Actor, now: int, note: str | None) -> tuple[Change, Decision]:
    """Nobody has to answer any more; a job that is blocked by it goes on."""
    require_open(job, found)
    closed = replace(found, state=WITHDRAWN, note=note, closed_by=actor.as_event(), closed_at=now)
    fact = Fact(
        "job.decision_withdrawn", data={"decisions": [found.id], **({"reason": note} if note else {})}
    )
    return _closing(job, found, now, fact, f"decision {found.id} was withdrawn", closed), closed


def expire(job: Job, found: Decision, now: int) -> tuple[Change, Decision]:
    """Nobody answered in time. A job that is blocked by it stays so, for its holder or an owner to go on from."""
    closed = replace(found, state=EXPIRED, closed_by=SYSTEM.as_event(), closed_at=now)
    attributes = _without(job, found)
    if job.decision == found.id:
        attributes["blocked_reason"] = f"decision {found.id} expired: {found.prompt}"[
            : limits.REASON_CHARACTERS
        ]
    fact = Fact("job.decision_expired", job.status, job.status, {"decision": found.id})
    return Change(attributes, (fact,), work=False), closed


def _without(job: Job, found: Decision) -> dict[str, Any]:
    """The job's open decisions without this one, which its holder is told of."""
    left = {name: entry for name, entry in (job.asked or {}).items() if name != found.id}
    told = (*job.answered, found.id)[-limits.ANSWERS_REMEMBERED :] if job.assignee else ()
    return {"asked": left or None, "answered": told}


def _closing(job: Job, found: Decision, now: int, fact: Fact, reason: str, closed: Decision) -> Change:
    """The change that closes a decision; ``fact`` gets the statuses of the move that it makes."""
    attributes = _without(job, found)
    freed = replace(job, asked=attributes["asked"])
    if job.status != BLOCKED or job.decision != found.id:
        return Change(attributes, (replace(fact, from_status=job.status, to_status=job.status),), work=False)
    then = closed.answer if closed.state == ANSWERED and found.cause != ASKED else None
    if then in ("stop", "fail"):
        move = moves.stop(freed, now, "fail", reason, None)
    elif then == "cancel":
        move = moves.cancel(freed, now, reason, by_holder=False)
    elif job.assignee is None:
        move = moves.republish(freed, now, reason)
    else:
        move = moves.unblock(freed, now, reason[: limits.REASON_CHARACTERS])
    more = {"budget": usage.raised(job, closed.data, now)} if then == "raise" else {}
    ends = then in ("stop", "fail", "cancel")
    to = BLOCKED if ends else move.set["status"]
    facts = (replace(fact, from_status=BLOCKED, to_status=to), *(move.facts if ends else ()))
    told = {} if move.set["status"] not in HELD else {"answered": attributes["answered"]}
    return replace(move, set={**move.set, **more, "asked": attributes["asked"], **told}, facts=facts)


def _quoted(answer: Any) -> str:
    """The beginning of an answer, as text that every store takes."""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text[:_QUOTED].encode("utf-8", "replace").decode()


def _require_acceptable(found: Decision, given: Any) -> None:
    """Raise ``invalid`` unless the decision can be answered so."""
    choices = found.options or (() if found.kind == QUESTION else VERDICTS)
    if choices:
        if given not in choices:
            raise _wrong(f"must be one of {', '.join(choices)}")
    elif found.schema is not None:
        problem = fit.mismatch(found.schema, given)
        if problem:
            raise _wrong(problem)
    elif not isinstance(given, str) or not given.strip() or len(given) > limits.PROMPT_CHARACTERS:
        raise _wrong(f"must be text of 1 to {limits.PROMPT_CHARACTERS:,} characters")


def _wrong(message: str) -> InterlockError:
    return InterlockError("invalid", f"the answer {message}", errors=[FieldError("answer", message)])
