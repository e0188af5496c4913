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
CASCADED = "failed by cascade"
"""In the table: a job that failed because an upstream did. Its status is ``failed``, but it has its own rows: it comes
back when the upstream does, and nothing else brings it back."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: ``operation`` moves a job from any of ``sources`` to one of ``targets`` (stages: statuses, and
    :data:`CASCADED`); ``by`` are relations of
    access.py (``system`` = the bus itself); ``event`` is recorded; ``new_fence`` says whether holding changes."""

    operation: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    by: tuple[str, ...]
    event: str
    new_fence: bool = False
    note: str = ""


TRANSITIONS = (
    Transition("create", (), (PUBLISHED, PENDING), ("agent", "owner"), "job.created", note="pending while an upstream is open or `not_before` is ahead"),
    Transition("activate", (PENDING,), (PUBLISHED,), ("system",), "job.activated", note="every upstream allows it and `not_before` is reached; exactly once"),
    Transition("cascade", (PENDING,), (CASCADED,), ("system",), "job.failed", note="an upstream failed, and `on_upstream_failure` is `match`; full depth"),
    Transition("cascade_cancel", (PENDING, CASCADED), (CANCELLED,), ("system",), "job.cancelled", note="an upstream was cancelled, and `on_upstream_failure` is `match`; full depth"),
    Transition("revive", (CASCADED,), (PENDING,), ("system",), "job.revived", note="the upstream came back; the whole barrier is judged again; full depth"),
    Transition("link", OPEN, (PENDING,), ("source", "owner"), "job.linked", note="an upstream is added; stays published when the upstream is satisfied"),
    Transition("claim", (PUBLISHED,), (IN_PROGRESS,), ("agent",), "job.claimed", new_fence=True, note="the lease starts"),
    Transition("lapse", LEASED, (PUBLISHED, FAILED, BLOCKED), ("system",), "job.lease_expired", new_fence=True, note="by `on_expire`; counts an attempt; at the budget the job fails; `ask` blocks it for a decision, held by nobody"),
    Transition("release", HELD, (PUBLISHED,), ("holder",), "job.released", new_fence=True),
    Transition("complete", (IN_PROGRESS,), (COMPLETED,), ("holder",), "job.completed", note="evidence is checked first"),
    Transition("reject", (IN_PROGRESS,), (PENDING,), ("holder",), "job.rejected", new_fence=True, note="a review sends its upstream back; the reviewer waits for the retry"),
    Transition("fail", HELD, (FAILED,), ("holder",), "job.failed"),
    Transition("block", (IN_PROGRESS,), (BLOCKED,), ("holder",), "job.blocked", note="the lease pauses"),
    Transition("ask", HELD, (BLOCKED,), ("holder",), "job.decision_requested", note="the lease pauses until the decision is closed; with `wait: false` the status stays"),
    Transition("exceed_budget", (IN_PROGRESS,), (BLOCKED,), ("system",), "job.budget_exceeded", note="what was used is beyond the job's budget; a decision is asked of owners"),
    Transition("answer", (BLOCKED,), (UNBLOCKED, PUBLISHED), ("named", "owner"), "job.decision_answered", note="published where nobody holds it; an answer `stop`, `fail` or `cancel` goes on as that"),
    Transition("withdraw", (BLOCKED,), (UNBLOCKED, PUBLISHED), ("asker", "owner"), "job.decision_withdrawn", note="nobody has to answer any more"),
    Transition("unblock", (BLOCKED,), (UNBLOCKED,), ("holder", "owner"), "job.unblocked", note="a lease of `lease_seconds` starts: the resume window; not while an open decision blocks it"),
    Transition("resume", (BLOCKED, UNBLOCKED), (IN_PROGRESS,), ("holder",), "job.resumed", note="same fence, the lease restarts; not while an open decision blocks it"),
    Transition("restart", (FAILED,), (IN_PROGRESS,), ("last_holder",), "job.restarted", new_fence=True, note="counts an attempt"),
    Transition("retry", (FAILED,), (PUBLISHED,), ("owner",), "job.retried", note="counts an attempt; may raise the budget"),
    Transition("stop", HELD, (PUBLISHED, FAILED, CANCELLED), ("owner",), "job.stopped", new_fence=True, note="by `then`; the old fence answers `stop_requested`"),
    Transition("cancel", (*OPEN, *HELD, CASCADED), (CANCELLED,), ("source", "holder", "owner"), "job.cancelled", new_fence=True, note="the source only while nobody holds it"),
    Transition("expire_deadline", (*OPEN, IN_PROGRESS), (CANCELLED,), ("system",), "job.cancelled", new_fence=True, note="only when the setting `cancel_overdue` says so"),
)  # fmt: skip

BY_OPERATION = {row.operation: row for row in TRANSITIONS}


def permits(operation: str, stage: str) -> bool:
    """Whether the operation may start from this stage."""
    return stage in BY_OPERATION[operation].sources


def allowed_now(stage: str, by: str | None = None) -> list[str]:
    """The operations that may start from this stage, in table order: those of any caller (not of the bus itself), or
    of whoever stands in the relation ``by`` to the job."""
    rows = [row for row in TRANSITIONS if stage in row.sources and row.by != ("system",)]
    return [row.operation for row in rows if by is None or by in row.by]
