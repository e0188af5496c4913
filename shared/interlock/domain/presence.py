"""Presence: what is known of an agent's being there, from its signs of life and from what it holds.

It is an entity of its own beside the agent, so that what handles jobs can write it and still no credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.domain import limits
from interlock.domain.identity import Agent, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import COMPLETED, FAILED, LEASED, UNBLOCKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Whether an agent (``id``) is missed: ``stale_at`` is when a lease of it ended without a later sign of life. It is
    made when that happens for the first time."""

    id: str
    project: str
    created_at: int
    stale_at: int | None = None
    version: int = 0
    digest: str = ""
    ops: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """The latest sign of life of an agent that was written down: when (ms), and the session's label."""

    at: int
    session: str | None = None


IDLE, WORKING, STALE, PAUSED = "idle", "working", "stale", "paused"


def renewed_at(job: Job) -> int | None:
    """When the running lease of a job was last renewed (ms); None where none runs."""
    if job.status not in LEASED or job.lease_until is None:
        return None
    return job.lease_until - job.running_lease() * limits.SECOND


def shown_by(job: Job, now: int) -> int | None:
    """When a claim last says that its holder was there (ms): when it was made, renewed, or ended by it; None without
    one. The lease that begins as somebody else unblocks the job says nothing, and one that was moved on as the bus had
    slept says no more than now."""
    if job.status in (COMPLETED, FAILED):
        signs = [job.started_at, job.completed_at, job.failed_at]
    elif job.status == UNBLOCKED and (renewed_at(job) or 0) <= (job.unblocked_at or 0):
        signs = [job.started_at]
    else:
        signs = [job.started_at, renewed_at(job)]
    latest = max((at for at in signs if at is not None), default=None)
    return None if latest is None else min(latest, now)


def last_seen(sign: Sign | None, held: Sequence[Job], now: int) -> int | None:
    """An agent's latest sign of life (ms): what was written down, and what its claims and leases say."""
    signs = [sign.at if sign else None, *(shown_by(job, now) for job in held)]
    return max((at for at in signs if at is not None), default=None)


def session(sign: Sign | None, held: Sequence[Job], now: int) -> str | None:
    """The label of the session that gave the latest sign of life, where it has one."""
    latest = max(held, key=lambda job: shown_by(job, now) or 0, default=None)
    if latest is not None and latest.session and (sign is None or (shown_by(latest, now) or 0) >= sign.at):
        return latest.session
    return sign.session if sign else None


def beats_missed(held: Sequence[Job], now: int) -> int:
    """The most beats in a row that a job of the agent, claimed with beats, has been without."""
    missed = [
        max(0, now - at) // (job.heartbeat_seconds * limits.SECOND)
        for job in held
        if job.heartbeat_seconds and (at := renewed_at(job)) is not None
    ]
    return max(missed, default=0)


def stale_since(known: Presence | None, last: int | None) -> int | None:
    """Since when the agent is missed (ms); None when it is not, or has given a sign of life since."""
    if known is None or known.stale_at is None or (last is not None and last >= known.stale_at):
        return None
    return known.stale_at


def state(agent: Agent, project: Project, held: Sequence[Job], now: int, *, missed: bool) -> str:
    """``paused`` where an owner lets it claim nothing, else ``stale``, ``working`` or ``idle``."""
    roles = [role for role in agent.roles if role in project.roles]
    paused = project.pause_of((), agent.id) or (
        roles and all(f"role:{role}" in project.pauses for role in roles)
    )
    if agent.stop is not None or paused:
        return PAUSED
    if missed or any(job.lapsed(now) for job in held):
        return STALE
    return WORKING if held else IDLE
