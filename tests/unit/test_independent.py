"""Independent jobs: whoever worked on what a job depends on may not take it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.chains import complete, create, fail, retry
from tests.unit.checked import CheckedWorld, checked

AGENTS = ("one", "two", "three")


@pytest.fixture
def w() -> CheckedWorld:
    """Three agents that may do everything, and the world's own."""
    made = checked()
    for name in AGENTS:
        made.enrol(name, ("developer", "reviewer"))
    return made


def independent(w: CheckedWorld, *ups: str, **more: Any) -> str:
    return str(create(w, *ups, independent=True, **more)["id"])


def excluded(w: CheckedWorld, job: str) -> set[str]:
    """Who may not claim the published job, as an owner is told."""
    found = set()
    for name in AGENTS:
        agent = w.ok("GET", "P/me", token=name)["actor"]["id"]
        told = w.ok("GET", f"P/jobs/{job}/explain", token="owner", query={"agent": agent})
        assert told["claimable"] is (told["reasons"] == [])
        assert {reason["code"] for reason in told["reasons"]} <= {"excluded"}
        assert w.ok("GET", f"P/jobs/{job}/explain", token=name)["reasons"] == told["reasons"]
        if not told["claimable"]:
            w.refused("excluded", "POST", f"P/jobs/{job}/claim", {}, token=name)
            found.add(name)
    return found


def test_the_default_comes_from_the_role(w: CheckedWorld) -> None:
    assert create(w, role="reviewer")["independent"] is True
    assert create(w, role="reviewer", independent=False)["independent"] is False
    assert create(w)["independent"] is False
    assert create(w, independent=True)["independent"] is True
    w.ok("PATCH", "P/roles/developer", {"independent": True}, token="owner")
    assert create(w)["independent"] is True
    assert create(w, independent=None)["independent"] is True
    planned = w.ok("POST", "P/plans", {"jobs": [{"ref": "a", "summary": "x", "role": "reviewer"}]})
    assert w.get(planned["jobs"]["a"])["independent"] is True


@pytest.mark.parametrize("value", ["true", 1, 0, [], {}])
def test_what_is_no_truth_value(w: CheckedWorld, value: Any) -> None:
    body = {"summary": "x", "role": "developer", "independent": value}
    assert w.refused("invalid", "POST", "P/jobs", body).body["errors"][0]["path"] == "independent"


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_workers_of_all_upstream_jobs_may_not_take_it(w: CheckedWorld, when: str) -> None:
    ups = [w.job(), w.job()]
    waits = independent(w, *ups) if when == "before" else ""
    complete(w, ups[0], token="one")
    complete(w, ups[1], token="two")
    job = waits or independent(w, *ups)
    assert excluded(w, job) == {"one", "two"}
    assert w.claim(job, "three") == 1
    plain = create(w, *ups)["id"]
    assert excluded(w, plain) == set()


def test_only_direct_upstream_jobs_count(w: CheckedWorld) -> None:
    first = w.job()
    second = create(w, first)["id"]
    job = independent(w, second)
    parent = independent(w, parent=first)
    complete(w, first, token="one")
    complete(w, second, token="two")
    assert excluded(w, job) == {"two"}
    assert excluded(w, parent) == set(), "lineage holds nobody back"


@pytest.mark.parametrize("way", ["release", "lapse", "stop", "fail and retry"])
def test_whoever_held_an_upstream_once_may_not_take_it(w: CheckedWorld, way: str) -> None:
    up = w.job()
    job = independent(w, up)
    fence = w.claim(up, "one")
    if way == "release":
        w.ok("POST", f"P/jobs/{up}/release", {"fence": fence}, token="one")
    elif way == "lapse":
        w.clock.advance(3_600)
    elif way == "stop":
        w.ok("POST", f"P/jobs/{up}/stop", {"reason": "no"}, token="owner")
    else:
        w.ok("POST", f"P/jobs/{up}/fail", {"fence": fence, "reason": "no"}, token="one")
        retry(w, up)
    w.pump()
    complete(w, up, token="two")
    assert excluded(w, job) == {"one", "two"}


def test_a_lapsed_job_that_another_takes_over_keeps_both(w: CheckedWorld) -> None:
    up = w.job()
    job = independent(w, up)
    w.claim(up, "one")
    w.clock.advance(3_600)
    fence = w.claim(up, "two")
    w.ok("POST", f"P/jobs/{up}/complete", {"fence": fence}, token="two")
    w.pump()
    assert excluded(w, job) == {"one", "two"}


def test_an_upstream_that_failed_and_is_passed_over_counts_too(w: CheckedWorld) -> None:
    up = w.job()
    job = independent(w, up, on_upstream_failure="continue")
    fail(w, up, token="one")
    assert excluded(w, job) == {"one"}


def test_a_link_that_is_added_counts(w: CheckedWorld) -> None:
    first, second, later = w.job(), w.job(), w.job()
    complete(w, first, token="one")
    complete(w, second, token="two")
    job = independent(w, first)
    w.ok("POST", f"P/jobs/{job}/links", {"upstream": second})
    assert excluded(w, job) == {"one", "two"}, "it stayed published"
    w.ok("POST", f"P/jobs/{job}/links", {"upstream": later})
    complete(w, later, token="three")
    assert excluded(w, job) == {"one", "two", "three"}


def test_claim_next_passes_by_and_says_so(w: CheckedWorld) -> None:
    up = w.job()
    complete(w, up, token="one")
    job = independent(w, up, priority="urgent")
    answer = w.ok("POST", "P/claims", {}, token="one")
    assert (answer["job"], answer["skipped"]) == (None, {"excluded": 1})
    other = w.job(priority="low")
    assert w.ok("POST", "P/claims", {}, token="one")["job"]["id"] == other
    assert w.ok("POST", "P/claims", {}, token="two")["job"]["id"] == job


def test_the_lapsed_claim_of_an_independent_job_is_not_taken_by_a_worker(w: CheckedWorld) -> None:
    up = w.job()
    complete(w, up, token="one")
    job = independent(w, up)
    w.claim(job, "two")
    w.clock.advance(3_600)
    w.refused("excluded", "POST", f"P/jobs/{job}/claim", {}, token="one")
    assert w.claim(job, "three")


def test_after_a_rejection_the_workers_of_all_attempts_are_excluded(w: CheckedWorld) -> None:
    target = w.job()
    complete(w, target, token="one")
    review = independent(w, target, role="reviewer")
    body = {"fence": w.claim(review, "three"), "target": target, "reason": "again"}
    again = w.ok("POST", f"P/jobs/{review}/reject", body, token="three")["retry"]["id"]
    complete(w, again, token="two")
    assert excluded(w, review) == {"one", "two"}
    assert w.claim(review, "three"), "who sent it back looks again"
    assert excluded(w, independent(w, again)) == {"one", "two"}, "a job that only waits for the retry"


def test_a_retry_of_an_independent_job_is_not_for_those_who_worked_before_it(w: CheckedWorld) -> None:
    first = w.job()
    complete(w, first, token="one")
    target = independent(w, first)
    complete(w, target, token="two")
    review = create(w, target)["id"]
    body = {"fence": w.claim(review, "three"), "target": target, "reason": "again"}
    again = w.ok("POST", f"P/jobs/{review}/reject", body, token="three")["retry"]
    assert again["independent"] is True
    assert excluded(w, again["id"]) == {"one"}


def test_jobs_of_plans_are_judged_alike(w: CheckedWorld) -> None:
    done = w.job()
    complete(w, done, token="one")
    body = {
        "jobs": [
            {"ref": "now", "summary": "x", "role": "reviewer", "blocked_by": [done]},
            {"ref": "work", "summary": "x", "role": "developer"},
            {"ref": "later", "summary": "x", "role": "reviewer", "blocked_by": ["work", done]},
        ]
    }
    jobs = w.ok("POST", "P/plans", body)["jobs"]
    assert excluded(w, jobs["now"]) == {"one"}
    complete(w, jobs["work"], token="two")
    assert excluded(w, jobs["later"]) == {"one", "two"}
