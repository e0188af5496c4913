"""Decisions: what each one sets, and what it records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_lifecycle import AGENT, HELD, NOW, job_in

from interlock.domain import lifecycle, limits, moves
from interlock.domain.identity import Actor
from interlock.domain.job import Change, Job
from interlock.errors import InterlockError

OTHER = Actor("agent", "agt_b", "b", "default", roles=("developer",))


def after(job: Job, change: Change) -> Job:
    """The job as the change leaves it."""
    return replace(job, **change.set)


def claim(job: Job, **more: Any) -> Change:
    asked = {"lease": None, "heartbeat": None, "session": None, "key": None, **more}
    return moves.claim(job, AGENT, NOW, **asked)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ({}, 600),
        ({"lease": 45}, 45),
        ({"heartbeat": 30}, 90),
        ({"heartbeat": 10, "lease": 300}, 300),
    ],
)
def test_a_claims_lease_is_its_own_or_three_beats_or_the_jobs(asked: dict[str, Any], seconds: int) -> None:
    job = after(
        job_in("published", lease_seconds=600), claim(job_in("published", lease_seconds=600), **asked)
    )
    assert (job.status, job.assignee, job.fence) == ("in_progress", "agt_a", 1)
    assert job.lease_until == NOW + seconds * 1_000
    assert job.running_lease() == seconds
    assert job.heartbeat_seconds == asked.get("heartbeat")
    assert job.started_at == NOW


def test_a_claim_of_a_lapsed_job_counts_its_attempt_first() -> None:
    job = job_in("in_progress", max_retries=2, retry_count=1, assignee="agt_b")
    change = claim(job)
    taken = after(job, change)
    assert [fact.type for fact in change.facts] == ["job.lease_expired", "job.claimed"]
    assert [(fact.from_status, fact.to_status) for fact in change.facts] == [
        ("in_progress", "published"),
        ("published", "in_progress"),
    ]
    assert (taken.fence, taken.retry_count, taken.attempt) == (job.fence + 2, 2, 3)
    assert change.facts[1].data == {"fence": job.fence + 2, "attempt": 3, "lease_seconds": 1800}
    assert taken.last_failure == {"attempt": 2, "at": NOW, "reason": "lease_expired", "by": "agt_b"}


@pytest.mark.parametrize(
    ("on_expire", "used", "status"),
    [("publish", 2, "published"), ("publish", 3, "failed"), ("fail", 0, "failed"), ("fail", 3, "failed")],
)
def test_a_lapse_goes_by_on_expire_and_the_budget(on_expire: str, used: int, status: str) -> None:
    job = job_in("unblocked", on_expire=on_expire, retry_count=used, max_retries=3)
    change = moves.lapse(job, NOW)
    left = after(job, change)
    assert left.status == status
    assert left.fence == job.fence + 1
    assert left.retry_count == used + (status == "published")
    assert left.lease_until is None
    assert left.failure_reason == (None if status == "published" else "lease_expired")
    assert left.assignee == (None if status == "published" else "agt_a"), (
        "the last holder may restart a failed job"
    )
    reason = {"failure_reason": "lease_expired"} if status == "failed" else {}
    wanted = {"fence": job.fence, "holder": "agt_a", "retry_count": left.retry_count, **reason}
    assert change.facts[0].data == wanted


def test_release_counts_no_attempt_and_leaves_nobody() -> None:
    left = after(job_in("blocked"), moves.release(job_in("blocked"), NOW, "tired"))
    assert (left.status, left.assignee, left.retry_count, left.blocked_reason) == ("published", None, 0, None)
    assert left.published_at == NOW


def test_blocking_pauses_the_lease_and_keeps_place_and_fence() -> None:
    job = job_in("in_progress", session="s")
    change = moves.block(job, NOW, "no key", {"a": 1})
    left = after(job, change)
    assert (left.assignee, left.session, left.fence, left.lease_until) == ("agt_a", "s", 3, None)
    assert left.blocked_reason == "no key"
    assert change.facts[0].data == {"fence": 3, "blocked_reason": "no key", "data": {"a": 1}}


def test_unblocking_starts_a_lease_of_lease_seconds_even_where_the_claim_had_its_own() -> None:
    job = job_in("blocked", lease_seconds=600, claim_lease=45)
    left = after(job, moves.unblock(job, NOW, "here"))
    assert left.lease_until == NOW + 600_000
    assert left.running_lease() == 600
    back = after(left, moves.resume(left, NOW + 5))
    assert (back.status, back.fence, back.lease_until) == ("in_progress", 3, NOW + 5 + 45_000)
    assert back.started_at == job.started_at, "resuming is not a new start"
    assert back.unblock_reason is None


def test_restart_counts_an_attempt_until_the_budget_is_spent() -> None:
    job = job_in("failed", retry_count=2, max_retries=3, failure_reason="no")
    left = after(job, moves.restart(job, NOW))
    assert (left.status, left.fence, left.retry_count, left.failure_reason) == ("in_progress", 4, 3, None)
    with pytest.raises(InterlockError) as refused:
        moves.restart(replace(left, status="failed"), NOW)
    assert refused.value.code == "retries_spent"
    assert "3 of 3" in refused.value.detail


@pytest.mark.parametrize(("budget", "accepted"), [(None, False), (3, False), (4, True), (20, True)])
def test_retry_may_raise_the_budget(budget: int | None, accepted: bool) -> None:
    job = job_in("failed", retry_count=3, max_retries=3)
    if not accepted:
        with pytest.raises(InterlockError) as refused:
            moves.retry(job, NOW, budget)
        assert refused.value.code == "retries_spent"
        return
    change = moves.retry(job, NOW, budget)
    left = after(job, change)
    assert (left.status, left.retry_count, left.max_retries, left.assignee) == ("published", 4, budget, None)
    assert change.facts[0].data["changes"] == {"max_retries": [3, budget]}


@pytest.mark.parametrize("then", ["publish", "fail", "cancel"])
@pytest.mark.parametrize("role", [None, "developer", "qa"])
def test_stop_sends_the_job_where_then_says(then: str, role: str | None) -> None:
    change = moves.stop(job_in("in_progress"), NOW, then, "wrong way", role)
    left = after(job_in("in_progress"), change)
    status = {"publish": "published", "fail": "failed", "cancel": "cancelled"}[then]
    assert (left.status, left.assignee, left.fence, left.stopped_fence) == (status, None, 4, 3)
    assert left.failure_reason == ("wrong way" if then == "fail" else None)
    assert left.cancel_reason == ("wrong way" if then == "cancel" else None)
    assert left.role == (role or "developer")
    assert ("changes" in change.facts[0].data) is (role == "qa")
    assert change.facts[0].data["holder"] == "agt_a"


@pytest.mark.parametrize("by_holder", [True, False])
@pytest.mark.parametrize("status", ["published", "pending", *sorted(HELD)])
def test_cancel_marks_the_fence_that_somebody_else_ended(status: str, by_holder: bool) -> None:
    job = job_in(status, fence=3)
    left = after(job, moves.cancel(job, NOW, "no", by_holder=by_holder))
    assert left.cancel_reason == "no"
    assert left.fence == 4
    assert left.stopped_fence == (3 if status in HELD and not by_holder else None)


@pytest.mark.parametrize("status", [s for s in lifecycle.STATUSES if s not in lifecycle.ENDED])
@pytest.mark.parametrize("cancels", [True, False])
def test_a_passed_deadline_is_recorded_once_and_cancels_by_the_setting(status: str, cancels: bool) -> None:
    job = job_in(status, deadline=NOW - 1, deadline_hop=2)
    change = moves.pass_deadline(job, NOW, cancels=cancels)
    left = after(job, change)
    ends = cancels and status in ("pending", "published", "in_progress")
    assert [fact.type for fact in change.facts] == ["job.overdue", *(["job.cancelled"] if ends else [])]
    assert left.overdue == NOW - 1
    assert left.deadline_hop is None
    assert left.status == ("cancelled" if ends else status)
    assert left.cancel_reason == ("deadline" if ends else None)


@pytest.mark.parametrize(
    ("fence", "who", "code"),
    [
        (3, AGENT, None),
        (3, OTHER, "not_holder"),
        (2, AGENT, "lease_lost"),
        (4, AGENT, "lease_lost"),
        (2, OTHER, "lease_lost"),
        (1, AGENT, "stop_requested"),
    ],
)
@pytest.mark.parametrize("status", [*sorted(HELD), "failed", "completed"])
def test_a_claim_is_proved_by_fence_and_agent(status: str, fence: int, who: Actor, code: str | None) -> None:
    job = job_in(status, assignee="agt_a", fence=3, stopped_fence=1)
    if code is None:
        moves.require_claim(job, who, fence)
        return
    with pytest.raises(InterlockError) as refused:
        moves.require_claim(job, who, fence)
    assert refused.value.code == code
    if code != "not_holder":
        assert status in refused.value.detail, "the answer says where the job is now"
        assert refused.value.extra["job_status"] == status


def test_only_block_unblock_and_resume_leave_the_work_as_it_was() -> None:
    assert moves.block(job_in("in_progress"), NOW, "x", None).work is False
    assert moves.unblock(job_in("blocked"), NOW, "x").work is False
    assert moves.resume(job_in("unblocked"), NOW).work is False
    for change in (
        claim(job_in("published")),
        moves.release(job_in("blocked"), NOW, None),
        moves.fail(job_in("blocked"), NOW, "x", None),
        moves.complete(job_in("in_progress"), NOW, {}, {}),
        moves.stop(job_in("blocked"), NOW, "publish", "x", None),
        moves.cancel(job_in("published"), NOW, "x", by_holder=False),
        moves.lapse(job_in("in_progress"), NOW),
    ):
        assert change.work is True


@given(
    lease=st.integers(30, 86_400),
    used=st.integers(-10_000, 90_000_000),
    status=st.sampled_from(lifecycle.STATUSES),
)
def test_a_renewal_is_due_when_more_than_a_third_is_used(lease: int, used: int, status: str) -> None:
    until = NOW + lease * 1_000
    job = job_in(status, lease_seconds=lease, lease_until=until)
    due = status in ("in_progress", "unblocked") and used > lease * 1_000 / 3
    exact = lease * 1_000 / 3
    if abs(used - exact) > 1:
        assert job.renewal_due(NOW + used) is due
    assert job.lapsed(until + limits.SKEW) is False
    assert job.lapsed(until + limits.SKEW + 1) is (status in ("in_progress", "unblocked"))


@given(
    st.lists(
        st.sampled_from(
            ["claim", "lapse", "release", "fail", "restart", "retry", "stop", "block", "unblock", "resume"]
        ),
        max_size=40,
    )
)
def test_along_any_life_fences_grow_and_attempts_never_pass_the_budget(steps: list[str]) -> None:
    job, fences, now = job_in("published", max_retries=2, fence=0), [0], NOW
    decide = {
        "claim": lambda: moves.claim(job, AGENT, now, lease=30, heartbeat=None, session=None, key=None),
        "lapse": lambda: moves.lapse(job, now),
        "release": lambda: moves.release(job, now, None),
        "fail": lambda: moves.fail(job, now, "x", None),
        "restart": lambda: moves.restart(job, now),
        "retry": lambda: moves.retry(job, now, None),
        "stop": lambda: moves.stop(job, now, "publish", "x", None),
        "block": lambda: moves.block(job, now, "x", None),
        "unblock": lambda: moves.unblock(job, now, "x"),
        "resume": lambda: moves.resume(job, now),
    }
    for step in steps:
        now += 1_000
        if not lifecycle.permits(step, job.status):
            continue
        if step in ("restart", "retry") and job.retry_count == job.max_retries:
            with pytest.raises(InterlockError, match="retries_spent"):
                decide[step]()
            continue
        change = decide[step]()
        job = after(job, change)
        fences.append(job.fence)
        held = job.status in HELD
        assert (job.assignee is not None) is (held or job.status == "failed")
        assert (job.lease_until is not None) is (job.status in lifecycle.LEASED)
        assert job.retry_count <= job.max_retries
    assert fences == sorted(fences)
