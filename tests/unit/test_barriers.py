"""Barriers: jobs that wait for others, from their creation until they open."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.world import START
from tests.unit.chains import (
    NOT_THERE,
    complete,
    create,
    events,
    fail,
    planned,
    retry,
    statuses,
    upstream,
)
from tests.unit.checked import CheckedWorld, checked

from interlock.domain.times import rfc3339

HOUR = 3_600


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def hours(ahead: int) -> str:
    return rfc3339(START + ahead * HOUR * 1_000)


# ---- what a new job finds


def test_a_job_waits_until_all_its_upstream_jobs_are_completed(w: CheckedWorld) -> None:
    ups = [w.job() for _ in range(3)]
    job = create(w, *ups)
    assert (job["status"], job["published_at"]) == ("pending", None)
    assert job["blocked_by"] == ups
    assert job["upstream"] == [{"id": up, "type": "blocks", "state": "open"} for up in ups]
    for number, up in enumerate(ups):
        assert w.get(job["id"])["status"] == "pending"
        complete(w, up)
        assert list(upstream(w, job["id"]).values()) == ["satisfied"] * (number + 1) + ["open"] * (2 - number)
    assert w.get(job["id"])["status"] == "published"
    (activated,) = events(w, job["id"], "job.activated")
    assert (activated["from"], activated["to"], activated["actor"]["kind"]) == (
        "pending",
        "published",
        "system",
    )
    assert activated["data"] == {"activated_by": "upstream", "upstream": ups[-1]}


def test_a_job_whose_upstream_jobs_are_all_completed_is_published_at_once(w: CheckedWorld) -> None:
    ups = [w.job_in("completed")[0] for _ in range(2)]
    job = create(w, *ups)
    assert (job["status"], job["version"]) == ("published", 1)
    assert job["published_at"] == job["created_at"]
    assert [up["state"] for up in job["upstream"]] == ["satisfied", "satisfied"]
    w.pump()
    assert w.types(job["id"]) == ["job.created"]


@pytest.mark.parametrize(("status", "reason"), [("failed", "failure_reason"), ("cancelled", "cancel_reason")])
def test_a_job_under_an_ended_upstream_ends_at_once(w: CheckedWorld, status: str, reason: str) -> None:
    done, dead = w.job_in("completed")[0], w.job_in(status)[0]
    job = create(w, done, dead, w.job())
    assert job["status"] == status
    assert job[reason] == f"upstream {dead} {status}"
    assert job["caused_by"] == {"upstreams": [dead], "root": dead}
    assert [up["state"] for up in job["upstream"]] == ["satisfied", "failed", "open"]
    assert {**job, "downstream": [], "downstream_more": False} == w.get(job["id"])
    (ended,) = events(w, job["id"], f"job.{status}")
    assert (ended["from"], ended["actor"]["kind"]) == ("pending", "system")
    assert ended["data"] == {reason: job[reason], "caused_by": job["caused_by"]}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_continues_takes_an_ended_upstream_as_satisfied(w: CheckedWorld, status: str) -> None:
    dead = w.job_in(status)[0]
    job = create(w, dead, on_upstream_failure="continue")
    assert (job["status"], job["caused_by"]) == ("published", None)
    assert job["upstream"] == [{"id": dead, "type": "blocks", "state": "satisfied"}]
    other = w.job()
    waiting = create(w, dead, other, on_upstream_failure="continue")["id"]
    assert upstream(w, waiting) == {dead: "satisfied", other: "open"}
    fail(w, other)
    assert w.get(waiting)["status"] == "published"


def test_a_satisfied_link_stays_satisfied(w: CheckedWorld) -> None:
    one, two = w.job(), w.job()
    job = create(w, one, two, on_upstream_failure="continue")["id"]
    fail(w, one)
    retry(w, one)
    assert upstream(w, job) == {one: "satisfied", two: "open"}
    complete(w, two)
    assert w.get(job)["status"] == "published", "although one is open again"
    assert w.get(one)["status"] == "published"


def test_an_upstream_and_a_time_both_hold(w: CheckedWorld) -> None:
    one, two, dead = w.job(), w.job(), w.job_in("failed")[0]
    first, second = (create(w, up, not_before=hours(1))["id"] for up in (one, two))
    complete(w, one)
    assert w.get(first)["status"] == "pending", "its time has not come"
    w.clock.advance(HOUR)
    w.pump()
    assert statuses(w, [first, second]) == ["published", "pending"]
    assert events(w, first, "job.activated")[0]["data"] == {"activated_by": "not_before"}
    complete(w, two)
    assert w.get(second)["status"] == "published"
    assert events(w, second, "job.activated")[0]["data"] == {"activated_by": "upstream", "upstream": two}
    assert create(w, dead, not_before=hours(3))["status"] == "failed"
    done = create(w, one, not_before=hours(3))
    assert (done["status"], done["upstream"][0]["state"]) == ("pending", "satisfied")


def test_a_thing_that_is_named_twice_holds_once(w: CheckedWorld) -> None:
    up = w.job()
    job = create(w, up, up, up)
    assert job["blocked_by"] == [up]
    (created,) = events(w, job["id"], "job.created")
    assert created["data"]["blocked_by"] == [up]
    complete(w, up)
    assert w.get(job["id"])["status"] == "published"


def test_a_job_waits_for_a_thousand(w: CheckedWorld) -> None:
    ups = planned(w, 1_000)
    body = {"summary": "work", "role": "developer", "blocked_by": [*ups, w.job()]}
    refused = w.call("POST", "P/jobs", body)
    assert (refused.code, refused.body["errors"][0]["path"]) == ("invalid", "blocked_by")
    job = create(w, *ups)
    assert (job["status"], job["blocked_by"]) == ("pending", ups)
    for up in ups:
        assert w.bare("POST", f"P/jobs/{up}/claim", {}).status == 200
    for up in ups[:-1]:
        assert w.bare("POST", f"P/jobs/{up}/complete", {"fence": 1}).status == 200
    w.pump()
    states = upstream(w, job["id"])
    assert [up for up, state in states.items() if state == "open"] == [ups[-1]]
    assert w.get(job["id"])["status"] == "pending"
    w.ok("POST", f"P/jobs/{ups[-1]}/complete", {"fence": 1})
    w.pump()
    assert w.get(job["id"])["status"] == "published"
    assert w.types(job["id"]).count("job.activated") == 1


# ---- references


def test_upstream_jobs_must_be_jobs_that_the_caller_sees(w: CheckedWorld) -> None:
    other = w.project()
    w.enrol_in(other, "foreign")
    theirs = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="foreign")["job"][
        "id"
    ]
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("narrow", ("developer",))
    mine, hidden = w.job(token="narrow"), w.job(role="ops", token="owner")
    for unknown in (theirs, hidden, NOT_THERE, "x", "agt_1"):
        body = {"summary": "x", "role": "developer", "blocked_by": [mine, unknown]}
        refused = w.refused("unknown_job", "POST", "P/jobs", body, token="narrow")
        assert refused.body["errors"] == [{"path": "blocked_by/1", "message": f"unknown job {unknown}"}]
    many = [f"job_{number:026}" for number in range(1_000)]
    refused = w.refused(
        "unknown_job", "POST", "P/jobs", {"summary": "x", "role": "developer", "blocked_by": many}
    )
    assert len(refused.body["errors"]) == 100
    assert "900 more" in refused.body["detail"]
    assert len(refused.body["detail"]) < 500


@pytest.mark.parametrize(
    "value", [None, "job_x", [None], [1], [""], ["JOB"], ["a b"], [[]], [{}], {"a": 1}, ["x" * 81]]
)
def test_what_is_no_list_of_ids(w: CheckedWorld, value: Any) -> None:
    refused = w.refused(
        "invalid", "POST", "P/jobs", {"summary": "x", "role": "developer", "blocked_by": value}
    )
    assert refused.body["errors"][0]["path"].startswith("blocked_by")


@pytest.mark.parametrize("value", [None, "", "Match", "ignore", 1, True, []])
def test_what_is_no_way_to_take_a_failure(w: CheckedWorld, value: Any) -> None:
    body = {"summary": "x", "role": "developer", "on_upstream_failure": value}
    refused = w.refused("invalid", "POST", "P/jobs", body)
    assert [error["path"] for error in refused.body["errors"]] == ["on_upstream_failure"]


def test_a_keyed_repeat_finds_the_job_as_it_is_now(w: CheckedWorld) -> None:
    up = w.job()
    body = {"summary": "x", "role": "developer", "blocked_by": [up]}
    first = w.call("POST", "P/jobs", body, key="K")
    complete(w, up)
    again = w.call("POST", "P/jobs", body, key="K")
    assert (first.status, again.status) == (201, 200)
    assert again.body["job"]["id"] == first.body["job"]["id"]
    assert (again.body["job"]["status"], again.body["job"]["upstream"][0]["state"]) == (
        "published",
        "satisfied",
    )
    w.refused("idempotency_mismatch", "POST", "P/jobs", {**body, "blocked_by": []}, key="K")
