"""What callers see of jobs that wait: lists, refusals, explanations, and the results that a claim brings along."""

from __future__ import annotations

import pytest
from tests.sim.world import START
from tests.unit.chains import cancel, complete, create, fail, planned
from tests.unit.checked import CheckedWorld, checked

from interlock.domain.times import rfc3339

HOUR = 3_600


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def hours(ahead: int) -> str:
    return rfc3339(START + ahead * HOUR * 1_000)


def test_a_job_names_those_that_wait_or_waited_for_it(w: CheckedWorld) -> None:
    up = w.job()
    below = sorted(create(w, up)["id"] for _ in range(3))
    shown = w.get(up)
    assert (sorted(shown["downstream"]), shown["downstream_more"]) == (below, False)
    complete(w, up)
    assert sorted(w.get(up)["downstream"]) == below
    planned(w, 101, blocked_by=[up])
    shown = w.get(up)
    assert (len(shown["downstream"]), shown["downstream_more"]) == (100, True)


def test_a_claim_says_what_the_job_waits_for(w: CheckedWorld) -> None:
    ups = [w.job() for _ in range(7)]
    job, timed = create(w, ups[0])["id"], create(w, ups[0], not_before=hours(1))["id"]
    refused = w.refused("waiting_upstream", "POST", f"P/jobs/{job}/claim", {})
    assert refused.body["job_status"] == "pending"
    assert ups[0] in refused.body["detail"]
    w.refused("waiting_upstream", "POST", f"P/jobs/{timed}/claim", {})
    detail = w.refused("waiting_upstream", "POST", f"P/jobs/{create(w, *ups)['id']}/claim", {}).body["detail"]
    assert sum(up in detail for up in ups) == 5
    assert detail.endswith(" and others")
    complete(w, ups[0])
    refused = w.refused("not_yet", "POST", f"P/jobs/{timed}/claim", {})
    assert refused.body["until"] == hours(1)
    assert w.claim(job) == 1


def test_explain_lists_what_applies(w: CheckedWorld) -> None:
    up, other = w.job(), w.job()
    job = create(w, up, other, not_before=hours(1))["id"]
    complete(w, up)
    told = w.ok("GET", f"P/jobs/{job}/explain")
    assert (told["claimable"], [reason["code"] for reason in told["reasons"]]) == (
        False,
        ["waiting_upstream", "not_yet"],
    )
    assert told["reasons"][0]["detail"] == f"it waits for {other}"
    complete(w, other)
    told = w.ok("GET", f"P/jobs/{job}/explain", token="owner")
    assert [reason["code"] for reason in told["reasons"]] == ["not_yet"], "every upstream is completed"
    w.clock.advance(HOUR)
    w.pump()
    assert w.ok("GET", f"P/jobs/{job}/explain")["claimable"]
    dead = create(w, w.job_in("failed")[0])["id"]
    assert [reason["code"] for reason in w.ok("GET", f"P/jobs/{dead}/explain")["reasons"]] == ["ended"]


def test_lists_and_counts_have_waiting_jobs_as_pending(w: CheckedWorld) -> None:
    up = w.job()
    waiting, timed = create(w, up)["id"], create(w, not_before=hours(1))["id"]
    listed = w.ok("GET", "P/jobs", query={"status": "pending"})["items"]
    assert {job["id"] for job in listed} == {waiting, timed}
    assert w.ok("GET", "P/stats", token="owner")["stats"]["pending"]["count"] == 2
    complete(w, up)
    assert [job["id"] for job in w.ok("GET", "P/jobs", query={"status": "pending"})["items"]] == [timed]
    cancel(w, timed)
    assert w.ok("GET", "P/jobs", query={"status": "pending"})["items"] == []


def test_claim_next_passes_by_what_waits(w: CheckedWorld) -> None:
    up = w.job(priority="low")
    job = create(w, up, priority="urgent")["id"]
    answer = w.ok("POST", "P/claims", {})
    assert answer["job"]["id"] == up
    assert "upstream_results" not in answer
    assert w.ok("POST", "P/claims", {})["job"] is None
    w.ok("POST", f"P/jobs/{up}/complete", {"fence": 1, "result": {"summary": "s", "data": {"n": 1}}})
    w.pump()
    answer = w.ok("POST", "P/claims", {})
    assert answer["job"]["id"] == job
    result = {"summary": "s", "data": {"n": 1}, "artifacts": []}
    assert answer["upstream_results"] == [
        {"id": up, "summary": "work", "role": "developer", "status": "completed", "result": result}
    ]


def test_a_claim_carries_the_results_of_twenty_and_names_the_rest(w: CheckedWorld) -> None:
    ups = planned(w, 22)
    complete(w, *ups[:21], data=[1])
    dead = w.job()
    fail(w, dead)
    job = create(w, *ups, dead, on_upstream_failure="continue")["id"]
    complete(w, ups[21])
    results = w.ok("POST", f"P/jobs/{job}/claim", {})["upstream_results"]
    assert [result["id"] for result in results] == [*ups, dead]
    assert [result["result"]["data"] for result in results[:20]] == [[1]] * 20
    assert results[20] == {**results[20], "result": None, "omitted": True}
    assert (results[21]["result"], results[22]["status"]) == (None, "failed")
    assert not any("omitted" in result for result in results[21:]), "they have no result"


def test_results_of_a_claim_have_a_size_in_all(w: CheckedWorld) -> None:
    ups = planned(w, 6)
    complete(w, *ups, data="x" * 60_000)
    results = w.ok("POST", f"P/jobs/{create(w, *ups)['id']}/claim", {})["upstream_results"]
    assert [result.get("omitted", False) for result in results] == [False] * 4 + [True] * 2
    small = [*planned(w, 1), *ups]
    complete(w, small[0], data=1)
    results = w.ok("POST", f"P/jobs/{create(w, *small)['id']}/claim", {})["upstream_results"]
    assert results[0]["result"]["data"] == 1
