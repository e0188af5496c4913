"""What time does to a job: lapses, not_before, deadlines, as the timers of the bus carry them out."""

from __future__ import annotations

import pytest
from tests.unit.checked import CheckedWorld, checked


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- lapses


def lapse(w: CheckedWorld, seconds: float) -> None:
    """Let time pass as timers see it."""
    w.pump()
    w.clock.advance(seconds)
    w.pump()


def test_a_lapse_publishes_the_job_and_counts_an_attempt(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    lapse(w, 64)
    shown = w.get(job)
    assert (shown["status"], shown["retry_count"], shown["attempt"], shown["assignee"], shown["fence"]) == (
        "published",
        1,
        2,
        None,
        2,
    )
    assert shown["last_failure"]["reason"] == "lease_expired"
    w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": 1})


def test_timers_do_not_lapse_early_or_after_a_renewal(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    lapse(w, 62)
    assert w.get(job)["status"] == "in_progress"
    w.ok("POST", "P/heartbeat", {})
    lapse(w, 62)
    assert w.get(job)["status"] == "in_progress"
    lapse(w, 5)
    assert w.get(job)["status"] == "published"


def test_a_long_lease_takes_several_hops(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=7_200)
    for _ in range(8):
        lapse(w, 900)
    assert w.get(job)["status"] == "in_progress"
    lapse(w, 4)
    assert w.get(job)["status"] == "published"


def test_on_expire_fail_fails_at_the_first_lapse(w: CheckedWorld) -> None:
    job = w.job(on_expire="fail")
    w.claim(job, lease_seconds=60)
    lapse(w, 64)
    shown = w.get(job)
    assert (shown["status"], shown["failure_reason"], shown["retry_count"]) == ("failed", "lease_expired", 0)
    assert w.ok("POST", f"P/jobs/{job}/restart", {})["claim"]["fence"] == 3, "its last holder may restart it"


@pytest.mark.parametrize("budget", [0, 2])
def test_at_the_budget_a_lapse_fails_the_job(w: CheckedWorld, budget: int) -> None:
    job = w.job(max_retries=budget)
    for _ in range(budget):
        w.claim(job, lease_seconds=60)
        lapse(w, 64)
        assert w.get(job)["status"] == "published"
    w.claim(job, lease_seconds=60)
    lapse(w, 64)
    shown = w.get(job)
    assert (shown["status"], shown["retry_count"], shown["failure_reason"]) == (
        "failed",
        budget,
        "lease_expired",
    )


def test_an_unblocked_job_lapses_when_nobody_resumes_it(w: CheckedWorld) -> None:
    job, _ = w.job_in("unblocked")
    lapse(w, 1_000)
    lapse(w, 804)
    assert w.get(job)["status"] == "published"


def test_work_that_ends_in_time_is_left_alone_by_its_timer(w: CheckedWorld) -> None:
    job, _ = w.job_in("completed")
    lapse(w, 3_000)
    assert w.get(job)["status"] == "completed"
    assert w.types(job) == ["job.created", "job.claimed", "job.completed"]


def test_a_late_holder_that_nobody_replaced_may_still_complete(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(1_000)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})


# ---- not_before and deadline


def test_a_pending_job_is_published_once_when_its_time_comes(w: CheckedWorld) -> None:
    job = w.job(not_before="2026-11-30T21:30:00Z")
    for _ in range(2):
        lapse(w, 899)
    assert w.get(job)["status"] == "pending"
    lapse(w, 2)
    shown = w.get(job)
    assert (shown["status"], shown["published_at"]) == ("published", "2026-11-30T21:30:00.000Z")
    assert w.types(job) == ["job.created", "job.activated"]


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize(
    "status", ["pending", "published", "in_progress", "blocked", "unblocked", "completed", "failed"]
)
def test_a_deadline_is_recorded_and_by_setting_cancels_what_is_not_waiting_for_somebody(
    w: CheckedWorld, status: str, cancels: bool
) -> None:
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": cancels}}, token="owner")
    job, fence = w.job_in(status, deadline="2026-11-30T21:00:30Z")
    lapse(w, 30)
    shown, types = w.get(job), w.types(job)
    over = status in ("completed", "failed")
    ends = cancels and status in ("pending", "published", "in_progress")
    assert ("job.overdue" in types) is not over
    assert shown["overdue"] is not over
    assert shown["status"] == ("cancelled" if ends else status)
    assert shown["cancel_reason"] == ("deadline" if ends else None)
    if ends and status == "in_progress":
        w.refused("stop_requested", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    lapse(w, 2_000)
    assert w.types(job).count("job.overdue") == (0 if over else 1)


@pytest.mark.parametrize("way", ["retry", "restart"])
@pytest.mark.parametrize("away", [100, 1_000, 3_000])
def test_a_job_that_comes_back_is_still_held_to_its_deadline(w: CheckedWorld, way: str, away: int) -> None:
    job, _ = w.job_in("failed", deadline="2026-11-30T21:40:00Z", lease_seconds=86_400)
    for _ in range(away // 100):
        lapse(w, 100)
    w.ok("POST", f"P/jobs/{job}/{way}", {}, token="owner" if way == "retry" else "agent")
    for _ in range(4):
        lapse(w, 800)
    assert w.get(job)["overdue"] is True
    assert w.types(job).count("job.overdue") == 1
