"""Leases: renewal by any call of the holder, heartbeats, and what an agent holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import cursors, load, notices, presence, spending, write
from interlock.app.call import Answer, Call, the_project
from interlock.domain import limits, moves
from interlock.domain.job import Job
from interlock.domain.lifecycle import HELD, LEASED
from interlock.store import conditions, items
from interlock.store.ports import Update


def renew(call: Call) -> Call:
    """Any call on a job by its holder renews the lease, when more than a third of it is used up."""
    job = call.target
    if not isinstance(job, Job) or not job.held_by(call.actor.id) or not job.renewal_due(call.now):
        return call
    if call.actor.stopped is not None:
        return call
    until = call.now + job.running_lease() * limits.SECOND
    running = conditions.lease_running(call.actor.id, job.fence, until)
    written = write.quietly(call.bus, job, {"lease_until": until}, running)
    return replace(call, target=replace(job, lease_until=until)) if written else call


def heartbeat(call: Call) -> Answer:
    """Renew the caller's leases (of its `session`, where one is sent) and say how each named job stands.

    All are renewed; the answer shows a page of them, and a cursor with which `me` goes on.
    """
    bus, agent, project = call.bus, call.actor.id, the_project(call)
    jobs, cursor = load.held_jobs(bus, project.id, agent)
    named = {entry["id"]: entry["fence"] for entry in call.body["jobs"]}
    known = {job.id for job in jobs}
    extra = load.job_heads(bus, project.id, [job_id for job_id in named if job_id not in known])
    jobs += [job for job in extra.values() if job.held_by(agent)]
    session = call.body["session"]
    mine = [job for job in jobs if session is None or job.session == session or job.id in named]
    # a job named with an older fence is lost for the one who names it, even if the same agent holds it anew
    mine = [job for job in mine if named.get(job.id) in (None, job.fence)]
    if call.actor.stopped is not None:
        return _stopped(call, mine, named)
    reports = {
        entry["id"]: entry["usage"]
        for entry in call.body["jobs"]
        if entry["usage"] is not None and entry["fence"] == named[entry["id"]]
    }
    until, moved = _renewed(call, [job for job in mine if job.id not in reports])
    held = {job.id: replace(job, lease_until=until.get(job.id)) for job in mine}
    for job in mine:
        if job.id in reports:
            kept = spending.beat(call, job, reports[job.id])
            moved += [] if kept else [job.id]
            held[job.id] = kept or job
    beyond = cursor
    while beyond:
        more, beyond = load.held_jobs(bus, project.id, agent, after=beyond)
        _renewed(call, [job for job in more if session is None or job.session == session])
    after = load.job_heads(bus, project.id, [*moved, *(job_id for job_id in named if job_id not in held)])
    for job_id in moved:
        # lost, unless another call of the holder has blocked or renewed it meanwhile
        before, now = held.pop(job_id), after.get(job_id)
        if now is not None and now.held_by(agent) and now.fence == before.fence:
            held[job_id] = now
    held = {job_id: spending.judge(bus, job, call.now) for job_id, job in held.items()}
    gone_now = [job_id for job_id, job in held.items() if not job.held_by(agent)]
    after |= {job_id: held.pop(job_id) for job_id in gone_now}
    claims = [_kept(call, job) for job in held.values()]
    gone = [job_id for job_id in dict.fromkeys([*named, *moved, *gone_now]) if job_id not in held]
    claims += [_gone(call, after.get(job_id), job_id, named.get(job_id)) for job_id in gone]
    presence.seen(call, limits.SEEN_EVERY)
    shown = notices.of_agent(call, list(held.values()))
    return Answer({"claims": claims, "notices": shown, "next_cursor": claims_cursor(agent, cursor)})


def _stopped(call: Call, mine: Sequence[Job], named: Mapping[str, int | None]) -> Answer:
    """An owner has stopped the agent: nothing is renewed, and of what it still holds for a moment it is told to stop."""
    stop = {"code": "stop_requested", "detail": f"an owner has stopped this agent: {call.actor.stopped}"}
    claims = [{**_kept(call, job), "expires_in": 0, "stop": stop} for job in mine]
    gone = [job_id for job_id in named if job_id not in {job.id for job in mine}]
    after = load.job_heads(call.bus, the_project(call).id, gone)
    claims += [_gone(call, after.get(job_id), job_id, named[job_id]) for job_id in gone]
    return Answer({"claims": claims, "notices": notices.of_agent(call, mine), "next_cursor": None})


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
    shown = {"job": job.id, "fence": job.fence, "expires_in": rest, "status": job.status}
    return {**shown, "decision": job.decision} if job.decision else shown


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
