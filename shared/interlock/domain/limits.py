"""Every limit, with its unit. A limit that a caller can meet is named in the error and in docs/limits.md."""

from __future__ import annotations

SECOND = 1_000
"""Milliseconds; all times inside the bus are integers of milliseconds since 1970."""
HOUR = 3_600 * SECOND
DAY = 24 * HOUR

BODY_BYTES = 1_000_000
JSON_DEPTH = 64
INTEGER_DIGITS = 1_000
KEY_CHARACTERS = 255
QUERY_PARAMETERS = 200
CURSOR_CHARACTERS = 500
ERRORS_NAMED = 100
"""Wrong fields that one answer names; the rest is counted."""
QUOTED_CHARACTERS = 200
"""How much of a caller's own text an error repeats."""

SUMMARY_CHARACTERS = 200
LABEL_CHARACTERS = 100
ROLE_CHARACTERS = 40
"""Of role keys and project ids."""
ID_CHARACTERS = 80
EXTERNAL_ID_CHARACTERS = 100
CONSTRAINTS = 50
CONSTRAINT_CHARACTERS = 1_000
REASON_CHARACTERS = 2_000
CAPABILITIES = 50
CAPABILITY_CHARACTERS = 100
REQUIRES = 20
ARTIFACTS = 100
ARTIFACTS_PER_CALL = 50
"""A call's artifacts and the head share one transaction of ≤ 100 parts."""
ARTIFACT_TYPE_CHARACTERS = 100
URI_CHARACTERS = 2_000
CHECKSUM_CHARACTERS = 200
METADATA_BYTES = 4 * 1024
CONTEXT_BYTES = 256 * 1024
PARTS_BYTES = 64 * 1024
"""Constraints, routing and artifacts of a job together."""
RESULT_BYTES = 64 * 1024
EVENT_DATA_BYTES = 64 * 1024
INLINE_BYTES = 256
"""Event data and results up to this size travel in the head; larger ones are items of their own."""
BLOB_BYTES = 32 * 1024
"""Compressed documents above this size are blobs."""

UPSTREAMS = 1_000
"""Jobs that one job can wait for."""
LINK_WALK = 2_000
"""Jobs that the search for a cycle looks at before it refuses a link."""
PLAN_JOBS = 200
PLAN_LINKS = 5_000
"""Entries of all `blocked_by` of a plan."""
PLAN_EXTERNAL_IDS = 40
"""External ids of a plan are taken in the one transaction (of ≤ 100 parts) that makes the plan real."""
REF_CHARACTERS = 80
RULES = 10
GUARD_FIELD_CHARACTERS = 200
GUARD_VALUE_BYTES = 4 * 1024
REJECTION_SENT_CHARACTERS = 20_000
REJECTION_CHARACTERS = 2_000
"""A longer rejection reason is cut here, and the answer says so."""
GRAPH_DEPTH = (1, 50)
DEFAULT_GRAPH_DEPTH = 5
GRAPH_NODES = 1_000
NEIGHBOURS = 100
"""Downstream jobs that `GET job` names."""
UPSTREAM_RESULTS = 20
UPSTREAM_RESULTS_BYTES = 256 * 1024
"""Results of upstream jobs that a claim's answer carries; what is beyond is named and marked `omitted`."""
UPLOAD_SECONDS = 900
"""How long the address of an upload takes it; what has begun by then may end later."""
UPLOAD_BYTES = 5 * 1024**3
"""What S3 takes in one PUT."""
VERIFY_SECONDS = 86_400
"""How long after that an upload can still be verified: a large one takes its time."""
UNVERIFIED_DAYS = 7
"""After so many days an upload that nobody verified goes away; far more than it can be verified for."""
DOWNLOAD_SECONDS = 300
FILE_NAME_CHARACTERS = 255
RETENTION_DAYS = (1, 3_650)
ARCHIVE_GRACE = 15 * DAY
"""How long the items of an archived job stay: longer than a dead letter, or what a plan was to be, still names it."""

DECISIONS = 10
"""Decisions of one job that may be open at once."""
DECISION_ROLES = 10
PROMPT_CHARACTERS = 4_000
"""Of a decision's prompt, its blocker, its risk, an answer in words, and a note."""
OPTIONS = 20
OPTION_CHARACTERS = 200
SCHEMA_BYTES = 8 * 1024
SCHEMA_STEPS = 100_000
"""Of one check whether an answer fits a schema: at most about 0.2 s of one core."""
ANSWER_BYTES = 16 * 1024
FINDINGS = 100
FINDINGS_BYTES = 64 * 1024
FINDING_CHARACTERS = 2_000
DECISION_SECONDS = (1, 30 * 86_400)
DECISIONS_PAGE_BYTES = 1_500_000
"""Of the decisions on one page, so that an answer, in ASCII, stays below what Lambda may send (6 MB)."""
ANSWERS_REMEMBERED = 8
"""Latest answers that a claim's holder is told of."""

ANSWERS_TOLD = 20
"""Notices of one answer that are about decisions."""

CLAIM_CAP = (1, 200)
"""Of `max_claims`: as many slots may be looked at by one claim."""
USAGE_TOKENS = 10**12
USAGE_USD = 10**6
USAGE_SECONDS = 10**8
BROADCASTS = 5
"""Live broadcasts of a project; they sit in the item that every claim reads."""
BROADCAST_CHARACTERS = 500
BROADCAST_SECONDS = (60, 7 * 86_400)
DEFAULT_BROADCAST_SECONDS = 86_400
SEEN_EVERY = 10 * SECOND
"""How much older what is known of an agent's last sign of life must be before a heartbeat writes it again."""
SEEN_IDLE = 60 * SECOND
"""The same for a claim-next that finds nothing."""

MAX_RETRIES = 20
DEFAULT_RETRIES = 3
LEASE_SECONDS = (30, 86_400)
DEFAULT_LEASE_SECONDS = 1_800
HEARTBEAT_SECONDS = (1, 28_800)
BEATS_PER_LEASE = 3
"""A lease that is kept by heartbeats lasts this many of them (30 s beats: 90 s of silence is stale)."""
SKEW = 2 * SECOND
"""How far a lease may be past before anybody else may act on it."""
LATE = 5 * SECOND
"""How far a lease must be past before claim-next ends it in passing."""
TIMER_HOP_SECONDS = 900
"""The longest delay of a queue message."""
TIMER_SLACK = 3 * SECOND
"""A lease timer fires this long after the lease ends, so that it finds it past the skew."""
LAST_CALL = 30 * SECOND
"""A call that was let in before its caller was retired has ended by then (API Gateway gives up after 30 s)."""

PROJECT_ROLES = 100
AGENT_ROLES = 50
LIVE_TOKENS = 10
DEAD_TOKENS = 10
"""Ended tokens that an identity remembers, so that their holders learn why they are refused."""
TOKEN_SECONDS = (1, 10 * 365 * 86_400)
GRACE_SECONDS = (0, 30 * 86_400)
PROJECT_PAUSES = 200
CONTROL_BYTES = 64 * 1024
"""A project's roles, and its pauses, compressed: they sit in one item, which every claim reads."""
OPERATIONS_REMEMBERED = 8
PAGE = (1, 100)
DEFAULT_PAGE = 50
FEED_PAGE = (1, 1_000)
DEFAULT_FEED_PAGE = 100
CLAIMS_PAGE = 100
MEMORY_OF_CALLS = 7 * DAY
"""How long a claim-next call with an Idempotency-Key is remembered."""
COUNTED = 1_000
"""Counting stops here and says `more`."""
LARGE_EVENTS_PAGE = 20
"""Events with data above INLINE_BYTES that one page shows, so that an answer stays below what Lambda may send."""
