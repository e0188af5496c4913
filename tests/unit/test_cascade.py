"""An upstream that fails takes along what waits for it, and brings it back; at full depth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.sim.world import START
from tests.unit.chains import cancel, chain, complete, create, events, fail, retry, statuses, upstream
from tests.unit.checked import CheckedWorld, checked

from interlock.domain.times import rfc3339

HOUR = 3_600
DEPTH = 30


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def hours(ahead: int) -> str:
    return rfc3339(START + ahead * HOUR * 1_000)


def test_a_failure_goes_down_to_the_last_and_names_its_root(w: CheckedWorld) -> None:
    jobs = chain(w, DEPTH)
    fail(w, jobs[0])
    assert statuses(w, jobs) == ["failed"] * DEPTH
    for above, below in pairwise(jobs):
        job = w.get(below)
        assert job["caused_by"] == {"upstreams": [above], "root": jobs[0]}
        assert job["failure_reason"] == f"upstream {above} failed"
        assert (job["assignee"], job["fence"], job["retry_count"], job["last_failure"]) == (None, 0, 0, None)
        assert upstream(w, below) == {above: "failed"}
    assert w.get(jobs[0])["caused_by"] is None
    (ended,) = events(w, jobs[-1], "job.failed")
    assert (ended["from"], ended["to"], ended["actor"]["kind"]) == ("pending", "failed", "system")
    assert ended["data"]["caused_by"] == {"upstreams": [jobs[-2]], "root": jobs[0]}


@pytest.mark.parametrize("way", ["retry", "restart"])
def test_what_failed_by_cascade_comes_back_with_its_root(w: CheckedWorld, way: str) -> None:
    jobs = chain(w, DEPTH)
    fail(w, jobs[0])
    w.ok("POST", f"P/jobs/{jobs[0]}/{way}", {}, token="owner" if way == "retry" else "agent")
    w.pump()
    assert statuses(w, jobs) == ["published" if way == "retry" else "in_progress"] + ["pending"] * (DEPTH - 1)
    for job in map(w.get, jobs[1:]):
        assert (job["caused_by"], job["failure_reason"], job["failed_at"], job["retry_count"]) == (
            None, None, None, 0
        )  # fmt: skip
        assert [up["state"] for up in job["upstream"]] == ["open"]
    (revived,) = events(w, jobs[-1], "job.revived")
    assert (revived["from"], revived["to"], revived["actor"]["kind"]) == ("failed", "pending", "system")
    assert revived["data"] == {"root": jobs[0]}
    if way == "retry":
        complete(w, *jobs)
    else:
        w.ok("POST", f"P/jobs/{jobs[0]}/complete", {"fence": 2})
        w.pump()
        complete(w, *jobs[1:])
    assert statuses(w, jobs) == ["completed"] * DEPTH
    assert w.types(jobs[-1]).count("job.activated") == 1


@pytest.mark.parametrize("way", ["lapse", "stop"])
def test_every_kind_of_failure_is_taken_along(w: CheckedWorld, way: str) -> None:
    jobs = chain(w, 3, on_expire="fail")
    w.claim(jobs[0])
    if way == "lapse":
        w.clock.advance(HOUR)
    else:
        w.ok("POST", f"P/jobs/{jobs[0]}/stop", {"reason": "no", "then": "fail"}, token="owner")
    w.pump()
    assert statuses(w, jobs) == ["failed"] * 3
    assert w.get(jobs[2])["caused_by"]["root"] == jobs[0]


def test_a_cancellation_goes_down_to_the_last_and_stays(w: CheckedWorld) -> None:
    jobs = chain(w, DEPTH)
    cancel(w, jobs[0])
    assert statuses(w, jobs) == ["cancelled"] * DEPTH
    last = w.get(jobs[-1])
    assert last["caused_by"] == {"upstreams": [jobs[-2]], "root": jobs[0]}
    assert last["cancel_reason"] == f"upstream {jobs[-2]} cancelled"
    for verb in ("retry", "cancel"):
        body = {"reason": "no"} if verb == "cancel" else {}
        w.refused("wrong_state", "POST", f"P/jobs/{jobs[-1]}/{verb}", body, token="owner")


def test_a_diamond_fails_once_and_comes_back_once(w: CheckedWorld) -> None:
    top = w.job()
    left, right = (create(w, top)["id"] for _ in range(2))
    bottom = create(w, left, right)["id"]
    fail(w, top)
    assert statuses(w, [left, right, bottom]) == ["failed"] * 3
    assert w.get(bottom)["caused_by"]["root"] == top
    assert w.types(bottom) == ["job.created", "job.failed"]
    retry(w, top)
    assert statuses(w, [left, right, bottom]) == ["pending"] * 3
    assert w.types(bottom) == ["job.created", "job.failed", "job.revived"]
    complete(w, top, left, right)
    assert w.get(bottom)["status"] == "published"


def test_it_comes_back_only_when_no_upstream_is_failed(w: CheckedWorld) -> None:
    one, two, three = w.job(), w.job(), w.job()
    job = create(w, one, two, three)["id"]
    below = create(w, job)["id"]
    fail(w, one, two)
    assert statuses(w, [job, below]) == ["failed", "failed"]
    retry(w, one)
    assert statuses(w, [job, below]) == ["failed", "failed"], "two is still failed"
    assert upstream(w, job) == {one: "open", two: "failed", three: "open"}
    complete(w, one, three)
    assert upstream(w, job) == {one: "satisfied", two: "failed", three: "satisfied"}
    assert w.get(job)["caused_by"] == {"upstreams": [two], "root": two}
    retry(w, two)
    assert statuses(w, [job, below]) == ["pending", "pending"]
    complete(w, two)
    assert statuses(w, [job, below]) == ["published", "pending"]


def test_the_cause_that_is_named_is_one_that_is_still_there(w: CheckedWorld) -> None:
    one, two = w.job(), w.job()
    middle = create(w, one, two)["id"]
    below = create(w, middle)["id"]
    fail(w, one)
    assert w.get(below)["caused_by"] == {"upstreams": [middle], "root": one}
    fail(w, two)
    retry(w, one)
    complete(w, one)
    assert w.get(middle)["caused_by"] == {"upstreams": [two], "root": two}
    assert w.get(below)["caused_by"] == {"upstreams": [middle], "root": two}
    refused = w.refused("wrong_state", "POST", f"P/jobs/{below}/retry", {}, token="owner")
    assert two in refused.body["detail"]


@pytest.mark.parametrize("first", ["failed", "cancelled"])
def test_failed_and_cancelled_together(w: CheckedWorld, first: str) -> None:
    broken, unwanted = w.job(), w.job()
    job = create(w, broken, unwanted)["id"]
    below = create(w, job)["id"]
    if first == "failed":
        fail(w, broken)
        cancel(w, unwanted)
    else:
        cancel(w, unwanted)
        fail(w, broken)
    assert w.get(job)["status"] == w.get(below)["status"]
    retry(w, broken)
    complete(w, broken)
    assert statuses(w, [job, below]) == ["cancelled", "cancelled"], "what was cancelled never comes back"
    assert w.get(below)["caused_by"]["root"] == unwanted


def test_a_job_in_between_may_go_on_without_its_upstream(w: CheckedWorld) -> None:
    top = w.job()
    middle = create(w, top, on_upstream_failure="continue")["id"]
    below = create(w, middle)["id"]
    fail(w, top)
    assert statuses(w, [middle, below]) == ["published", "pending"]
    fail(w, middle)
    assert w.get(below)["caused_by"] == {"upstreams": [middle], "root": middle}


# ---- what may be done about it


@pytest.mark.parametrize(("verb", "token"), [("retry", "owner"), ("restart", "agent")])
def test_it_is_not_brought_back_alone(w: CheckedWorld, verb: str, token: str) -> None:
    jobs = chain(w, 3)
    fail(w, jobs[0])
    refused = w.refused("wrong_state", "POST", f"P/jobs/{jobs[2]}/{verb}", {}, token=token).body
    assert "failed by cascade" in refused["detail"]
    assert jobs[0] in refused["detail"], "the root is what can be retried"
    assert (refused["job_status"], refused["allowed"]) == ("failed", ["cancel"])


def test_it_can_be_cancelled_and_takes_along_what_waits_for_it(w: CheckedWorld) -> None:
    jobs = chain(w, 4)
    fail(w, jobs[0])
    w.ok("POST", f"P/jobs/{jobs[1]}/cancel", {"reason": "not wanted"})
    w.pump()
    assert statuses(w, jobs) == ["failed", "cancelled", "cancelled", "cancelled"]
    assert w.get(jobs[1])["caused_by"] is None
    assert w.get(jobs[3])["caused_by"] == {"upstreams": [jobs[2]], "root": jobs[1]}
    retry(w, jobs[0])
    assert statuses(w, jobs) == ["published", "cancelled", "cancelled", "cancelled"]


def test_nobody_claims_links_or_edits_it_but_its_owner_may_move_it(w: CheckedWorld) -> None:
    jobs = chain(w, 2)
    fail(w, jobs[0])
    w.refused("ended", "POST", f"P/jobs/{jobs[1]}/claim", {})
    w.refused("wrong_state", "POST", f"P/jobs/{jobs[1]}/links", {"upstream": w.job()})
    version = {"If-Match": f'"v{w.get(jobs[1])["version"]}"'}
    w.refused("wrong_state", "PATCH", f"P/jobs/{jobs[1]}", {"summary": "x"}, headers=version)
    moved = w.ok("PATCH", f"P/jobs/{jobs[1]}", {"role": "qa"}, headers=version, token="owner")["job"]
    assert (moved["status"], moved["role"], moved["caused_by"]["root"]) == ("failed", "qa", jobs[0])
    retry(w, jobs[0])
    assert w.get(jobs[1])["status"] == "pending"


def test_it_is_no_spent_retry_that_an_owner_is_told_about(w: CheckedWorld) -> None:
    jobs = chain(w, 2, max_retries=0)
    fail(w, jobs[0])
    notices = w.ok("GET", "P/me", token="owner")["notices"]
    assert [notice["job"] for notice in notices if notice["code"] == "retries_spent"] == [jobs[0]]


def test_it_keeps_its_external_id(w: CheckedWorld) -> None:
    top = w.job()
    job = create(w, top, external_id="T-1")["id"]
    fail(w, top)
    body = {"summary": "x", "role": "developer", "external_id": "T-1"}
    assert w.refused("already_exists", "POST", "P/jobs", body).body["job"] == job
    retry(w, top)
    complete(w, top, job)
    assert create(w, external_id="T-1")["status"] == "published"


# ---- times


def test_a_deadline_does_not_strike_what_failed_and_is_met_when_it_comes_back(w: CheckedWorld) -> None:
    top = w.job()
    near, far = create(w, top, deadline=hours(1))["id"], create(w, top, deadline=hours(9))["id"]
    fail(w, top)
    w.clock.advance(2 * HOUR)
    w.pump()
    assert not w.get(near)["overdue"]
    assert "job.overdue" not in w.types(near)
    retry(w, top)
    assert (w.get(near)["overdue"], w.get(far)["overdue"]) == (True, False)
    assert w.types(near) == ["job.created", "job.failed", "job.revived", "job.overdue"]
    for _ in range(8):
        w.clock.advance(HOUR)
        w.pump()
    assert w.types(far).count("job.overdue") == 1


def test_a_deadline_may_cancel_what_has_come_back(w: CheckedWorld) -> None:
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")
    top = w.job()
    job = create(w, top, deadline=hours(1))["id"]
    below = create(w, job)["id"]
    fail(w, top)
    w.clock.advance(2 * HOUR)
    retry(w, top)
    assert statuses(w, [top, job, below]) == ["published", "cancelled", "cancelled"]
    assert w.get(below)["caused_by"]["root"] == job


@pytest.mark.parametrize("back_after", [0, 0.5, 2])
def test_a_start_holds_what_has_come_back(w: CheckedWorld, back_after: float) -> None:
    top = w.job()
    job = create(w, top, not_before=hours(1))["id"]
    fail(w, top)
    w.clock.advance(back_after * HOUR)
    w.pump()
    assert w.get(job)["status"] == "failed"
    retry(w, top)
    complete(w, top)
    assert w.get(job)["status"] == ("published" if back_after > 1 else "pending")
    for _ in range(5):
        w.clock.advance(HOUR / 4)
        w.pump()
    assert w.get(job)["status"] == "published"
    assert w.types(job).count("job.activated") == 1
