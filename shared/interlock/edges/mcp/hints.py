"""The next step: what an agent does after an answer, and after a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.errors import InterlockError

_BACK = "Stop working on it, and claim_next for other work."
_AFTER: Mapping[str, str] = {
    "lease_lost": _BACK,
    "stop_requested": _BACK,
    "not_holder": "Only the holder may do this; whoami shows what you hold.",
    "already_claimed": "claim_next takes the best job that is free.",
    "ended": "get_job shows how it ended.",
    "excluded": "Leave this job to another agent; claim_next for other work.",
    "missing_capability": "Leave this job to another agent; claim_next for other work.",
    "wrong_role": "whoami shows your roles; claim_next looks at all of them.",
    "waiting_upstream": "get_job with include explain says what it waits for.",
    "not_yet": "get_job with include explain says until when.",
    "paused": "whoami shows what is paused; finish what you hold.",
    "cap_reached": "Complete, fail or release what you hold (whoami shows it), then claim again.",
    "budget_spent": "get_job shows the budget; an owner decides about more.",
    "wrong_state": "get_job shows the status; set_job_status names what leads on from it.",
    "evidence_missing": "attach_artifact with a reference that exists, then complete_job again.",
    "version_mismatch": "get_job, merge your change, and edit_job with its version.",
    "if_match_required": "Send the version that get_job showed.",
    "unknown_role": "whoami with include roles lists the roles.",
    "unknown_job": "list_jobs finds ids; never make one up.",
    "not_found": "list_jobs finds ids; what you may not see is answered the same way.",
    "subject_changed": "get_job, look again, and ask or answer anew.",
    "decision_closed": "list_decisions with this decision shows what became of it.",
    "idempotency_mismatch": "Use a new idempotency_key for another call.",
    "self_answer": "An owner or another agent answers; go on with other work meanwhile.",
    "not_reviewable": "reject_job takes a completed job that your review waits for: get_job names them in blocked_by.",
    "bad_cursor": "Ask again without a cursor.",
}


def after_error(error: InterlockError, tool: str) -> list[str]:
    """What to do after a refusal."""
    if error.retryable:
        return [f"Call {tool} again with the same arguments and the same idempotency_key; it is safe."]
    step = _AFTER.get(error.code)
    return [step] if step else [f"Correct the arguments of {tool}, and call it again."]


def whole(cuts: Sequence[str], parts: Mapping[str, Any]) -> list[str]:
    """How to read what was cut."""
    job = parts.get("job")
    named = job.get("id") if isinstance(job, Mapping) else None
    bodies = [cut.partition("/")[2] for cut in cuts if cut.startswith("job/")]
    tops = {cut.partition("/")[0] for cut in cuts}
    steps = []
    if named and bodies:
        steps.append(
            f'What is cut of the job is read whole with get_job {{"job": "{named}", "part": "{bodies[0]}", "offset": 0}}.'
        )
    if "upstream_results" in tops:
        steps.append('A result that is cut is read whole with get_job of its job and part "result".')
    if "claims" in tops:
        steps.append("whoami shows all claims, page by page.")
    if "plan" in parts:
        steps.append("The ids that are cut are listed by list_jobs.")
    return steps or ["What is cut is shown by a narrower call: name one job or decision, or include less."]


def after_claim(answer: Mapping[str, Any]) -> list[str]:
    """After a claim: how to keep it and how to end it."""
    job, claim = answer["job"], answer.get("claim")
    if job is None:
        wait = -(-answer["poll_after_ms"] // 1_000)
        return [f"Nothing is free for you now. Ask again in {wait} s, or end your turn."]
    if claim is None:
        return ["This call claimed the job before, and that claim has ended: claim_next for other work."]
    steps = [f"You hold it under fence {claim['fence']}: send this fence with every change."]
    if claim.get("expires_in") is not None:
        beat = claim.get("heartbeat_seconds") or max(1, claim["expires_in"] // 3)
        steps.append(
            f"Call heartbeat every {beat} s while you work; the claim lapses in {claim['expires_in']} s."
        )
    if job.get("reopen_of"):
        steps.append('It was sent back: get_job with include ["reopen"] says why.')
    needs = (
        f" It needs evidence first: attach_artifact of type {', '.join(job['requires'])}."
        if job.get("requires")
        else ""
    )
    return [
        *steps,
        f"Do the work, verify it, then complete_job; fail_job with a reason if it cannot be done.{needs}",
    ]


def after_publish(job: Mapping[str, Any]) -> list[str]:
    """After a job was published."""
    if job["status"] == "pending":
        return ["It is published by itself when what it waits for is completed."]
    return [f"Agents of role {job['role']} can claim it now; get_job shows how it goes."]


_ON: Mapping[str, str] = {
    "published": "claim_job takes it.",
    "pending": 'get_job with include ["explain"] says what it waits for.',
    "in_progress": "complete_job, fail_job, or set_job_status (block, release) under your fence.",
    "blocked": "set_job_status unblock when the obstacle is gone, then resume.",
    "unblocked": "set_job_status resume, to go on.",
    "failed": "set_job_status restart, if you held it last; an owner may retry it.",
    "completed": "Nothing is left to do here: claim_next for other work.",
    "cancelled": "Nothing is left to do here: claim_next for other work.",
}


def on_job(job: Mapping[str, Any], *, mine: bool) -> list[str]:
    """What leads on from a job's status."""
    if job["status"] in ("in_progress", "blocked", "unblocked") and not mine:
        return ["Somebody else holds it: claim_next for other work."]
    return [_ON[job["status"]]]
