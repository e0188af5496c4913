"""Tools under a claim: taking work, keeping it, ending it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from interlock.edges.mcp import brief, hints
from interlock.edges.mcp.offers import Context
from interlock.edges.mcp.schemas import NUMBER, THING, THINGS, Schema
from interlock.edges.mcp.session import Session
from interlock.edges.mcp.tool import Found, OnJob, Plain, Repeatable, Row
from interlock.edges.models.fields import Model

Rest = dict[str, Any]
Action = Literal["block", "unblock", "resume", "release", "restart", "cancel"]

_OPERATION: Mapping[str, str] = {
    "block": "claims.block",
    "unblock": "claims.unblock",
    "resume": "claims.resume",
    "release": "claims.release",
    "restart": "claims.restart",
    "cancel": "jobs.cancel",
}


class SetJobStatus(OnJob):
    """Which job, and what becomes of it."""

    action: Action


def _claimed(value: Mapping[str, Any]) -> Found:
    job = value["job"]
    parts = {
        "job": None if job is None else brief.job(job),
        "claim": value.get("claim"),
        "upstream_results": brief.plain(value.get("upstream_results") or []),
        "notices": value["notices"],
        "skipped": value.get("skipped"),
    }
    return Found(
        {name: part for name, part in parts.items() if part or name == "job"}, hints.after_claim(value)
    )


def _next(session: Session, own: Repeatable, rest: Rest, _context: Context) -> Found:
    return _claimed(session.call("claims.next", body=rest, key=own.idempotency_key).value)


def _claim(session: Session, own: OnJob, rest: Rest, _context: Context) -> Found:
    return _claimed(session.call("claims.claim", {"job": own.job}, rest, key=own.idempotency_key).value)


def _beat(session: Session, _own: Model, rest: Rest, _context: Context) -> Found:
    value = session.call("claims.heartbeat", body=rest).value
    steps = []
    if any(claim.get("stop") for claim in value["claims"]):
        steps.append("Stop working on every job with stop at once; what it says is where the job is now.")
    if any(notice["code"].startswith("decision_") for notice in value["notices"]):
        steps.append(
            "A decision was closed: list_decisions shows it; set_job_status resume goes on where it blocked you."
        )
    return Found({"claims": value["claims"], "notices": value["notices"]}, steps or ["Go on with your work."])


def _changed(session: Session, value: Mapping[str, Any]) -> Found:
    job = value["job"]
    parts = {"job": brief.state(job)}
    if value.get("claim"):
        return Found({**parts, "claim": value["claim"]}, hints.after_claim(value))
    mine = job["assignee"] == session.caller.actor.id
    return Found(parts, hints.on_job(job, mine=mine))


def _complete(session: Session, own: OnJob, rest: Rest, _context: Context) -> Found:
    value = session.call("claims.complete", {"job": own.job}, rest, key=own.idempotency_key).value
    return _changed(session, value)


def _fail(session: Session, own: OnJob, rest: Rest, _context: Context) -> Found:
    value = session.call("claims.fail", {"job": own.job}, rest, key=own.idempotency_key).value
    return _changed(session, value)


def _set(session: Session, own: SetJobStatus, rest: Rest, _context: Context) -> Found:
    operation = _OPERATION[own.action]
    return _changed(session, session.call(operation, {"job": own.job}, rest, key=own.idempotency_key).value)


def _reject(session: Session, own: OnJob, rest: Rest, _context: Context) -> Found:
    value = session.call("claims.reject", {"job": own.job}, rest, key=own.idempotency_key).value
    steps = [
        "The work goes on as the retry; your review waits for it and comes back to the board. claim_next for other work."
    ]
    return Found({"retry": brief.state(value["retry"]), "reviewer": brief.state(value["reviewer"])}, steps)


_JOB: Mapping[str, Schema] = {"job": {**THING, "description": "The job."}}
_CLAIM: Schema = {
    **THING,
    "properties": {"fence": NUMBER},
    "description": "The lease; its fence goes into every change.",
}
_CLAIMED: Mapping[str, Schema] = {
    "job": {"type": ["object", "null"], "description": "The job; null when nothing is free."},
    "claim": _CLAIM,
    "upstream_results": THINGS,
    "skipped": THING,
}

ROWS = (
    Row(
        "claim_next",
        "Claim the next job",
        "Take the best job that you may take, or learn that there is none and when to ask again. Claim before you "
        "work; heartbeat_seconds asks for a lease of three beats.",
        ("claims.next",),
        Repeatable,
        _next,
        passes=("ClaimNext",),
        answer=_CLAIMED,
    ),
    Row(
        "claim_job",
        "Claim a job",
        "Take this job, if nobody has it. Claim before you work on it.",
        ("claims.claim",),
        OnJob,
        _claim,
        passes=("Claim",),
        answer=_CLAIMED,
    ),
    Row(
        "heartbeat",
        "Renew the claims",
        "Say that you are alive: renews your claims and tells of stops, answered decisions and notices. Report usage "
        "per job in jobs.",
        ("claims.heartbeat",),
        Plain,
        _beat,
        passes=("Heartbeat",),
        answer={"claims": THINGS},
        idempotent=True,
    ),
    Row(
        "complete_job",
        "Complete a job",
        "End a job that you hold as done. Verify the work first; attach what it requires as evidence. result says what "
        "came out, for whoever works on it next.",
        ("claims.complete",),
        OnJob,
        _complete,
        passes=("Complete",),
        answer=_JOB,
        idempotent=True,
    ),
    Row(
        "fail_job",
        "Fail a job",
        "End a job that you hold as failed, with the reason. What waits for it fails too until it is retried.",
        ("claims.fail",),
        OnJob,
        _fail,
        passes=("Fail",),
        answer=_JOB,
        destructive=True,
        idempotent=True,
    ),
    Row(
        "set_job_status",
        "Change a job's status",
        "block (with reason): something is in the way. unblock (reason), then resume: go on. release: back to the "
        "board. restart: your own failed job again. cancel (reason): not wanted any more. The holder sends fence.",
        tuple(_OPERATION.values()),
        SetJobStatus,
        _set,
        passes=("Block", "Unblock", "Resume", "Release", "Restart", "Cancel"),
        answer={**_JOB, "claim": _CLAIM},
        destructive=True,
    ),
    Row(
        "reject_job",
        "Send work back",
        "As the holder of a review: send the completed job that it waits for (target) back, with a reason that says "
        "what must change. A retry is published, and the review waits for it.",
        ("claims.reject",),
        OnJob,
        _reject,
        passes=("Reject",),
        answer={"retry": THING, "reviewer": THING},
        destructive=True,
    ),
)
