"""What each limit of interlock.domain.limits means and how the bus answers beyond it, for docs/limits.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """``name`` is the limit in domain/limits.py; ``code`` the error beyond it, ``instead`` a remark (or, without a
    code, what happens instead of a refusal)."""

    name: str
    what: str
    unit: str = ""
    code: str | None = "invalid"
    instead: str = ""


SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "Requests",
        (
            Row("BODY_BYTES", "A body", "bytes", "too_large"),
            Row("JSON_DEPTH", "Nesting of a body", "levels", "malformed_json"),
            Row("INTEGER_DIGITS", "An integer; other numbers are IEEE doubles", "digits", "malformed_json"),
            Row("KEY_CHARACTERS", "`Idempotency-Key`, printable ASCII", "characters", "malformed_request"),
            Row("QUERY_PARAMETERS", "Parameters of a query", code="malformed_request"),
            Row("CURSOR_CHARACTERS", "A cursor", "characters"),
            Row(
                "ID_CHARACTERS",
                "An id in a body or a path",
                "characters",
                instead="404 `not_found` in a path",
            ),
        ),
    ),
    (
        "Jobs",
        (
            Row("SUMMARY_CHARACTERS", "`summary`", "characters"),
            Row("EXTERNAL_ID_CHARACTERS", "`external_id`", "characters"),
            Row("CONSTRAINTS", "`constraints`"),
            Row("CONSTRAINT_CHARACTERS", "One constraint", "characters"),
            Row("CONTEXT_BYTES", "`context`", "bytes", "too_large"),
            Row(
                "PARTS_BYTES", "Constraints, routing and artifacts of one job together", "bytes", "too_large"
            ),
            Row("CAPABILITIES", "`capabilities`"),
            Row("CAPABILITY_CHARACTERS", "One capability", "characters"),
            Row("REQUIRES", "`requires`, artifact types"),
            Row("MAX_RETRIES", "`max_retries`"),
            Row("DEFAULT_RETRIES", "`max_retries` when it is not sent", code=None),
            Row("LEASE_SECONDS", "`lease_seconds`", "seconds"),
            Row(
                "DEFAULT_LEASE_SECONDS",
                "`lease_seconds` when neither job, role nor project names one",
                "seconds",
                None,
            ),
            Row("HEARTBEAT_SECONDS", "`heartbeat_seconds` of a claim", "seconds"),
            Row("REASON_CHARACTERS", "A reason, and `result.summary`", "characters"),
            Row("RESULT_BYTES", "`result.data`", "bytes", "too_large"),
            Row("EVENT_DATA_BYTES", "`data` of fail, block and custom events", "bytes", "too_large"),
        ),
    ),
    (
        "Links, plans and reviews",
        (
            Row(
                "UPSTREAMS",
                "Jobs that a job waits for",
                code="limit_reached",
                instead="422 `invalid` at creation",
            ),
            Row(
                "LINK_WALK",
                "Jobs that the search for a circle looks at when a link is added",
                code="limit_reached",
            ),
            Row("PLAN_JOBS", "Jobs of a plan"),
            Row("PLAN_LINKS", "All entries of `blocked_by` of a plan", code="limit_reached"),
            Row("PLAN_EXTERNAL_IDS", "Jobs of a plan that carry an `external_id`", code="limit_reached"),
            Row("REF_CHARACTERS", "`ref` of a job in a plan", "characters"),
            Row("RULES", "Rules of `routing`"),
            Row("GUARD_FIELD_CHARACTERS", "`field` of a guard", "characters"),
            Row("GUARD_VALUE_BYTES", "`value` of a guard", "bytes", "too_large"),
            Row("REJECTION_SENT_CHARACTERS", "`reason` of a rejection, as it is sent", "characters"),
            Row(
                "REJECTION_CHARACTERS",
                "`reason` of a rejection, as it is kept",
                "characters",
                None,
                "it is cut, and `reason_truncated` is true",
            ),
            Row("GRAPH_DEPTH", "`depth` of a graph", "links"),
            Row("DEFAULT_GRAPH_DEPTH", "`depth` of a graph when it is not sent", "links", None),
            Row("GRAPH_NODES", "Jobs of a graph", code=None, instead="`truncated` is true"),
            Row("NEIGHBOURS", "`downstream` of a job", code=None, instead="`downstream_more` is true"),
            Row(
                "UPSTREAM_RESULTS",
                "`upstream_results` of a claim that carry their result",
                code=None,
                instead="further ones are named, with `omitted`",
            ),
            Row(
                "UPSTREAM_RESULTS_BYTES",
                "These results together",
                "bytes",
                None,
                "further ones are named, with `omitted`",
            ),
        ),
    ),
    (
        "Decisions",
        (
            Row("DECISIONS", "Open decisions of a job", code="limit_reached"),
            Row("DECISION_ROLES", "`roles` of a decision"),
            Row(
                "PROMPT_CHARACTERS",
                "`prompt`, `blocker`, `risk`, `note`, an answer in words",
                "characters",
            ),
            Row("OPTIONS", "`options`"),
            Row("OPTION_CHARACTERS", "One option", "characters"),
            Row("SCHEMA_BYTES", "`schema`", "bytes", "too_large"),
            Row("SCHEMA_STEPS", "Steps of a check whether an answer fits a `schema`", "steps"),
            Row("ANSWER_BYTES", "`answer`, and `data` of an answer", "bytes", "too_large"),
            Row("FINDINGS", "`findings`"),
            Row("FINDINGS_BYTES", "`findings` together", "bytes", "too_large"),
            Row("FINDING_CHARACTERS", "Each text of a finding", "characters"),
            Row("DECISION_SECONDS", "`expires_in` of a decision", "seconds"),
            Row(
                "ANSWERS_TOLD",
                "Notices about decisions in one answer",
                code=None,
                instead="the list of decisions has them all",
            ),
        ),
    ),
    (
        "Budgets and broadcasts",
        (
            Row("USAGE_TOKENS", "Tokens of a report or a budget", "tokens"),
            Row("USAGE_USD", "`usd` of a report or a budget", "dollars"),
            Row("USAGE_SECONDS", "`seconds` of a report or a budget", "seconds"),
            Row("BROADCASTS", "Live broadcasts of a project", code="limit_reached"),
            Row("BROADCAST_CHARACTERS", "`text` of a broadcast", "characters"),
            Row("BROADCAST_SECONDS", "`expires_in` of a broadcast", "seconds"),
            Row(
                "DEFAULT_BROADCAST_SECONDS",
                "`expires_in` of a broadcast when it is not sent",
                "seconds",
                None,
            ),
        ),
    ),
    (
        "Artifacts",
        (
            Row("ARTIFACTS", "Artifacts of a job", code="limit_reached", instead="422 `invalid` at creation"),
            Row("ARTIFACTS_PER_CALL", "Artifacts of a result"),
            Row("ARTIFACT_TYPE_CHARACTERS", "`type`", "characters"),
            Row("URI_CHARACTERS", "`uri`", "characters"),
            Row("CHECKSUM_CHARACTERS", "`checksum`", "characters"),
            Row("METADATA_BYTES", "`metadata`", "bytes", "too_large"),
            Row("UPLOAD_BYTES", "`size` of an upload", "bytes"),
            Row("FILE_NAME_CHARACTERS", "`name` of an upload", "characters"),
            Row(
                "UPLOAD_SECONDS",
                "How long the address of an upload takes it",
                "seconds",
                None,
                "the address is refused; attach again",
            ),
            Row("VERIFY_SECONDS", "How long after that an upload can be verified", "seconds", "wrong_state"),
            Row(
                "DOWNLOAD_SECONDS",
                "How long the address of a download works",
                "seconds",
                None,
                "read the artifact again",
            ),
        ),
    ),
    (
        "Projects, roles, agents, owners, tokens",
        (
            Row("ROLE_CHARACTERS", "A role's key, a project's id", "characters"),
            Row("LABEL_CHARACTERS", "Labels, titles, names, sessions, custom event types", "characters"),
            Row("RETENTION_DAYS", "`retention_days` of a project", "days"),
            Row("PROJECT_ROLES", "Roles of a project", code="limit_reached"),
            Row("PROJECT_PAUSES", "Pauses of a project", code="limit_reached"),
            Row(
                "CONTROL_BYTES",
                "All roles of a project, and all its pauses, compressed",
                "bytes",
                "limit_reached",
            ),
            Row("AGENT_ROLES", "Roles of an agent, or of one claim-next"),
            Row("CLAIM_CAP", "`max_claims` of an agent, a role, a project: claims that may live at once"),
            Row(
                "LIVE_TOKENS",
                "Live tokens of an agent or owner; a rotation may pass it by one",
                "",
                "limit_reached",
            ),
            Row("TOKEN_SECONDS", "`expires_in` of a token", "seconds"),
            Row("GRACE_SECONDS", "`grace_seconds` of a rotation", "seconds"),
        ),
    ),
    (
        "Lists",
        (
            Row("PAGE", "`limit` of a list"),
            Row("DEFAULT_PAGE", "`limit` of a list when it is not sent", code=None),
            Row("FEED_PAGE", "`limit` and `last` of events"),
            Row("DEFAULT_FEED_PAGE", "`limit` of events when it is not sent", code=None),
            Row(
                "LARGE_EVENTS_PAGE",
                "Events with large data on one page of events",
                code=None,
                instead="the page is shorter and carries a cursor",
            ),
            Row(
                "DECISIONS_PAGE_BYTES",
                "Decisions on one page together",
                "bytes",
                None,
                "the page is shorter and carries a cursor",
            ),
            Row(
                "CLAIMS_PAGE",
                "Claims in one answer of `me` and heartbeat",
                code=None,
                instead="`next_cursor` goes on",
            ),
            Row("COUNTED", "What stats counts", code=None, instead="`more` is true"),
            Row(
                "ERRORS_NAMED",
                "Wrong fields that one error names",
                code=None,
                instead="`detail` says how many more there are",
            ),
        ),
    ),
)

INTERNAL: Mapping[str, tuple[str, str]] = {
    "BEATS_PER_LEASE": ("A lease that is kept by heartbeats lasts", "beats"),
    "SKEW": ("A lease must be past by so much before another may take the job", "whole seconds"),
    "LATE": ("A lease must be past by so much before claim-next ends it in passing", "whole seconds"),
    "TIMER_SLACK": ("A lease timer fires so long after the lease's end", "whole seconds"),
    "TIMER_HOP_SECONDS": ("Longest delay of one timer message; later times take several", "seconds"),
    "LAST_CALL": ("A retired agent's hands are emptied once more after", "whole seconds"),
    "OPERATIONS_REMEMBERED": ("Latest calls that an object remembers, for repeats by key", "calls"),
    "MEMORY_OF_CALLS": (
        "A claim-next with an Idempotency-Key that took a job is remembered for",
        "whole days",
    ),
    "ARCHIVE_GRACE": ("The items of an archived job stay, seen by nobody, for", "whole days"),
    "UNVERIFIED_DAYS": ("An upload that nobody verified goes away after", "days"),
    "ANSWERS_REMEMBERED": ("Latest closed decisions that the holder of a claim is told of", "decisions"),
    "SEEN_EVERY": ("An agent's sign of life is written again by a heartbeat after", "whole seconds"),
    "SEEN_IDLE": ("The same by a claim-next that finds nothing", "whole seconds"),
    "DEAD_TOKENS": (
        "Ended tokens that an identity remembers, so that their holders learn why they are refused",
        "tokens",
    ),
    "INLINE_BYTES": ("Event data and results up to this size travel in the head", "bytes"),
    "BLOB_BYTES": ("Compressed documents above this size are stored as blobs", "bytes"),
    "QUOTED_CHARACTERS": ("How much of a caller's own text an error repeats", "characters"),
}
"""Names in domain/limits.py that no caller runs into: (meaning, unit)."""

UNITS = frozenset({"SECOND", "HOUR", "DAY"})
"""Names in domain/limits.py that are units."""
