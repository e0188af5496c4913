"""Use cases of a claim: take a job, keep the lease, and everything its holder does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import (
    artifacts,
    caps,
    documents,
    external,
    load,
    notices,
    repeats,
    shown,
    spending,
    timers,
    views,
    write,
)
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.app.references import the_named_agent
from interlock.app.settle import settle
from interlock.domain import claim as rules
from interlock.domain import limits, moves
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import LEASED, PUBLISHED
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import Put, Query, TransactionPart

NAMED = 5
"""Upstream jobs that an explanation names."""


def take(
    call: Call, job: Job, *, places: Sequence[caps.Place] = (), parts: Sequence[TransactionPart] = ()
) -> Job:
    """One conditional write that gives the judged job to the caller, and the slots of ``places``. Raises Lost."""
    body = call.body
    change = moves.claim(
        job,
        call.actor,
        call.now,
        lease=body["lease_seconds"],
        heartbeat=body["heartbeat_seconds"],
        session=body["session"],
        key=call.key[:8] if call.key else None,
    )
    if job.status == PUBLISHED:
        condition = conditions.claimable(job.version, job.role)
    else:
        condition = conditions.lease_unrenewed(job.fence, job.lease_until or 0, job.version)
    remember = repeats.to_remember(call)
    taken = caps.take(call.bus, places, job, change.set["fence"], call.now)
    return write.change(
        call.bus, job, call.actor, call.now, change,
        condition=condition, remember=remember, parts=[*parts, *taken],
    )  # fmt: skip


def claim_answer(call: Call, job: Job, *, replayed: bool = False) -> Answer:
    """`{job, claim, notices}`; `claim` is null when a repeat finds that the claim has ended."""
    mine = job.held_by(call.actor.id) and (not replayed or _same_claim(call, job))
    whole = shown.whole(call.bus, job)
    value: dict[str, Any] = {
        "job": whole,
        "claim": views.claim(job, call.now) if mine else None,
        "notices": notices.of_agent(call, [job] if mine else []),
    }
    if job.upstreams or job.links:
        value["upstream_results"] = _upstream_results(call.bus, job, whole["blocked_by"])
    return Answer(value, replayed=replayed, version=job.version)


def _upstream_results(bus: Bus, job: Job, ids: Sequence[str]) -> list[dict[str, Any]]:
    """What the jobs that this one waited for came to; beyond a bound they are named, and their results left out."""
    heads = load.job_heads(bus, job.project, ids)
    found, room = [], limits.UPSTREAM_RESULTS_BYTES
    for number, up in enumerate(heads[name] for name in ids if name in heads):
        entry: dict[str, Any] = {"id": up.id, "summary": up.summary, "role": up.role, "status": up.status}
        result = load.result(bus, up) if number < limits.UPSTREAM_RESULTS and room > 0 else None
        there = up.result is not None or up.result_ref is not None
        room -= items.size(result) if result is not None else 0
        if there and (result is None or room < 0):
            entry |= {"result": None, "omitted": True}
        else:
            entry["result"] = result
        found.append(entry)
    return found


def _same_claim(call: Call, job: Job) -> bool:
    by_key = call.key is not None and job.claim_key == call.key[:8]
    session = call.body.get("session")
    return by_key or (session is not None and job.session == session)


def claim(call: Call) -> Answer:
    """Claim this job. The same session or Idempotency-Key repeats a claim; anything else is refused."""
    bus, first, project = call.bus, the_job(call), the_project(call)

    def attempt(job: Job) -> tuple[Job, bool]:
        mine = job.held_by(call.actor.id) and call.body["session"] is not None
        if repeats.is_repeat(call, job.ops) or (
            mine and job.session == call.body["session"] and not job.lapsed(call.now)
        ):
            return job, True
        refused = _reasons(bus, job, call.actor, project, call.now)
        if refused:
            if job.lapsed(call.now) and refused[0].code in ("ended", "not_yet", "budget_spent"):
                timers.expire(bus, job, call.now)
            raise rules.refusal(refused[0], job, call.actor)
        return take(call, job, places=caps.require(bus, project, call.actor, job, call.now)), False

    for turn in range(write.TRIES):
        try:
            job, repeat = attempt(write.reload(bus, first) if turn else first)
        except write.Lost:
            continue
        return claim_answer(call, job, replayed=repeat)
    raise InterlockError("already_claimed", "many callers want this job at once")


def explain(call: Call) -> Answer:
    """Why the caller (or, for an owner, `?agent=`) may or may not claim the job: every reason that applies."""
    job, project, actor = the_job(call), the_project(call), call.actor
    shown: str | None = actor.id
    if actor.kind == "agent" and call.query["agent"] not in (None, actor.id):
        raise InterlockError("forbidden", "only an owner may ask for another agent")
    if actor.kind == "owner":
        shown = call.query["agent"]
        if shown is None:
            live = tuple(role for role in (job.role,) if role in project.roles)
            actor = Actor("agent", "", "anybody", roles=live, capabilities=job.capabilities)
        else:
            agent = the_named_agent(call.bus, project, shown)
            live = tuple(role for role in agent.roles if role in project.roles and not agent.retired_at)
            actor = Actor(
                "agent",
                agent.id,
                agent.label,
                project.id,
                roles=live,
                capabilities=agent.capabilities,
                person=agent,
            )
    found = _reasons(call.bus, job, actor, project, call.now)
    found += caps.Room(call.bus, project, actor, call.now).of(job.role)[1]
    return Answer(
        {"claimable": not found, "as": shown, "reasons": [views.reason(reason) for reason in found]}
    )


def _reasons(bus: Bus, job: Job, actor: Actor, project: Project, now: int) -> list[rules.Reason]:
    """Every reason why the actor may not claim the job; of a job that waits, for which jobs."""
    found = [*rules.reasons(job, actor, project, now), *_spent_today(bus, job, project, now)]
    waits = next((reason for reason in found if reason.code == "waiting_upstream"), None)
    if waits is None:
        return found
    pk = keys.partition(job.project, "job", job.id)
    page = bus.store.table.query(Query(pk, prefix=keys.OPEN_HOLD, limit=NAMED))
    names = [row["sk"].removeprefix(keys.OPEN_HOLD) for row in page.items]
    if not names and any(reason.code == "not_yet" for reason in found):
        return [
            reason for reason in found if reason is not waits
        ]  # the head does not know that all are satisfied
    more = " and others" if page.more else ""
    told = replace(waits, detail=f"it waits for {', '.join(names)}{more}") if names else waits
    return [told if reason is waits else reason for reason in found]


def _spent_today(bus: Bus, job: Job, project: Project, now: int) -> list[rules.Reason]:
    """Why the budget of the day lets nobody take jobs of this role."""
    return list(spending.spent_today(bus, project, [job.role], now).values())


def _fence(call: Call) -> int:
    fence = call.body["fence"]
    if fence is None:
        raise InterlockError(
            "invalid", "the holder sends its fence", errors=[FieldError("fence", "is required")]
        )
    return int(fence)


def _by_holder(call: Call, job: Job) -> None:
    moves.require_claim(job, call.actor, _fence(call))


def complete(call: Call) -> Answer:
    """Complete the held job: evidence first, then one write that carries result, artifacts and the end."""
    result = call.body["result"] or {}
    parts: list[TransactionPart] = []

    def decision(job: Job) -> Change:
        parts.clear()
        moves.require(job, "complete")
        given = result.get("artifacts") or []
        artifacts.require_evidence(call.bus, job, {artifact["type"] for artifact in given})
        attributes: dict[str, Any] = {}
        data: dict[str, Any] = {}
        shown: list[dict[str, Any]] = []
        if given:
            shown, added = artifacts.later(call, job, given)
            parts.extend(added)
            attributes["later_artifacts"] = job.later_artifacts + len(given)
            data["artifacts"] = artifacts.fact_data(shown)
        if result:
            kept = {
                "summary": result.get("summary"),
                "data": result.get("data"),
                "artifacts": [made["id"] for made in shown],
            }
            attributes |= _stored_result(call, job, kept)
            if result.get("summary"):
                data["summary"] = result["summary"]
        parts.extend(spending.counting(call, job))
        return spending.reported(call, job, moves.complete(job, call.now, attributes, data))

    implied = repeats.implied_key(call, _fence(call))
    job, repeat = settle(
        call,
        the_job(call),
        decision,
        check=lambda job: _by_holder(call, job),
        implied=implied,
        parts=lambda _: parts,  # what the decision, which comes first, has put together
    )
    return shown.answer(call, job, replayed=repeat)


def _stored_result(call: Call, job: Job, kept: Mapping[str, Any]) -> dict[str, Any]:
    packed = items.pack(kept)
    if len(packed) <= limits.INLINE_BYTES:
        return {"result": packed, "result_ref": None}
    name = documents.content_hash(kept)
    key = keys.result(keys.partition(job.project, "job", job.id), name)
    call.bus.store.table.write_each([Put(key, documents.item(call.bus, key, kept))])
    return {"result": None, "result_ref": name}


def _holder_move(
    call: Call, decision: Callable[[Job], Change], *, implied: bytes | None = None
) -> tuple[Job, bool]:
    """A change by the holder, with the usage that its call reports."""
    return settle(
        call,
        the_job(call),
        lambda job: spending.reported(call, job, decision(job)),
        check=lambda job: _by_holder(call, job),
        implied=implied,
        parts=lambda job: spending.counting(call, job),
    )


def fail(call: Call) -> Answer:
    """Give up, with a reason. Without a key an identical call under the same fence is a repeat."""
    body = call.body
    implied = repeats.implied_key(call, _fence(call))
    job, repeat = _holder_move(
        call, lambda job: moves.fail(job, call.now, body["reason"], body["data"]), implied=implied
    )
    return shown.answer(call, job, replayed=repeat)


def block(call: Call) -> Answer:
    """Say what is in the way; the lease pauses and the holder keeps its place."""
    body = call.body
    job, repeat = _holder_move(call, lambda job: moves.block(job, call.now, body["reason"], body["data"]))
    return shown.answer(call, job, replayed=repeat)


def unblock(call: Call) -> Answer:
    """Remove the obstacle: the holder with its fence, or an owner. The resume window starts."""
    check = None if call.actor.kind == "owner" else (lambda job: _by_holder(call, job))
    job, repeat = settle(
        call, the_job(call), lambda job: moves.unblock(job, call.now, call.body["reason"]), check=check
    )
    return shown.answer(call, job, replayed=repeat)


def resume(call: Call) -> Answer:
    """Go on with the work; the lease starts again under the same fence."""
    job, repeat = _holder_move(call, lambda job: moves.resume(job, call.now))
    return _restarted(call, job, repeat)


def release(call: Call) -> Answer:
    """Give the job back to the board; no attempt is counted."""
    job, repeat = _holder_move(call, lambda job: moves.release(job, call.now, call.body["reason"]))
    return shown.answer(call, job, replayed=repeat)


def restart(call: Call) -> Answer:
    """Start a failed job again, as the agent that held it last."""

    def check(job: Job) -> None:
        if job.cascade:
            moves.require(job, "restart")  # nobody held it; its root says why
        if job.assignee != call.actor.id:
            raise InterlockError(
                "not_holder", "only the agent that held the job when it failed may restart it"
            )

    def decision(job: Job) -> Change:
        change = moves.restart(job, call.now)
        for reason in (
            *rules.barred(call.actor),
            *rules.spent(job, call.now),
            *_spent_today(call.bus, job, the_project(call), call.now),
        ):
            raise rules.refusal(reason, job, call.actor)
        return change

    def parts(job: Job) -> list[TransactionPart]:
        places = caps.require(call.bus, the_project(call), call.actor, job, call.now)
        taken = caps.take(call.bus, places, job, job.fence + 1, call.now)
        return [*external.parts(call.bus, job), *taken]

    job, repeat = settle(call, the_job(call), decision, check=check, parts=parts)
    return _restarted(call, job, repeat)


def _restarted(call: Call, job: Job, repeat: bool) -> Answer:
    mine = job.held_by(call.actor.id) and job.status in LEASED
    value = {"job": shown.whole(call.bus, job), "claim": views.claim(job, call.now) if mine else None}
    return Answer(value, replayed=repeat, version=job.version)


def call_hash(call: Call) -> str:
    """The name of a keyed claim-next call among those of its project."""
    return hashlib.sha256(call.key or b"").hexdigest()[:32]
