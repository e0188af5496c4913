"""Use cases of a claim: take a job, keep the lease, and everything its holder does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import (
    artifacts,
    cursors,
    documents,
    external,
    load,
    notices,
    repeats,
    timers,
    views,
    write,
)
from interlock.app.call import Answer, Bus, Call
from interlock.app.jobs import settle, the_job, the_project
from interlock.domain import claim as rules
from interlock.domain import limits, moves
from interlock.domain.identity import Actor
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import HELD, LEASED, PUBLISHED
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import Put, Query, TransactionPart, Update


def take(call: Call, job: Job, *, parts: Sequence[TransactionPart] = ()) -> Job:
    """One conditional write that gives the judged job to the caller. Raises Lost."""
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
    return write.change(
        call.bus, job, call.actor, call.now, change, condition=condition, remember=remember, parts=parts
    )


def claim_answer(call: Call, job: Job, *, replayed: bool = False) -> Answer:
    """`{job, claim, notices}`; `claim` is null when a repeat finds that the claim has ended."""
    mine = job.held_by(call.actor.id) and (not replayed or _same_claim(call, job))
    value = {
        "job": load.whole(call.bus, job),
        "claim": views.claim(job, call.now) if mine else None,
        "notices": notices.of_agent(call.actor, the_project(call), [job] if mine else []),
    }
    return Answer(value, replayed=replayed, version=job.version)


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
        refused = rules.reasons(job, call.actor, project, call.now)
        if refused:
            if job.lapsed(call.now) and refused[0].code == "ended":
                timers.expire(bus, job, call.now)
            raise rules.refusal(refused[0], job, call.actor)
        return take(call, job), False

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
            item = call.bus.store.table.get(keys.head(project.id, "agent", shown))
            if item is None:
                raise InterlockError(
                    "unknown_agent",
                    f"there is no agent {shown}",
                    errors=[FieldError("agent", "unknown agent")],
                )
            agent = items.agent(item)
            live = tuple(role for role in agent.roles if role in project.roles and not agent.retired_at)
            actor = Actor(
                "agent", agent.id, agent.label, project.id, roles=live, capabilities=agent.capabilities
            )
    found = rules.reasons(job, actor, project, call.now)
    return Answer(
        {"claimable": not found, "as": shown, "reasons": [views.reason(reason) for reason in found]}
    )


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
    bus, result = call.bus, call.body["result"] or {}
    parts: list[TransactionPart] = []

    def decision(job: Job) -> Change:
        parts.clear()
        moves.require(job, "complete")
        given = result.get("artifacts") or []
        _require_evidence(call, job, {artifact["type"] for artifact in given})
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
        return moves.complete(job, call.now, attributes, data)

    implied = repeats.implied_key(call, _fence(call))
    job, repeat = settle(
        call, decision, check=lambda job: _by_holder(call, job), implied=implied, parts=lambda _: parts
    )
    return load.answer(Call(bus, call.operation, call.actor, call.now), job, replayed=repeat)


def _require_evidence(call: Call, job: Job, given: set[str]) -> None:
    if not job.requires:
        return
    missing = [name for name in job.requires if name not in given]
    if missing:
        there = artifacts.types(call.bus, job)
        missing = [name for name in missing if name not in there]
    if missing:
        errors = [
            FieldError("result/artifacts", f"an artifact of type {name!r} is missing") for name in missing
        ]
        raise InterlockError("evidence_missing", f"missing: {', '.join(missing)}", errors=errors)


def _stored_result(call: Call, job: Job, kept: Mapping[str, Any]) -> dict[str, Any]:
    packed = items.pack(kept)
    if len(packed) <= limits.INLINE_BYTES:
        return {"result": packed, "result_ref": None}
    name = documents.content_hash(kept)
    key = keys.result(keys.partition(job.project, "job", job.id), name)
    call.bus.store.table.write_each([Put(key, documents.item(call.bus, key, kept))])
    return {"result": None, "result_ref": name}


def _holder_move(call: Call, decision: Any, *, implied: bytes | None = None) -> tuple[Job, bool]:
    return settle(call, decision, check=lambda job: _by_holder(call, job), implied=implied)


def fail(call: Call) -> Answer:
    """Give up, with a reason. Without a key an identical call under the same fence is a repeat."""
    body = call.body
    implied = repeats.implied_key(call, _fence(call))
    job, repeat = _holder_move(
        call, lambda job: moves.fail(job, call.now, body["reason"], body["data"]), implied=implied
    )
    return load.answer(call, job, replayed=repeat)


def block(call: Call) -> Answer:
    """Say what is in the way; the lease pauses and the holder keeps its place."""
    body = call.body
    job, repeat = _holder_move(call, lambda job: moves.block(job, call.now, body["reason"], body["data"]))
    return load.answer(call, job, replayed=repeat)


def unblock(call: Call) -> Answer:
    """Remove the obstacle: the holder with its fence, or an owner. The resume window starts."""
    check = None if call.actor.kind == "owner" else (lambda job: _by_holder(call, job))
    job, repeat = settle(call, lambda job: moves.unblock(job, call.now, call.body["reason"]), check=check)
    return load.answer(call, job, replayed=repeat)


def resume(call: Call) -> Answer:
    """Go on with the work; the lease starts again under the same fence."""
    job, repeat = _holder_move(call, lambda job: moves.resume(job, call.now))
    return _restarted(call, job, repeat)


def release(call: Call) -> Answer:
    """Give the job back to the board; no attempt is counted."""
    job, repeat = _holder_move(call, lambda job: moves.release(job, call.now, call.body["reason"]))
    return load.answer(call, job, replayed=repeat)


def restart(call: Call) -> Answer:
    """Start a failed job again, as the agent that held it last."""

    def check(job: Job) -> None:
        if job.assignee != call.actor.id:
            raise InterlockError(
                "not_holder", "only the agent that held the job when it failed may restart it"
            )

    def decision(job: Job) -> Change:
        return moves.restart(job, call.now)

    job, repeat = settle(call, decision, check=check, parts=lambda job: external.parts(call.bus, job))
    return _restarted(call, job, repeat)


def _restarted(call: Call, job: Job, repeat: bool) -> Answer:
    mine = job.held_by(call.actor.id) and job.status in LEASED
    value = {"job": load.whole(call.bus, job), "claim": views.claim(job, call.now) if mine else None}
    return Answer(value, replayed=repeat, version=job.version)


def held_jobs(
    bus: Bus, project: str, agent: str, *, after: str | None = None
) -> tuple[list[Job], str | None]:
    """The jobs that an agent holds (heads read consistently), oldest claim first, and where to go on."""
    page = bus.store.table.query(
        Query(
            keys.live_partition(project), index=1, prefix=f"{agent}#", after=after, limit=limits.CLAIMS_PAGE
        )
    )
    ids = [keys.entity_of(row["pk"])[2] for row in page.items]
    heads = load.job_heads(bus, project, ids)
    jobs = [heads[job_id] for job_id in ids if job_id in heads and heads[job_id].held_by(agent)]
    return jobs, page.items[-1]["g1sk"] if page.more and page.items else None


def heartbeat(call: Call) -> Answer:
    """Renew the caller's leases (of its `session`, where one is sent) and say how each named job stands.

    All are renewed; the answer shows a page of them, and a cursor with which `me` goes on.
    """
    bus, agent, project = call.bus, call.actor.id, the_project(call)
    jobs, cursor = held_jobs(bus, project.id, agent)
    named = {entry["id"]: entry["fence"] for entry in call.body["jobs"]}
    known = {job.id for job in jobs}
    extra = load.job_heads(bus, project.id, [job_id for job_id in named if job_id not in known])
    jobs += [job for job in extra.values() if job.held_by(agent)]
    session = call.body["session"]
    mine = [job for job in jobs if session is None or job.session == session or job.id in named]
    # a job named with an older fence is lost for the one who names it, even if the same agent holds it anew
    mine = [job for job in mine if named.get(job.id) in (None, job.fence)]
    until, moved = _renewed(call, mine)
    held = {job.id: replace(job, lease_until=until.get(job.id)) for job in mine}
    beyond = cursor
    while beyond:
        more, beyond = held_jobs(bus, project.id, agent, after=beyond)
        _renewed(call, [job for job in more if session is None or job.session == session])
    after = load.job_heads(bus, project.id, [*moved, *(job_id for job_id in named if job_id not in held)])
    for job_id in moved:
        # lost, unless another call of the holder has blocked or renewed it meanwhile
        before, now = held.pop(job_id), after.get(job_id)
        if now is not None and now.held_by(agent) and now.fence == before.fence:
            held[job_id] = now
    claims = [_kept(call, job) for job in held.values()]
    gone = [job_id for job_id in dict.fromkeys([*named, *moved]) if job_id not in held]
    claims += [_gone(call, after.get(job_id), job_id, named.get(job_id)) for job_id in gone]
    shown = notices.of_agent(call.actor, project, list(held.values()))
    return Answer({"claims": claims, "notices": shown, "next_cursor": claims_cursor(agent, cursor)})


def claims_cursor(agent: str, after: str | None) -> str | None:
    """The cursor of a list of an agent's claims that goes on after this one."""
    return cursors.write("claims", {"agent": agent}, after) if after else None


def _renewed(call: Call, jobs: Sequence[Job]) -> tuple[dict[str, int], list[str]]:
    """Renew the leases that run: (their new ends, the ids of those that are not the caller's as they were read)."""
    renewable = [job for job in jobs if job.status in LEASED]
    until = {job.id: call.now + job.running_lease() * limits.SECOND for job in renewable}
    writes = [
        Update(
            items.head_key(job),
            {"lease_until": until[job.id], "quiet": 1},
            (),
            conditions.lease_running(call.actor.id, job.fence, until[job.id]),
        )
        for job in renewable
    ]
    kept = call.bus.store.table.write_each(writes) if writes else []
    return until, [job.id for job, holds in zip(renewable, kept, strict=True) if not holds]


def _kept(call: Call, job: Job) -> dict[str, Any]:
    rest = None if job.lease_until is None else max(0, job.lease_until - call.now) // limits.SECOND
    return {"job": job.id, "fence": job.fence, "expires_in": rest, "status": job.status}


def _gone(call: Call, job: Job | None, job_id: str, fence: int | None) -> dict[str, Any]:
    if job is None or not load.visible(job, call.actor, the_project(call)):
        return {
            "job": job_id,
            "fence": None,
            "expires_in": 0,
            "stop": {"code": "not_found", "detail": "there is no such job here"},
        }
    stopped = job.stopped_fence is not None and (
        job.status not in HELD if fence is None else fence == job.stopped_fence
    )
    code = "stop_requested" if stopped else "lease_lost"
    return {
        "job": job_id,
        "fence": job.fence,
        "expires_in": 0,
        "status": job.status,
        "stop": {"code": code, "detail": moves.where_now(job)},
    }


def call_hash(call: Call) -> str:
    """The name of a keyed claim-next call among those of its project."""
    return hashlib.sha256(call.key or b"").hexdigest()[:32]
