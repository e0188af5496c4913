"""Schemas of answers, for OpenAPI. Values are built by app/views.py; a test validates real answers against these."""

from __future__ import annotations

from typing import Any

from interlock.domain.lifecycle import STATUSES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
ANY: Schema = {}
FREE: Schema = {"type": "object", "additionalProperties": True}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


_SUMMARY: Schema = {
    "id": TEXT, "external_id": _maybe(TEXT), "summary": TEXT, "status": {"type": "string", "enum": list(STATUSES)},
    "role": TEXT, "priority": NUMBER, "parent": _maybe(TEXT), "source": TEXT, "source_label": TEXT,
    "assignee": _maybe(TEXT), "assignee_label": _maybe(TEXT), "attempt": NUMBER, "retry_count": NUMBER, "max_retries": NUMBER,
    "created_at": TIME, "updated_at": TIME, "published_at": _maybe(TIME), "not_before": _maybe(TIME), "deadline": _maybe(TIME),
    "overdue": FLAG, "fence": NUMBER, "version": NUMBER, "digest": TEXT,
}  # fmt: skip
_JOB: Schema = {
    **_SUMMARY,
    "constraints": _list(TEXT), "context": FREE, "artifacts": _list(_ref("ArtifactShown")), "result": _maybe(_ref("ResultShown")),
    "requires": _list(TEXT), "capabilities": _list(TEXT), "lease_seconds": NUMBER, "on_expire": TEXT, "session": _maybe(TEXT),
    "lease_expires_at": _maybe(TIME), "started_at": _maybe(TIME), "blocked_at": _maybe(TIME), "unblocked_at": _maybe(TIME),
    "completed_at": _maybe(TIME), "failed_at": _maybe(TIME), "cancelled_at": _maybe(TIME),
    "blocked_reason": _maybe(TEXT), "unblock_reason": _maybe(TEXT), "failure_reason": _maybe(TEXT), "cancel_reason": _maybe(TEXT),
    "last_failure": _maybe(_object({"attempt": NUMBER, "at": TIME, "reason": TEXT, "by": TEXT})),
    "traceparent": _maybe(TEXT), "rev": NUMBER,
    "blocked_by": _list(TEXT), "upstream": _list(_ref("Upstream")), "on_upstream_failure": TEXT, "independent": FLAG,
    "routing": _list(_ref("RuleShown")), "caused_by": _maybe(_object({"upstreams": _list(TEXT), "root": TEXT})),
    "reopen_of": _maybe(TEXT), "retried_by": _maybe(TEXT), "routed_from": _maybe(TEXT),
    "decision": _maybe(TEXT), "open_decisions": _list(TEXT), "approved_by": _maybe(TEXT),
    "budget": _maybe(_ref("BudgetShown")), "usage": _ref("UsageShown"),
}  # fmt: skip
_DOWNSTREAM: Schema = {"downstream": _list(TEXT), "downstream_more": FLAG}
_LEASE: Schema = {
    "fence": NUMBER,
    "expires_at": _maybe(TIME),
    "expires_in": _maybe(NUMBER),
    "lease_seconds": NUMBER,
}
_LEASE_MORE: Schema = {"heartbeat_seconds": NUMBER, "session": TEXT}
_AMOUNTS: Schema = {
    "tokens": _maybe(NUMBER),
    "usd": _maybe({"type": "number"}),
    "seconds": _maybe({"type": "number"}),
}
_STOP: Schema = {"at": TIME, "reason": TEXT, "then": TEXT, "by": TEXT}
_CURSOR: Schema = {"next_cursor": _maybe(TEXT)}


def _page(name: str) -> Schema:
    return _object({"items": _list(_ref(name)), **_CURSOR})


def schemas() -> dict[str, Schema]:
    """Every schema of an answer, by the name that the operations table uses."""
    job, claim = {"job": _ref("Job")}, {"claim": _maybe(_ref("Lease"))}
    return {
        "Actor": _object({"kind": TEXT, "id": TEXT, "label": TEXT}, {"rights": TEXT, "scope": TEXT, "via": TEXT}),
        "Job": _object(_JOB, _DOWNSTREAM),
        "Upstream": _object({"id": TEXT, "type": TEXT, "state": {"type": "string", "enum": ["open", "satisfied", "failed", "replaced"]}}, {"replaced_by": TEXT}),
        "RuleShown": _object({
            "role": TEXT, "summary": TEXT, "on": TEXT, "when": _maybe(_object({"field": TEXT, "op": TEXT}, {"value": ANY})), "context": FREE,
            "constraints": _list(TEXT), "priority": NUMBER, "artifacts": _list(FREE), "max_retries": NUMBER,
        }),
        "UpstreamResult": _object({"id": TEXT, "summary": TEXT, "role": TEXT, "status": TEXT, "result": _maybe(_ref("ResultShown"))}, {"omitted": FLAG}),
        "Rejected": _object({"retry": _ref("Job"), "reviewer": _ref("Job"), "reason_truncated": FLAG}),
        "Rejection": _object({"reviewer": TEXT, "rejected_by": _ref("Actor"), "rejected_at": TIME, "reason": TEXT, "reason_truncated": FLAG}),
        "ReopenContext": _object({
            "retry": TEXT, "original": TEXT, "reviewer": TEXT, "rejected_by": _ref("Actor"), "rejected_at": TIME, "reason": TEXT,
            "reason_truncated": FLAG, "retry_count": NUMBER, "max_retries": NUMBER, "summary": TEXT, "constraints": _list(TEXT), "role": TEXT,
            "rejections": _list(_ref("Rejection")),
        }),
        "Graph": _object({
            "nodes": _list(_object({"id": TEXT, "summary": TEXT, "status": TEXT, "role": TEXT})),
            "edges": _list(_object({"from": TEXT, "to": TEXT, "type": TEXT})), "truncated": FLAG,
        }),
        "AttentionItem": _object(
            {"kind": {"type": "string", "enum": [
                "dead_letters", "decision", "decision_expired", "budget_spent", "blocked", "stale_holder", "failed", "retries_spent", "reopened_upstream", "nobody_can_take", "overdue",
            ]}, "detail": TEXT, "since": _maybe(TIME), "allowed": _list(TEXT)},
            {"job": TEXT, "summary": TEXT, "status": TEXT, "role": TEXT, "jobs": _list(TEXT), "decision": TEXT},
        ),
        "AttentionPage": _page("AttentionItem"),
        "PlanAnswer": {"anyOf": [
            _object({"plan": TEXT, "jobs": {"type": "object", "additionalProperties": TEXT}}),
            _object({"claimable": _list(TEXT), "pending": _list(TEXT)}),
        ]},
        "JobSummary": _object(_SUMMARY),
        "JobAnswer": _object(job),
        "JobPage": _page("JobSummary"),
        "Lease": _object(_LEASE, _LEASE_MORE),
        "ClaimAnswer": _object(
            {"job": _maybe(_ref("Job")), **claim},
            {"notices": _list(_ref("Notice")), "upstream_results": _list(_ref("UpstreamResult")), "poll_after_ms": NUMBER, "skipped": {"type": "object", "additionalProperties": NUMBER}},
        ),
        "Notice": _object({"code": TEXT, "detail": TEXT}, {
            "job": TEXT, "reason": _maybe(TEXT), "decision": TEXT, "answer": ANY, "id": TEXT, "at": TIME,
        }),
        "UsageAmounts": _object({"input_tokens": NUMBER, "output_tokens": NUMBER, "usd": {"type": "number"}, "seconds": {"type": "number"}}),
        "UsageShown": _object({
            "reported": _ref("UsageAmounts"), "metered": _object({"seconds": {"type": "number"}}), "earlier": _maybe(_ref("UsageAmounts")), "model": _maybe(TEXT),
        }),
        "BudgetShown": _object({**_AMOUNTS, "count": {"type": "string", "enum": ["metered", "reported"]}, "spent": FLAG}),
        "DailyBudgetShown": _object(_AMOUNTS),
        "DecisionShown": _object({
            "id": TEXT, "job": TEXT, "kind": {"type": "string", "enum": ["question", "approval", "review", "gate"]},
            "cause": {"type": "string", "enum": ["asked", "budget", "lapse"]}, "state": {"type": "string", "enum": ["open", "answered", "withdrawn", "expired"]},
            "subject": _object({"job": TEXT, "rev": NUMBER}), "current": FLAG, "wait": FLAG, "prompt": TEXT, "blocker": _maybe(TEXT), "risk": _maybe(TEXT),
            "options": _maybe(_list(TEXT)), "schema": ANY, "roles": _list(TEXT), "asked_by": _ref("Actor"), "asked_at": TIME, "expires_at": _maybe(TIME),
            "expires_in": _maybe(NUMBER), "answer": ANY, "note": _maybe(TEXT), "findings": _list(_ref("FindingShown")), "segment": _maybe(NUMBER), "data": ANY,
            "answered_by": _maybe(_ref("Actor")), "answered_at": _maybe(TIME), "closed_by": _maybe(_ref("Actor")), "closed_at": _maybe(TIME),
        }),
        "FindingShown": _object({"file": _maybe(TEXT), "line": _maybe(NUMBER), "kind": TEXT, "description": TEXT, "fix": _maybe(TEXT)}),
        "DecisionAnswer": _object({"decision": _ref("DecisionShown")}),
        "DecisionSettled": _object({"decision": _ref("DecisionShown"), "job": _ref("Job")}),
        "DecisionPage": _page("DecisionShown"),
        "BroadcastShown": _object({"id": TEXT, "text": TEXT, "roles": _list(TEXT), "by": TEXT, "at": TIME, "expires_at": TIME}),
        "BroadcastAnswer": _object({"broadcast": _ref("BroadcastShown")}),
        "WorkerShown": _object({
            "agent": TEXT, "label": TEXT, "roles": _list(TEXT), "state": {"type": "string", "enum": ["idle", "working", "stale", "paused"]},
            "last_seen": _maybe(TIME), "seconds_since_seen": _maybe(NUMBER), "session": _maybe(TEXT), "beats_missed": NUMBER,
            "holds": _list(_object({"job": TEXT, "summary": TEXT, "role": TEXT, "status": TEXT, "fence": NUMBER, "expires_in": _maybe(NUMBER)})), "holds_more": FLAG,
            "stale_since": _maybe(TIME), "stop": _maybe(_object(_STOP)),
        }),
        "WorkerPage": _page("WorkerShown"),
        "HeartbeatClaim": _object(
            {"job": TEXT, "fence": _maybe(NUMBER), "expires_in": _maybe(NUMBER)},
            {"status": TEXT, "stop": _object({"code": TEXT, "detail": TEXT}), "decision": TEXT},
        ),
        "HeartbeatAnswer": _object({"claims": _list(_ref("HeartbeatClaim")), "notices": _list(_ref("Notice")), **_CURSOR}),
        "ResultShown": _object({"summary": _maybe(TEXT), "data": ANY, "artifacts": _list(TEXT)}),
        "ArtifactShown": _object({
            "id": TEXT, "type": TEXT, "uri": TEXT, "checksum": _maybe(TEXT), "metadata": _maybe(FREE),
            "state": {"type": "string", "enum": ["referenced", "awaiting_upload", "verified", "altered"]},
            "author": _ref("Actor"), "created_at": TIME,
        }, {"name": TEXT, "size": NUMBER, "sha256": TEXT, "expires_at": TIME, "verified_at": TIME}),
        "ArtifactAnswer": _object({"artifact": _ref("ArtifactShown")}),
        "ArtifactAttached": _object({"artifact": _ref("ArtifactShown")}, {"upload": _object({
            "method": TEXT, "url": TEXT, "headers": {"type": "object", "additionalProperties": TEXT}, "expires_in": NUMBER,
        })}),
        "ArtifactRead": _object({"artifact": _ref("ArtifactShown")}, {"download": _object({"url": TEXT, "expires_in": NUMBER})}),
        "Event": _object({
            "seq": NUMBER, "at": TIME, "type": TEXT, "entity": TEXT, "actor": _ref("Actor"), "from": _maybe(TEXT),
            "to": _maybe(TEXT), "data": FREE, "prev": TEXT, "digest": TEXT,
        }),
        "EventAnswer": _object({
            "event": _maybe(_object({"seq": NUMBER, "type": TEXT, "digest": TEXT})),
            "job": _object({"id": TEXT, "status": TEXT, "version": NUMBER}),
        }),
        "Timeline": _object({"items": _list(_ref("Event")), **_CURSOR, "version": NUMBER, "digest": TEXT}, {"incomplete": FLAG}),
        "Feed": _object({"items": _list(_ref("Event")), "next_cursor": TEXT, "more": FLAG}),
        "Explanation": _object({
            "claimable": FLAG, "as": _maybe(TEXT), "reasons": _list(_object({"code": TEXT, "detail": TEXT}, {"until": TIME})),
        }),
        "RoleShown": _object({
            "key": TEXT, "label": TEXT, "lease_seconds": _maybe(NUMBER), "on_expire": _maybe(TEXT), "capabilities": _list(TEXT),
            "independent": FLAG, "max_claims": _maybe(NUMBER), "daily_budget": _maybe(_ref("DailyBudgetShown")), "created_at": TIME,
        }),
        "RoleAnswer": _object({"role": _ref("RoleShown")}),
        "RolePage": _page("RoleShown"),
        "TokenShown": _object({
            "id": TEXT, "name": _maybe(TEXT), "created_at": TIME, "expires_at": _maybe(TIME), "revoked_at": _maybe(TIME), "live": FLAG,
        }),
        "AgentShown": _object({
            "id": TEXT, "label": TEXT, "roles": _list(TEXT), "capabilities": _list(TEXT), "tool_family": _maybe(TEXT), "max_claims": _maybe(NUMBER), "created_at": TIME,
            "stop": _maybe(_object(_STOP)), "retired_at": _maybe(TIME), "tokens": _list(_ref("TokenShown")), "version": NUMBER, "digest": TEXT,
        }),
        "AgentAnswer": _object({"agent": _ref("AgentShown")}),
        "AgentCreated": _object({"agent": _ref("AgentShown")}, {"token": TEXT, "hint": TEXT}),
        "AgentPage": _page("AgentShown"),
        "OwnerShown": _object({
            "id": TEXT, "label": TEXT, "rights": TEXT, "scope": TEXT, "created_at": TIME, "removed_at": _maybe(TIME),
            "tokens": _list(_ref("TokenShown")), "version": NUMBER, "digest": TEXT,
        }),
        "OwnerAnswer": _object({"owner": _ref("OwnerShown")}),
        "OwnerCreated": _object({"owner": _ref("OwnerShown")}, {"token": TEXT, "hint": TEXT}),
        "OwnerPage": _page("OwnerShown"),
        "TokenCreated": _object({"id": TEXT}, {"token": TEXT, "hint": TEXT}),
        "TokenRevoked": _object({"id": TEXT, "revoked": FLAG}),
        "PauseShown": _object({"target": TEXT, "since": TIME, "by": TEXT, "reason": _maybe(TEXT)}),
        "Paused": _object({"paused": _list(_ref("PauseShown"))}),
        "ProjectShown": _object({
            "id": TEXT, "title": TEXT, "settings": FREE, "roles": _list(TEXT), "paused": _list(_ref("PauseShown")), "broadcasts": _list(_ref("BroadcastShown")), "created_at": TIME,
            "version": NUMBER, "digest": TEXT,
        }),
        "ProjectAnswer": _object({"project": _ref("ProjectShown")}),
        "ProjectPage": _page("ProjectShown"),
        "HeldClaim": _object({"job": TEXT, "summary": TEXT, "role": TEXT, "status": TEXT, **_LEASE}, _LEASE_MORE),
        "Me": _object({
            "actor": _ref("Actor"), "roles": _list(TEXT), "capabilities": _list(TEXT), "project": TEXT, "claims": _list(_ref("HeldClaim")),
            "notices": _list(_ref("Notice")), **_CURSOR,
        }),
        "Counted": _object({"count": NUMBER, "more": FLAG}, {"oldest_age_seconds": _maybe(NUMBER)}),
        "Stats": _object({
            "stats": _object({
                "published": {"type": "object", "additionalProperties": _ref("Counted")}, "pending": _ref("Counted"),
                "in_progress": _ref("Counted"), "blocked": _ref("Counted"), "unblocked": _ref("Counted"), "failed": _ref("Counted"),
            }),
            "counted_up_to": NUMBER,
        }),
        "Repaired": _object({"repaired": TEXT}),
        "DeadLetters": _object({"queues": {"type": "object", "additionalProperties": NUMBER}, "total": NUMBER}),
        "Redriven": _object({"queue": TEXT, "redriven": NUMBER, "failed": NUMBER}),
        "Health": _object({"status": TEXT, "version": TEXT}),
        "Document": FREE,
        "Problem": {
            "type": "object",
            "description": "An error, after RFC 9457. `code` is stable; further members give facts of the case.",
            "properties": {
                "type": TEXT, "title": TEXT, "status": NUMBER, "code": TEXT, "detail": TEXT, "hint": TEXT, "retryable": FLAG,
                "errors": _list(_object({"path": TEXT, "message": TEXT})), "request_id": TEXT,
            },
            "required": ["type", "title", "status", "code", "detail", "hint", "retryable", "errors", "request_id"],
            "additionalProperties": True,
        },
    }  # fmt: skip
