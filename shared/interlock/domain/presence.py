"""Presence: what is known of an agent's being there, from its signs of life and from what it holds.

It is an entity of its own beside the agent, so that what handles jobs can write it and still no credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.domain import limits
from interlock.domain.identity import Agent, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import LEASED


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


def last_seen(sign: Sign | None, held: Sequence[Job]) -> int | None:
    """An agent's latest sign of life (ms): what was written down, and what its claims and leases say."""
    signs = [sign.at if sign else None, *(renewed_at(job) for job in held), *(job.started_at for job in held)]
    return max((at for at in signs if at is not None), default=None)


def session(sign: Sign | None, held: Sequence[Job]) -> str | None:
    """The label of the session that gave the latest sign of life, where it has one."""
    latest = max(held, key=lambda job: renewed_at(job) or job.started_at or 0, default=None)
    if latest is not None and latest.session and (sign is None or (renewed_at(latest) or 0) >= sign.at):
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
    if known is None or known.stale_at is None or (last is not None and last > known.stale_at):
        return None
    return known.stale_at


def state(agent: Agent, project: Project, held: Sequence[Job], now: int, *, missed: bool) -> str:
    """``paused`` where an owner lets it claim nothing, else ``stale``, ``working`` or ``idle``."""
    if agent.stop is not None or f"agent:{agent.id}" in project.pauses or "project" in project.pauses:
        return PAUSED
    if missed or any(job.lapsed(now) for job in held):
        return STALE
    return WORKING if held else IDLE
