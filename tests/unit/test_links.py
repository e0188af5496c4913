"""Links that are added to jobs which are there already."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.sim.world import START
from tests.unit.chains import (
    NOT_THERE,
    cancel,
    chain,
    complete,
    create,
    events,
    fail,
    planned,
    statuses,
)
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import reviewed

from interlock.domain import limits
from interlock.domain.times import rfc3339

HOUR = 3_600


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def link(w: CheckedWorld, job: str, up: str, **more: Any) -> dict[str, Any]:
    return dict(w.ok("POST", f"P/jobs/{job}/links", {"upstream": up}, **more)["job"])


# ---- what it does


def test_a_published_job_waits_from_now_on(w: CheckedWorld) -> None:
    job, up = w.job(), w.job(priority="low")
    shown = link(w, job, up)
    assert (shown["status"], shown["version"], shown["blocked_by"]) == ("pending", 2, [up])
    assert shown["upstream"] == [{"id": up, "type": "blocks", "state": "open"}]
    (linked,) = events(w, job, "job.linked")
    assert (linked["from"], linked["to"], linked["data"]) == (
        "published",
        "pending",
        {"type": "blocks", "upstream": up},
    )
    w.refused("waiting_upstream", "POST", f"P/jobs/{job}/claim", {})
    assert w.ok("POST", "P/claims", {})["job"]["id"] == up, "it has left the board"
    assert w.get(up)["downstream"] == [job]
    w.ok("POST", f"P/jobs/{up}/complete", {"fence": 1, "result": {"data": 1}})
    w.pump()
    assert w.types(job) == ["job.created", "job.linked", "job.activated"]
    claimed = w.ok("POST", f"P/jobs/{job}/claim", {})
    assert [result["id"] for result in claimed["upstream_results"]] == [up]


def test_a_waiting_job_waits_for_one_more(w: CheckedWorld) -> None:
    one, two = w.job(), w.job()
    job = create(w, one)["id"]
    shown = link(w, job, two)
    assert (shown["status"], shown["blocked_by"]) == ("pending", [one, two])
    (linked,) = events(w, job, "job.linked")
    assert (linked["from"], linked["to"]) == ("pending", "pending")
    complete(w, one)
    assert w.get(job)["status"] == "pending"
    complete(w, two)
    assert w.get(job)["status"] == "published"


@pytest.mark.parametrize("continues", [False, True])
def test_a_satisfied_upstream_changes_nothing_but_the_list(w: CheckedWorld, continues: bool) -> None:
    up = w.job_in("failed" if continues else "completed")[0]
    job = w.job(on_upstream_failure="continue" if continues else "match")
    shown = link(w, job, up)
    assert (shown["status"], shown["upstream"]) == (
        "published",
        [{"id": up, "type": "blocks", "state": "satisfied"}],
    )
    (linked,) = events(w, job, "job.linked")
    assert (linked["from"], linked["to"]) == ("published", "published")
    assert w.claim(job) == 1


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_upstream_that_has_ended_takes_the_job_along(w: CheckedWorld, status: str) -> None:
    up = w.job_in(status)[0]
    job = w.job()
    below = create(w, job)["id"]
    shown = link(w, job, up)
    assert (shown["status"], shown["caused_by"]) == (status, {"upstreams": [up], "root": up})
    w.pump()
    assert w.get(below)["caused_by"] == {"upstreams": [job], "root": up}


def test_a_time_goes_on_holding(w: CheckedWorld) -> None:
    start = rfc3339(START + HOUR * 1_000)
    up = w.job()
    job, other = (create(w, not_before=start)["id"] for _ in range(2))
    link(w, job, up)
    link(w, other, up)
    complete(w, up)
    assert statuses(w, [job, other]) == ["pending", "pending"]
    w.clock.advance(HOUR)
    w.pump()
    assert statuses(w, [job, other]) == ["published", "published"]


def test_a_link_that_is_there_is_left_as_it_is(w: CheckedWorld) -> None:
    one, two, done = w.job(), w.job(), w.job_in("completed")[0]
    job = create(w, one, done)["id"]
    link(w, job, two)
    before = w.everything()
    for up in (one, two, done):
        assert link(w, job, up)["version"] == 2
    assert w.everything() == before
    target, reviewer, fence = reviewed(w)
    w.ok("POST", f"P/jobs/{reviewer}/reject", {"fence": fence, "target": target, "reason": "r"})
    replaced = link(w, reviewer, target)
    assert [up["state"] for up in replaced["upstream"]] == ["replaced", "open"]


# ---- who and when


def test_source_and_owner_may_link(w: CheckedWorld) -> None:
    w.enrol("other")
    w.viewer()
    up, job = w.job(), w.job(token="other")
    for token in ("agent", "viewer"):
        w.refused("forbidden", "POST", f"P/jobs/{job}/links", {"upstream": up}, token=token)
    assert link(w, job, up, token="other")["blocked_by"] == [up]
    more = w.job()
    assert link(w, job, more, token="owner")["blocked_by"] == sorted([up, more])


@pytest.mark.parametrize(
    "status", ["in_progress", "blocked", "unblocked", "completed", "failed", "cancelled"]
)
def test_only_what_nobody_has_started_is_linked(w: CheckedWorld, status: str) -> None:
    up, job = w.job(), w.job_in(status)[0]
    refused = w.refused("wrong_state", "POST", f"P/jobs/{job}/links", {"upstream": up})
    assert "link" not in refused.body["allowed"]


def test_a_job_that_was_started_and_given_back_can_be_linked(w: CheckedWorld) -> None:
    up, (job, fence) = w.job(), w.job_in("in_progress")
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    assert link(w, job, up)["status"] == "pending"
    complete(w, up)
    assert w.claim(job) == 3


def test_a_job_waits_for_a_thousand_at_most(w: CheckedWorld) -> None:
    job = create(w, *planned(w, 999))["id"]
    link(w, job, w.job())
    refused = w.refused("limit_reached", "POST", f"P/jobs/{job}/links", {"upstream": w.job()})
    assert "1000" in refused.body["detail"]


# ---- circles


def test_a_job_does_not_wait_for_itself(w: CheckedWorld) -> None:
    job = w.job()
    refused = w.refused("cycle", "POST", f"P/jobs/{job}/links", {"upstream": job}).body
    assert f"{job} waits for {job}" in refused["detail"]
    assert refused["errors"] == [{"path": "upstream", "message": "waits for the job"}]


@pytest.mark.parametrize("length", [2, 3, 30])
def test_no_circle_over_links_of_creation(w: CheckedWorld, length: int) -> None:
    jobs = chain(w, length)
    refused = w.refused("cycle", "POST", f"P/jobs/{jobs[0]}/links", {"upstream": jobs[-1]}).body
    way = [jobs[0], *reversed(jobs)]
    assert refused["detail"] == "it would close a circle: " + " waits for ".join(way)
    assert link(w, jobs[-1], jobs[0])["status"] == "pending", "a shorter way in the same direction is none"


def test_no_circle_over_added_links(w: CheckedWorld) -> None:
    jobs = [w.job() for _ in range(5)]
    for above, below in pairwise(jobs):
        link(w, below, above)
    for job in jobs[:-1]:
        w.refused("cycle", "POST", f"P/jobs/{job}/links", {"upstream": jobs[-1]})


def test_no_circle_over_a_branch_or_a_failed_upstream(w: CheckedWorld) -> None:
    top, side = w.job(), w.job()
    left, right = (create(w, top, side)["id"] for _ in range(2))
    bottom = create(w, left, right)["id"]
    fail(w, side)
    assert w.get(bottom)["status"] == "failed"
    w.refused("cycle", "POST", f"P/jobs/{top}/links", {"upstream": bottom})


def test_a_link_that_is_satisfied_closes_none(w: CheckedWorld) -> None:
    one = w.job()
    two = create(w, one)["id"]
    w.ok("POST", f"P/jobs/{one}/complete", {"fence": w.claim(one)})
    w.pump()
    assert link(w, two, one)["status"] == "published"
    three, four = w.job(), w.job(on_upstream_failure="continue")
    link(w, four, three)
    cancel(w, three)
    assert w.get(four)["status"] == "published"


def test_no_circle_over_the_link_of_a_rejection(w: CheckedWorld) -> None:
    target, reviewer, fence = reviewed(w)
    body = {"fence": fence, "target": target, "reason": "r"}
    retry = w.ok("POST", f"P/jobs/{reviewer}/reject", body)["retry"]["id"]
    refused = w.refused("cycle", "POST", f"P/jobs/{retry}/links", {"upstream": reviewer}).body
    assert refused["detail"].endswith(f"{retry} waits for {reviewer} waits for {retry}")


def test_the_search_for_a_circle_has_an_end(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINK_WALK", 20)
    jobs, job = chain(w, 22), w.job()
    assert link(w, job, jobs[19])["status"] == "pending"
    refused = w.refused("limit_reached", "POST", f"P/jobs/{w.job()}/links", {"upstream": jobs[-1]})
    assert "20 jobs" in refused.body["detail"]


# ---- repeats, versions, bad input


def test_a_keyed_repeat_answers_the_job_as_it_is_now(w: CheckedWorld) -> None:
    job, up = w.job(), w.job()
    first = w.call("POST", f"P/jobs/{job}/links", {"upstream": up}, key="K")
    complete(w, up)
    before = w.everything()
    again = w.call("POST", f"P/jobs/{job}/links", {"upstream": up, "type": "blocks"}, key="K2")
    assert (first.status, again.status) == (200, 200)
    again = w.call("POST", f"P/jobs/{job}/links", {"upstream": up}, key="K")
    assert (again.headers["idempotency-replayed"], again.body["job"]["status"]) == ("true", "published")
    assert w.everything() == before
    w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/links", {"upstream": w.job()}, key="K")


def test_if_match_is_heard(w: CheckedWorld) -> None:
    job, up = w.job(), w.job()
    for version in ("v2", "v0"):
        headers = {"If-Match": f'"{version}"'}
        w.refused("version_mismatch", "POST", f"P/jobs/{job}/links", {"upstream": up}, headers=headers)
    assert link(w, job, up, headers={"If-Match": '"v1"'})["version"] == 2


def test_the_upstream_must_be_a_job_that_the_caller_sees(w: CheckedWorld) -> None:
    other = w.project()
    w.enrol_in(other, "foreign")
    theirs = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="foreign")["job"][
        "id"
    ]
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("narrow", ("developer",))
    mine, hidden = w.job(token="narrow"), w.job(role="ops", token="owner")
    for unknown in (theirs, hidden, NOT_THERE, "x", mine[:-1]):
        body = {"upstream": unknown}
        refused = w.refused("unknown_job", "POST", f"P/jobs/{mine}/links", body, token="narrow")
        assert refused.body["errors"] == [{"path": "upstream", "message": f"unknown job {unknown}"}]
    for job in (hidden, theirs, NOT_THERE, "x"):
        w.refused("not_found", "POST", f"P/jobs/{job}/links", {"upstream": mine}, token="narrow")


@pytest.mark.parametrize(
    ("field", "value"),
    [("upstream", None), ("upstream", 1), ("upstream", []), ("upstream", ""), ("upstream", "JOB_1"), ("upstream", "a#b"),
     ("upstream", "x" * 81), ("type", None), ("type", "parent"), ("type", "reopen_of"), ("type", "Blocks"), ("type", 1)],
)  # fmt: skip
def test_fields_that_are_not_acceptable(w: CheckedWorld, field: str, value: Any) -> None:
    body = {"upstream": w.job(), field: value}
    refused = w.refused("invalid", "POST", f"P/jobs/{w.job()}/links", body)
    assert [error["path"] for error in refused.body["errors"]] == [field]
