"""The transition table against the specification's rows: every operation from every status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from interlock.domain import lifecycle, moves
from interlock.domain.access import RIGHTS
from interlock.domain.identity import Actor
from interlock.domain.job import Change, Job
from interlock.errors import InterlockError

NOW = 1_796_072_400_000
AGENT = Actor("agent", "agt_a", "a", "default", roles=("developer",))
HELD = {"in_progress", "blocked", "unblocked"}
CASCADED = "failed by cascade"
STAGES = (*lifecycle.STATUSES, CASCADED)
"""Where a job can stand in the table: the statuses, and failed because an upstream did."""


@dataclass(frozen=True)
class Row:
    """One row of the specification: from, to (stages), by, event, and whether the holding changes."""

    sources: set[str]
    targets: set[str]
    by: set[str]
    event: str
    fence: bool


ROWS = {
    "create": Row(set(), {"published", "pending"}, {"agent", "owner"}, "job.created", False),
    "activate": Row({"pending"}, {"published"}, {"system"}, "job.activated", False),
    "cascade": Row({"pending"}, {CASCADED}, {"system"}, "job.failed", False),
    "cascade_cancel": Row({"pending", CASCADED}, {"cancelled"}, {"system"}, "job.cancelled", False),
    "revive": Row({CASCADED}, {"pending"}, {"system"}, "job.revived", False),
    "link": Row({"pending", "published"}, {"pending"}, {"source", "owner"}, "job.linked", False),
    "claim": Row({"published"}, {"in_progress"}, {"agent"}, "job.claimed", True),
    "lapse": Row(
        {"in_progress", "unblocked"},
        {"published", "failed", "blocked"},
        {"system"},
        "job.lease_expired",
        True,
    ),
    "release": Row(HELD, {"published"}, {"holder"}, "job.released", True),
    "complete": Row({"in_progress"}, {"completed"}, {"holder"}, "job.completed", False),
    "reject": Row({"in_progress"}, {"pending"}, {"holder"}, "job.rejected", True),
    "fail": Row(HELD, {"failed"}, {"holder"}, "job.failed", False),
    "block": Row({"in_progress"}, {"blocked"}, {"holder"}, "job.blocked", False),
    "ask": Row(HELD, {"blocked"}, {"holder"}, "job.decision_requested", False),
    "exceed_budget": Row({"in_progress"}, {"blocked"}, {"system"}, "job.budget_exceeded", False),
    "answer": Row(
        {"blocked"}, {"unblocked", "published"}, {"named", "owner"}, "job.decision_answered", False
    ),
    "withdraw": Row(
        {"blocked"}, {"unblocked", "published"}, {"asker", "owner"}, "job.decision_withdrawn", False
    ),
    "unblock": Row({"blocked"}, {"unblocked"}, {"holder", "owner"}, "job.unblocked", False),
    "resume": Row({"blocked", "unblocked"}, {"in_progress"}, {"holder"}, "job.resumed", False),
    "restart": Row({"failed"}, {"in_progress"}, {"last_holder"}, "job.restarted", True),
    "retry": Row({"failed"}, {"published"}, {"owner"}, "job.retried", False),
    "stop": Row(HELD, {"published", "failed", "cancelled"}, {"owner"}, "job.stopped", True),
    "cancel": Row(
        {"pending", "published", *HELD, CASCADED},
        {"cancelled"},
        {"source", "holder", "owner"},
        "job.cancelled",
        True,
    ),
    "expire_deadline": Row(
        {"pending", "published", "in_progress"}, {"cancelled"}, {"system"}, "job.cancelled", True
    ),
}

DECISIONS: dict[str, Callable[[Job], Change]] = {
    "activate": lambda _: moves.activate(NOW, {"activated_by": "upstream"}),
    "cascade": lambda job: moves.cascade(job, NOW, "failed", "job_u", "job_r"),
    "cascade_cancel": lambda job: moves.cascade(job, NOW, "cancelled", "job_u", "job_r"),
    "revive": lambda job: moves.revive(job, NOW),
    "link": lambda job: moves.link(job, NOW, "job_u", satisfied=False),
    "reject": lambda job: moves.reject(job, NOW, {"reason": "why"}),
    "claim": lambda job: moves.claim(job, AGENT, NOW, lease=None, heartbeat=None, session=None, key=None),
    "lapse": lambda job: moves.lapse(job, NOW),
    "release": lambda job: moves.release(job, NOW, None),
    "complete": lambda job: moves.complete(job, NOW, {}, {}),
    "fail": lambda job: moves.fail(job, NOW, "why", None),
    "block": lambda job: moves.block(job, NOW, "why", None),
    "unblock": lambda job: moves.unblock(job, NOW, "why"),
    "resume": lambda job: moves.resume(job, NOW),
    "restart": lambda job: moves.restart(job, NOW),
    "retry": lambda job: moves.retry(job, NOW, None),
    "stop": lambda job: moves.stop(job, NOW, "publish", "why", None),
    "cancel": lambda job: moves.cancel(job, NOW, "why", by_holder=False),
    "expire_deadline": lambda job: moves.pass_deadline(job, NOW, cancels=True),
}
JUDGED_BY_THE_CALLER = {"activate", "cascade", "cascade_cancel", "claim", "lapse", "expire_deadline"}
"""Decisions whose stage is part of what asks for them (a timer's question, a barrier's, the reasons of a claim)."""

ENDPOINTS = {
    "create": "jobs.create",
    "claim": "claims.claim",
    "cancel": "jobs.cancel",
    "retry": "jobs.retry",
    "stop": "jobs.stop",
    "link": "jobs.link",
    **{name: f"decisions.{name}" for name in ("ask", "answer", "withdraw")},
    **{
        name: f"claims.{name}"
        for name in ("release", "complete", "reject", "fail", "block", "unblock", "resume", "restart")
    },
}


def job_in(stage: str, **more: Any) -> Job:
    """A job as it stands in a stage, with everything that an earlier status may have left."""
    if stage == CASCADED:
        by_cascade = {"assignee": None, "cascade": {"upstream": "job_u", "root": "job_r"}, "upstreams": 1}
        return job_in("failed", **{**by_cascade, **more})
    status = stage
    held = status in HELD or status == "failed"
    holding: dict[str, Any] = (
        {"assignee": "agt_a", "assignee_label": "a", "fence": 3, "started_at": NOW - 9} if held else {}
    )
    lease = (
        {"lease_until": NOW - 1, "lease_first": NOW - 1, "lease_hop": 1}
        if status in ("in_progress", "unblocked")
        else {}
    )
    stamp = {f"{status}_at": NOW - 5} if status not in ("pending", "in_progress") else {}
    base = {
        "id": "job_x", "project": "default", "status": status, "role": "developer", "summary": "work", "priority": 20,
        "source": "agent:agt_s", "source_label": "s", "created_at": NOW - 10, "updated_at": NOW - 5, "version": 4,
    }  # fmt: skip
    return Job(**{**base, **holding, **lease, **stamp, **more})


def test_the_table_has_exactly_the_rows_of_the_specification() -> None:
    table = {
        row.operation: Row(set(row.sources), set(row.targets), set(row.by), row.event, row.new_fence)
        for row in lifecycle.TRANSITIONS
    }
    assert table == ROWS
    assert len(lifecycle.TRANSITIONS) == len(table)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("operation", ROWS)
def test_an_operation_is_permitted_from_its_rows_stages_only(operation: str, stage: str) -> None:
    assert lifecycle.permits(operation, stage) is (stage in ROWS[operation].sources)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("operation", sorted(DECISIONS.keys() - JUDGED_BY_THE_CALLER))
def test_a_decision_moves_the_job_as_its_row_says_or_names_what_is_allowed(
    operation: str, stage: str
) -> None:
    row, job = ROWS[operation], job_in(stage)
    assert job.stage == stage
    if stage not in row.sources:
        with pytest.raises(InterlockError) as refused:
            DECISIONS[operation](job)
        assert refused.value.code == "wrong_state"
        assert refused.value.extra == {"job_status": job.status, "allowed": moves.allowed(job)}
        assert set(lifecycle.allowed_now(stage)) - set(moves.allowed(job)) <= {"answer", "withdraw"}
        assert stage in refused.value.detail
        assert all(name in refused.value.detail for name in moves.allowed(job))
        assert ("job_r" in refused.value.detail) is (stage == CASCADED), "the root is named"
        return
    change = DECISIONS[operation](job)
    reached = change.set.get("status", job.status)
    assert reached in row.targets
    assert [(fact.type, fact.from_status, fact.to_status) for fact in change.facts] == [
        (row.event, job.status, reached)
    ]
    grown = change.set.get("fence", job.fence)
    assert grown == job.fence + (1 if row.fence else 0)


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_allowed_now_names_callers_operations_only(stage: str) -> None:
    expected = [name for name, row in ROWS.items() if stage in row.sources and row.by != {"system"}]
    assert lifecycle.allowed_now(stage) == expected


@pytest.mark.parametrize("stage", ["pending", CASCADED])
@pytest.mark.parametrize(("status", "operation"), [("failed", "cascade"), ("cancelled", "cascade_cancel")])
def test_a_cascade_names_upstream_and_root(stage: str, status: str, operation: str) -> None:
    change = moves.cascade(job_in(stage), NOW, status, "job_u", "job_r")
    (fact,) = change.facts
    assert (fact.type, fact.to_status) == (ROWS[operation].event, status)
    assert fact.data["caused_by"] == {"upstreams": ["job_u"], "root": "job_r"}
    assert change.set["cascade"] == {"upstream": "job_u", "root": "job_r"}
    reason = {"failed": "failure_reason", "cancelled": "cancel_reason"}[status]
    assert change.set[reason] == fact.data[reason] == f"upstream job_u {status}"
    assert "fence" not in change.set, "nobody held it"


def test_a_link_to_a_satisfied_upstream_leaves_the_status() -> None:
    for status in ("pending", "published"):
        change = moves.link(job_in(status), NOW, "job_u", satisfied=True)
        assert "status" not in change.set
        assert [(fact.from_status, fact.to_status) for fact in change.facts] == [(status, status)]


def test_ended_statuses_are_final_or_failed() -> None:
    assert set(lifecycle.ENDED) == {"completed", "failed", "cancelled"}
    assert set(lifecycle.FINAL) == {"completed", "cancelled"}
    for status in lifecycle.FINAL:
        assert not [row for row in lifecycle.TRANSITIONS if status in row.sources]
    assert {"pending", "published"} == set(lifecycle.OPEN)
    assert set(lifecycle.HELD) == HELD
    assert set(lifecycle.LEASED) == {"in_progress", "unblocked"}


@pytest.mark.parametrize("operation", ENDPOINTS)
def test_who_may_move_a_job_is_the_same_in_both_tables(operation: str) -> None:
    assert ROWS[operation].by <= set(RIGHTS[ENDPOINTS[operation]])


@pytest.mark.parametrize("stage", sorted({*STAGES} - {"pending"}))
def test_entering_a_status_clears_what_an_earlier_one_left(stage: str) -> None:
    left = {"blocked_reason": "b", "unblock_reason": "u", "failure_reason": "f", "cancel_reason": "c"}
    for operation in sorted(DECISIONS.keys() - JUDGED_BY_THE_CALLER):
        if stage not in ROWS[operation].sources:
            continue
        change = DECISIONS[operation](job_in(stage, **left))
        assert change.set.get("cascade") is None
        kept = {name for name in left if change.set.get(name, left[name]) is not None}
        own = {
            "blocked": "blocked_reason",
            "unblocked": "unblock_reason",
            "failed": "failure_reason",
            "cancelled": "cancel_reason",
        }
        assert kept <= {own.get(change.set["status"])}
