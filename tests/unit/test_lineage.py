"""A job and its retries: one budget, one latest retry, whoever sends the work back and when."""

from __future__ import annotations

import pytest
from tests.unit.chains import cancel, complete, events, fail, statuses, upstream
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_review import reject, review, sent_back


@pytest.fixture
def w() -> CheckedWorld:
    made = checked()
    made.enrol("critic", ("developer", "reviewer"))
    return made


def test_a_lineage_goes_on_to_its_budget(w: CheckedWorld) -> None:
    target = w.job(max_retries=2)
    complete(w, target)
    lineage, (job, fence) = [target], review(w, target)
    for count in (1, 2):
        retry = reject(w, job, fence, lineage[-1])["retry"]
        assert (retry["retry_count"], retry["reopen_of"], retry["max_retries"]) == (count, lineage[-1], 2)
        complete(w, retry["id"])
        lineage.append(retry["id"])
        fence = w.claim(job, "critic")
    body = {"fence": fence, "target": lineage[-1], "reason": "no"}
    refused = w.refused("retries_spent", "POST", f"P/jobs/{job}/reject", body, token="critic")
    assert "2 of 2" in refused.body["detail"]
    assert [w.get(name)["retried_by"] for name in lineage] == [lineage[1], lineage[2], None]
    assert upstream(w, job) == {lineage[0]: "replaced", lineage[1]: "replaced", lineage[2]: "satisfied"}
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "the budget is spent"}, token="critic")


def test_lapses_count_for_the_lineage_too(w: CheckedWorld) -> None:
    target = w.job(max_retries=1)
    w.claim(target)
    w.clock.advance(3_600)
    complete(w, target)
    assert w.get(target)["retry_count"] == 1
    job, fence = review(w, target)
    body = {"fence": fence, "target": target, "reason": "no"}
    w.refused("retries_spent", "POST", f"P/jobs/{job}/reject", body, token="critic")


def test_two_reviewers_share_one_retry(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    one, two = review(w, target), review(w, target)
    first = reject(w, *one, target, "slow")["retry"]["id"]
    answer = reject(w, *two, target, "ugly")
    assert (answer["retry"]["id"], answer["reviewer"]["status"]) == (first, "pending")
    assert answer["retry"]["retry_count"] == 1
    assert sorted(w.get(first)["downstream"]) == sorted([one[0], two[0]])
    assert [event["data"]["reason"] for event in events(w, target, "job.reopened")] == ["slow", "ugly"]
    assert len(events(w, first, "job.artifact_added")) == 1
    told = w.ok("GET", f"P/jobs/{first}/reopen-context")
    assert {(rejection["reviewer"], rejection["reason"]) for rejection in told["rejections"]} == {
        (one[0], "slow"), (two[0], "ugly"),
    }  # fmt: skip
    complete(w, first)
    assert statuses(w, [one[0], two[0]]) == ["published", "published"]


def test_a_late_reviewer_waits_for_the_latest_retry(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    one, late = review(w, target), review(w, target)
    first = reject(w, *one, target)["retry"]["id"]
    complete(w, first)
    second = reject(w, one[0], w.claim(one[0], "critic"), first)["retry"]["id"]
    answer = reject(w, *late, target)
    assert answer["retry"]["id"] == second
    assert upstream(w, late[0]) == {target: "replaced", second: "open"}
    assert w.get(target)["retried_by"] == first


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_reviewer_bound_to_a_retry_that_has_ended_opens_or_ends_at_once(w: CheckedWorld, end: str) -> None:
    target = w.job_in("completed")[0]
    one, late = review(w, target), review(w, target)
    retry = reject(w, *one, target)["retry"]["id"]
    {"completed": complete, "failed": fail, "cancelled": cancel}[end](w, retry)
    answer = reject(w, *late, target, "late")
    assert (answer["retry"]["id"], answer["retry"]["status"]) == (retry, end)
    assert answer["reviewer"]["status"] == {"completed": "published"}.get(end, end)
    assert "late" not in str(w.get(retry)["artifacts"]), "nobody works on it any more"
    assert events(w, late[0], "job.rejected")[0]["data"]["reason"] == "late"
    if end == "failed":
        w.ok("POST", f"P/jobs/{retry}/retry", {}, token="owner")
        w.pump()
        assert statuses(w, [one[0], late[0]]) == ["pending", "pending"]


def test_a_retry_that_fails_takes_the_review_along(w: CheckedWorld) -> None:
    job, retry = sent_back(w, w.job_in("completed")[0])
    fail(w, retry)
    assert w.get(job)["caused_by"] == {"upstreams": [retry], "root": retry}
