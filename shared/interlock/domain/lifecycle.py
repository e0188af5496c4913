"""The transition table: which operation moves a job from where to where, who may, and what it is called.

Docs, error details ("allowed now"), the model test and the console's buttons come from it. Where an outcome
depends on a policy (a lapse, a stop), the row lists every target and the policy chooses among them.
"""

from __future__ import annotations

from dataclasses import dataclass

PENDING = "pending"
PUBLISHED = "published"
IN_PROGRESS = "in_progress"
BLOCKED = "blocked"
UNBLOCKED = "unblocked"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"

STATUSES = (PENDING, PUBLISHED, IN_PROGRESS, BLOCKED, UNBLOCKED, COMPLETED, FAILED, CANCELLED)
HELD = (IN_PROGRESS, BLOCKED, UNBLOCKED)
"""Statuses in which an agent holds the job."""
LEASED = (IN_PROGRESS, UNBLOCKED)
"""Statuses in which a lease runs; it is paused while blocked."""
OPEN = (PENDING, PUBLISHED)
"""Statuses in which nobody has started."""
ENDED = (COMPLETED, FAILED, CANCELLED)
FINAL = (COMPLETED, CANCELLED)
"""Statuses that never change."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: ``operation`` moves a job from any of ``sources`` to one of ``targets``; ``by`` are relations of
    access.py (``system`` = the bus itself); ``event`` is recorded; ``new_fence`` says whether holding changes."""

    operation: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    by: tuple[str, ...]
    event: str
    new_fence: bool = False
    note: str = ""


TRANSITIONS = (
    Transition("create", (), (PUBLISHED, PENDING), ("agent", "owner"), "job.created", note="pending while `not_before` is ahead"),
    Transition("activate", (PENDING,), (PUBLISHED,), ("system",), "job.activated", note="`not_before` is reached; exactly once"),
    Transition("claim", (PUBLISHED,), (IN_PROGRESS,), ("agent",), "job.claimed", new_fence=True, note="the lease starts"),
    Transition("lapse", LEASED, (PUBLISHED, FAILED), ("system",), "job.lease_expired", new_fence=True, note="by `on_expire`; counts an attempt; at the budget the job fails"),
    Transition("release", HELD, (PUBLISHED,), ("holder",), "job.released", new_fence=True),
    Transition("complete", (IN_PROGRESS,), (COMPLETED,), ("holder",), "job.completed", note="evidence is checked first"),
    Transition("fail", HELD, (FAILED,), ("holder",), "job.failed"),
    Transition("block", (IN_PROGRESS,), (BLOCKED,), ("holder",), "job.blocked", note="the lease pauses"),
    Transition("unblock", (BLOCKED,), (UNBLOCKED,), ("holder", "owner"), "job.unblocked", note="a lease of `lease_seconds` starts: the resume window"),
    Transition("resume", (BLOCKED, UNBLOCKED), (IN_PROGRESS,), ("holder",), "job.resumed", note="same fence, the lease restarts"),
    Transition("restart", (FAILED,), (IN_PROGRESS,), ("last_holder",), "job.restarted", new_fence=True, note="counts an attempt"),
    Transition("retry", (FAILED,), (PUBLISHED,), ("owner",), "job.retried", note="counts an attempt; may raise the budget"),
    Transition("stop", HELD, (PUBLISHED, FAILED, CANCELLED), ("owner",), "job.stopped", new_fence=True, note="by `then`; the old fence answers `stop_requested`"),
    Transition("cancel", (*OPEN, *HELD), (CANCELLED,), ("source", "holder", "owner"), "job.cancelled", new_fence=True, note="the source only while nobody holds it"),
    Transition("expire_deadline", (*OPEN, IN_PROGRESS), (CANCELLED,), ("system",), "job.cancelled", new_fence=True, note="only when the setting `cancel_overdue` says so"),
)  # fmt: skip

BY_OPERATION = {row.operation: row for row in TRANSITIONS}


def permits(operation: str, status: str) -> bool:
    """Whether the operation may start from this status."""
    return status in BY_OPERATION[operation].sources


def allowed_now(status: str) -> list[str]:
    """The operations (of callers, not of the bus itself) that may start from this status, in table order."""
    return [row.operation for row in TRANSITIONS if status in row.sources and row.by != ("system",)]
