"""A job's head as a value, and what a change of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.domain import limits
from interlock.domain.ledger import GENESIS, Fact
from interlock.domain.lifecycle import BLOCKED, CASCADED, FAILED, HELD, IN_PROGRESS, LEASED, PENDING

PRIORITIES: Mapping[str, int] = {"low": 10, "normal": 20, "high": 30, "urgent": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The head of a job. Times are ms since 1970; None where something has not happened or was not asked for.

    ``context``, ``result_ref`` name staged documents by their content hash ("" = the one in BODY).
    ``later_artifacts`` counts artifacts attached after creation. ``*_hop`` number the timer chains that count.
    ``stopped_fence`` is the fence that an owner's stop or cancel ended. ``upstreams`` counts the jobs that
    ``blocked_by`` named at creation, ``links`` those that were added or replaced since. ``cascade`` says which
    upstream ended the job, and which job was the root of that. ``past`` are earlier holders; ``excluded`` those
    who may not claim an ``independent`` job (filled in when it is published). ``routing`` are the endings that the
    job has rules for, ``unrouted`` those that came and whose jobs are still to be made: the number of the event
    (as text), and the status that it brought. ``begun`` says when a review sent the job back, and which others had
    begun by then on what came of it. ``archived`` says when the job went to the archive, and under which name.

    ``asked`` are the open decisions: id → the roles that may answer it and until when. ``decision`` is the one that the
    job was blocked by, ``answered`` the latest that were answered under this claim, ``moot`` those that the bus has
    still to close. ``approved`` says which decision approved which ``rev``. ``budget`` and ``usage`` are those of
    usage.py; ``metered`` counts the ms in progress before now, ``running`` is when the present stretch began,
    where that is not ``started_at``; ``reports`` counts reports of usage, so that of two at
    once none is lost; ``spent`` marks a job that is beyond its budget, for the index.
    """

    id: str
    project: str
    status: str
    role: str
    summary: str
    priority: int
    source: str
    source_label: str
    created_at: int
    updated_at: int
    max_retries: int = limits.DEFAULT_RETRIES
    retry_count: int = 0
    lease_seconds: int = limits.DEFAULT_LEASE_SECONDS
    on_expire: str = "publish"
    external_id: str | None = None
    parent: str | None = None
    on_upstream_failure: str = "match"
    independent: bool = False
    routing: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    not_before: int | None = None
    deadline: int | None = None
    trace: str | None = None
    budget: Mapping[str, Any] | None = None
    # links
    upstreams: int = 0
    links: int = 0
    cascade: Mapping[str, str] | None = None
    reopen_of: str | None = None
    retry: str | None = None
    routed_from: str | None = None
    unrouted: Mapping[str, str] | None = None
    begun: Mapping[str, Any] | None = None
    archived: Mapping[str, Any] | None = None
    # holding
    fence: int = 0
    assignee: str | None = None
    assignee_label: str | None = None
    session: str | None = None
    claim_lease: int | None = None
    heartbeat_seconds: int | None = None
    lease_until: int | None = None
    lease_first: int | None = None
    claim_key: bytes | None = None
    stopped_fence: int | None = None
    running: int | None = None
    past: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    # decisions and what was used
    decision: str | None = None
    asked: Mapping[str, Mapping[str, Any]] | None = None
    answered: tuple[str, ...] = ()
    moot: tuple[str, ...] = ()
    approved: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    metered: int = 0
    reports: int = 0
    spent: bool | None = None
    # history that the present needs
    published_at: int | None = None
    started_at: int | None = None
    blocked_at: int | None = None
    unblocked_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    cancelled_at: int | None = None
    blocked_reason: str | None = None
    unblock_reason: str | None = None
    failure_reason: str | None = None
    cancel_reason: str | None = None
    last_failure: Mapping[str, Any] | None = None
    overdue: int | None = None
    # documents
    context: str = ""
    result: bytes | None = None
    result_ref: str | None = None
    artifacts: int = 0
    later_artifacts: int = 0
    # chain and timers
    version: int = 0
    rev: int = 0
    digest: str = GENESIS
    ops: tuple[bytes, ...] = ()
    lease_hop: int | None = None
    deadline_hop: int | None = None
    start_hop: int | None = None

    @property
    def entity(self) -> str:
        """How the ledger names the job."""
        return f"job/{self.id}"

    @property
    def stage(self) -> str:
        """Where the job stands in the transition table: its status, or failed by cascade."""
        return CASCADED if self.status == FAILED and self.cascade else self.status

    @property
    def waits(self) -> bool:
        """Whether the barrier decides what becomes of the job."""
        return self.status == PENDING or (self.stage == CASCADED and self.archived is None)

    @property
    def waits_for_decision(self) -> bool:
        """Whether an open decision blocks the job."""
        return self.status == BLOCKED and self.decision is not None and self.decision in (self.asked or {})

    @property
    def workers(self) -> tuple[str, ...]:
        """Every agent that held the job, the latest one included."""
        return (
            self.past if self.assignee is None or self.assignee in self.past else (*self.past, self.assignee)
        )

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.retry_count + 1

    @property
    def claim_seconds(self) -> int:
        """How long a lease of the claim lasts: as the claim asked for, else three of its beats, else as the job says."""
        beats = self.heartbeat_seconds * limits.BEATS_PER_LEASE if self.heartbeat_seconds else None
        return self.claim_lease or beats or self.lease_seconds

    def held_by(self, agent: str) -> bool:
        """Whether this agent holds the job."""
        return self.status in HELD and self.assignee == agent

    def running_lease(self) -> int:
        """Seconds that a renewal grants now: the claim's own lease while in progress, else the resume window."""
        return self.claim_seconds if self.status == IN_PROGRESS else self.lease_seconds

    def lapsed(self, now: int, grace: int = limits.SKEW) -> bool:
        """Whether a lease runs and has been over for more than ``grace`` ms."""
        return self.status in LEASED and self.lease_until is not None and self.lease_until + grace < now

    def renewal_due(self, now: int) -> bool:
        """Whether more than a third of the running lease is used up (a renewal is written only then)."""
        if self.status not in LEASED or self.lease_until is None:
            return False
        return self.lease_until - now < self.running_lease() * limits.SECOND * 2 // 3


@dataclass(frozen=True, slots=True)
class Change:
    """What a decision does to a head: attributes to set (None removes) and the facts to record.

    ``work`` says that the work itself changed (``rev`` moves): any status but block, unblock and resume, or
    text, context, artifacts, result.
    """

    set: Mapping[str, Any]
    facts: tuple[Fact, ...]
    work: bool = True
    remembers: bool = field(default=True)
    """Whether the call's idempotency digest is kept on the head."""
