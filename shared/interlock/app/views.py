"""The only builder of answers: values as JSON. Times as RFC 3339, durations in whole seconds beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.domain import limits, usage
from interlock.domain.claim import Reason
from interlock.domain.decision import ANSWERED, OPEN, QUESTION, VERDICTS, Decision
from interlock.domain.guard import UNARY
from interlock.domain.identity import Actor, Agent, Owner, Project, Role, Token
from interlock.domain.job import Job
from interlock.domain.lifecycle import COMPLETED, LEASED
from interlock.domain.links import Upstream
from interlock.domain.times import rfc3339
from interlock.store.ports import Upload


def moment(at: int | None) -> str | None:
    """A time, or None."""
    return None if at is None or at == 0 else rfc3339(at)


def _source(reference: str) -> str:
    return reference.partition(":")[2]


def summary(job: Job) -> dict[str, Any]:
    """A job in a list."""
    return {
        "id": job.id,
        "external_id": job.external_id,
        "summary": job.summary,
        "status": job.status,
        "role": job.role,
        "priority": job.priority,
        "parent": job.parent,
        "source": _source(job.source),
        "source_label": job.source_label,
        "assignee": job.assignee,
        "assignee_label": job.assignee_label,
        "attempt": job.attempt,
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "created_at": moment(job.created_at),
        "updated_at": moment(job.updated_at),
        "published_at": moment(job.published_at),
        "not_before": moment(job.not_before),
        "deadline": moment(job.deadline),
        "overdue": job.overdue is not None,
        "fence": job.fence,
        "version": job.version,
        "digest": job.digest,
    }


def whole(job: Job, documents: Mapping[str, Any]) -> dict[str, Any]:
    """A job with everything: ``documents`` holds constraints, context, artifacts and result."""
    failure = dict(job.last_failure) if job.last_failure else None
    if failure:
        failure["at"] = moment(failure["at"])
    return {
        **summary(job),
        "constraints": documents["constraints"],
        "context": documents["context"],
        "artifacts": documents["artifacts"],
        "result": documents["result"],
        "requires": list(job.requires),
        "capabilities": list(job.capabilities),
        "lease_seconds": job.lease_seconds,
        "on_expire": job.on_expire,
        "session": job.session,
        "lease_expires_at": moment(job.lease_until) if job.status in LEASED else None,
        "started_at": moment(job.started_at),
        "blocked_at": moment(job.blocked_at),
        "unblocked_at": moment(job.unblocked_at),
        "completed_at": moment(job.completed_at),
        "failed_at": moment(job.failed_at),
        "cancelled_at": moment(job.cancelled_at),
        "blocked_reason": job.blocked_reason,
        "unblock_reason": job.unblock_reason,
        "failure_reason": job.failure_reason,
        "cancel_reason": job.cancel_reason,
        "last_failure": failure,
        "traceparent": job.trace,
        "rev": job.rev,
        "blocked_by": [up.id for up in documents["upstream"] if up.state != "replaced"],
        "upstream": [_upstream(up) for up in documents["upstream"]],
        "on_upstream_failure": job.on_upstream_failure,
        "independent": job.independent,
        "routing": [_rule(rule) for rule in documents.get("routing", ())],
        "caused_by": _cause(job),
        "reopen_of": job.reopen_of,
        "retried_by": job.retry,
        "routed_from": job.routed_from,
        "decision": job.decision,
        "open_decisions": list(job.asked or ()),
        "approved_by": _approved_by(job),
        **_spending(job),
    }


def _approved_by(job: Job) -> str | None:
    """Who has approved the work as it is, in a review."""
    if job.approved is None or (job.approved["rev"] != job.rev and job.status != COMPLETED):
        return None
    return _source(job.approved["by"])


def _spending(job: Job) -> dict[str, Any]:
    """The job's budget, and what was used: as reported, as metered (until its latest change), and by the jobs before it."""
    budget = amounts(job.budget)
    if budget is not None and job.budget is not None:
        budget |= {"count": job.budget["count"], "spent": bool(usage.over(job, job.updated_at))}
    earlier = usage.carried(job)
    return {
        "budget": budget,
        "usage": {
            "reported": usage.plain(usage.reported(job)),
            "metered": {"seconds": usage.metered(job, job.updated_at) / limits.SECOND},
            "earlier": usage.plain(earlier) if earlier else None,
            "model": (job.usage or {}).get("model"),
        },
    }


def decision(found: Decision, job: Job, now: int) -> dict[str, Any]:
    """A decision; ``current`` says whether its subject is still as it was when it was asked."""
    answered = found.state == ANSWERED
    rest = None if found.expires_at is None else max(0, found.expires_at - now) // limits.SECOND
    return {
        "id": found.id,
        "job": found.job,
        "kind": found.kind,
        "cause": found.cause,
        "state": found.state,
        "subject": {"job": found.job, "rev": found.rev},
        "current": found.current(job),
        "wait": found.waits,
        "prompt": found.prompt,
        "blocker": found.blocker,
        "risk": found.risk,
        "options": list(found.options) or (None if found.kind == QUESTION else list(VERDICTS)),
        "schema": found.schema,
        "roles": list(found.roles),
        "asked_by": dict(found.asked_by),
        "asked_at": moment(found.asked_at),
        "expires_at": moment(found.expires_at),
        "expires_in": rest if found.state == OPEN else None,
        "answer": found.answer,
        "note": found.note,
        "findings": [dict(finding) for finding in found.findings],
        "segment": found.segment,
        "data": found.data,
        "answered_by": found.closed_by and dict(found.closed_by) if answered else None,
        "answered_at": moment(found.closed_at) if answered else None,
        "closed_by": found.closed_by and dict(found.closed_by),
        "closed_at": moment(found.closed_at),
    }


def _upstream(up: Upstream) -> dict[str, Any]:
    shown = {"id": up.id, "type": "blocks", "state": up.state}
    return {**shown, "replaced_by": up.replaced_by} if up.replaced_by else shown


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    when = rule["when"]
    if when and when["op"] in UNARY:
        when = {"field": when["field"], "op": when["op"]}
    return {**rule, "when": when}


def _cause(job: Job) -> dict[str, Any] | None:
    return {"upstreams": [job.cascade["upstream"]], "root": job.cascade["root"]} if job.cascade else None


def claim(job: Job, now: int) -> dict[str, Any]:
    """The lease that the caller holds: the fence that every write needs, and how long it lasts."""
    until = job.lease_until
    return {
        "fence": job.fence,
        "expires_at": moment(until),
        "expires_in": None if until is None else max(0, (until - now) // limits.SECOND),
        "lease_seconds": job.running_lease(),
        **({"heartbeat_seconds": job.heartbeat_seconds} if job.heartbeat_seconds else {}),
        **({"session": job.session} if job.session else {}),
    }


def held(job: Job, now: int) -> dict[str, Any]:
    """A claim in `me` and heartbeat answers."""
    return {"job": job.id, "summary": job.summary, "role": job.role, "status": job.status, **claim(job, now)}


def holding(job: Job, now: int) -> dict[str, Any]:
    """What a worker holds."""
    rest = claim(job, now)["expires_in"]
    shown = {"job": job.id, "summary": job.summary, "role": job.role, "status": job.status}
    return {**shown, "fence": job.fence, "expires_in": rest}


def reason(found: Reason) -> dict[str, Any]:
    """One reason of an explanation."""
    return {
        "code": found.code,
        "detail": found.detail,
        **({"until": moment(found.until)} if found.until else {}),
    }


def actor(who: Actor) -> dict[str, Any]:
    """The caller."""
    shown: dict[str, Any] = {"kind": who.kind, "id": who.id, "label": who.label}
    return {**shown, "rights": who.rights, "scope": who.scope} if who.kind == "owner" else shown


def role(found: Role) -> dict[str, Any]:
    """A role."""
    return {
        "key": found.key,
        "label": found.label,
        "lease_seconds": found.lease_seconds,
        "on_expire": found.on_expire,
        "capabilities": list(found.capabilities),
        "independent": found.independent,
        "max_claims": found.max_claims,
        "daily_budget": amounts(found.daily_budget),
        "created_at": moment(found.created_at),
    }


def amounts(budget: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A budget's amounts as callers write them: tokens, dollars, seconds; None where it does not limit one."""
    if budget is None:
        return None
    usd, seconds = budget.get("usd"), budget.get("seconds")
    return {
        "tokens": budget.get("tokens"),
        "usd": None if usd is None else usd / 1_000_000,
        "seconds": None if seconds is None else seconds / limits.SECOND,
    }


def pauses(project: Project) -> list[dict[str, Any]]:
    """What is paused, since when and why."""
    return [
        {"target": target, "since": moment(pause["since"]), "by": pause["by"], "reason": pause.get("reason")}
        for target, pause in project.pauses.items()
    ]


def broadcast(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What owners tell agents."""
    return {
        "id": name,
        "text": entry["text"],
        "roles": list(entry["roles"]),
        "by": entry["by"],
        "at": moment(entry["at"]),
        "expires_at": moment(entry["until"]),
    }


def project(found: Project, now: int) -> dict[str, Any]:
    """A project, with the broadcasts that have not ended."""
    return {
        "id": found.id,
        "title": found.title,
        "settings": {**found.settings, "daily_budget": amounts(found.settings.get("daily_budget"))},
        "roles": sorted(found.roles),
        "paused": pauses(found),
        "broadcasts": [broadcast(name, entry) for name, entry in found.told(now).items()],
        "created_at": moment(found.created_at),
        "version": found.version,
        "digest": found.digest,
    }


def _tokens(tokens: Sequence[Token], now: int) -> list[dict[str, Any]]:
    return [
        {
            "id": token.id,
            "name": token.name or None,
            "created_at": moment(token.created_at),
            "expires_at": moment(token.expires_at),
            "revoked_at": moment(token.revoked_at),
            "live": token.live(now),
        }
        for token in tokens
    ]


def stop(found: Agent) -> dict[str, Any] | None:
    """That an owner has stopped the agent: since when, why, and where its jobs go."""
    return {**found.stop, "at": moment(found.stop["at"])} if found.stop else None


def agent(found: Agent, now: int) -> dict[str, Any]:
    """An agent; never a secret."""
    return {
        "id": found.id,
        "label": found.label,
        "roles": list(found.roles),
        "capabilities": list(found.capabilities),
        "tool_family": found.tool_family,
        "max_claims": found.max_claims,
        "created_at": moment(found.created_at),
        "stop": stop(found),
        "retired_at": moment(found.retired_at),
        "tokens": _tokens(found.tokens, now),
        "version": found.version,
        "digest": found.digest,
    }


def owner(found: Owner, now: int) -> dict[str, Any]:
    """An owner; never a secret."""
    return {
        "id": found.id,
        "label": found.label,
        "rights": found.rights,
        "scope": found.scope,
        "created_at": moment(found.created_at),
        "removed_at": moment(found.retired_at),
        "tokens": _tokens(found.tokens, now),
        "version": found.version,
        "digest": found.digest,
    }


def artifact(artifact_id: str, given: Mapping[str, Any], who: Actor, now: int) -> dict[str, Any]:
    """An artifact by reference, as it is stored and shown."""
    return {
        "id": artifact_id,
        "type": given["type"],
        "uri": given["uri"],
        "checksum": given.get("checksum"),
        "metadata": given.get("metadata"),
        "state": "referenced",
        "author": who.as_event(),
        "created_at": rfc3339(now),
    }


def awaited(artifact_id: str, given: Mapping[str, Any], who: Actor, now: int) -> dict[str, Any]:
    """An artifact that is to be uploaded, as it is stored and shown until it is verified."""
    reference = {**given, "uri": f"upload://{artifact_id}", "checksum": f"sha256:{given['sha256']}"}
    return {
        **artifact(artifact_id, reference, who, now),
        "state": "awaiting_upload",
        "name": given["name"],
        "size": given["size"],
        "sha256": given["sha256"],
        "expires_at": rfc3339(now + limits.UPLOAD_SECONDS * limits.SECOND),
    }


def upload(request: Upload, seconds: int) -> dict[str, Any]:
    """How to upload: the request to send, and for how long it will be taken."""
    return {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "expires_in": seconds,
    }
