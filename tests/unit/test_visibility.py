"""Who sees a job where a project shows each role its own jobs: what is linked with them too, by its id."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim.meter import metered
from tests.sim.world import world
from tests.unit.checked import CheckedWorld, checked

from interlock.app import neighbours, references

PATHS = ("", "/events", "/explain", "/graph")


@pytest.fixture
def w() -> CheckedWorld:
    made = checked()
    made.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    made.ok("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner")
    made.enrol("cook", ("cook",))
    made.enrol("dev", ("developer",))
    return made


def done(w: CheckedWorld, job: str) -> str:
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job)})
    w.pump()
    return job


def upstream(w: CheckedWorld) -> str:
    job = w.job()
    w.job(role="cook", blocked_by=[job], token="owner")
    return job


def linked_later(w: CheckedWorld) -> str:
    job, down = w.job(), w.job(role="cook", token="owner")
    w.ok("POST", f"P/jobs/{down}/links", {"upstream": job}, token="owner")
    return job


def downstream(w: CheckedWorld) -> str:
    return w.job(blocked_by=[w.job(role="cook", token="owner")], token="owner")


def downstream_of_a_later_link(w: CheckedWorld) -> str:
    job, up = w.job(), w.job(role="cook", token="owner")
    w.ok("POST", f"P/jobs/{job}/links", {"upstream": up}, token="owner")
    return job


def parent(w: CheckedWorld) -> str:
    job = w.job()
    w.job(role="cook", parent=job, token="owner")
    return job


def child(w: CheckedWorld) -> str:
    return w.job(parent=w.job(role="cook", token="owner"), token="owner")


def created(w: CheckedWorld) -> str:
    """What the agent created is of another role, and what links to that is of another one still."""
    return w.job(blocked_by=[w.job(role="qa", token="cook")])


def routed_to(w: CheckedWorld) -> str:
    return done(w, w.job(routing=[{"role": "cook", "summary": "cook it"}]))


def reopened(w: CheckedWorld) -> tuple[str, str]:
    work = done(w, w.job(token="owner"))
    review = w.job(role="qa", blocked_by=[work], token="owner")
    body = {"fence": w.claim(review), "target": work, "reason": "no"}
    retry = str(w.ok("POST", f"P/jobs/{review}/reject", body)["retry"]["id"])
    return work, retry


def retried_by(w: CheckedWorld) -> str:
    work, retry = reopened(w)
    w.ok("PATCH", f"P/jobs/{retry}", {"role": "cook"}, token="owner", headers={"If-Match": '"v1"'})
    return work


LINKS: list[Callable[[CheckedWorld], str]] = [
    upstream, linked_later, downstream, downstream_of_a_later_link, parent, child, created, routed_to, retried_by,
]  # fmt: skip


@pytest.mark.parametrize("made", LINKS, ids=lambda made: made.__name__)
def test_what_is_linked_is_seen(w: CheckedWorld, made: Callable[[CheckedWorld], str]) -> None:
    job = made(w)
    for path in PATHS:
        assert w.call("GET", f"P/jobs/{job}{path}", token="cook").status == 200
    assert job not in {item["id"] for item in w.ok("GET", "P/jobs", token="cook")["items"]}, (
        "lists are of one's own"
    )


def test_seeing_is_no_right_to_work(w: CheckedWorld) -> None:
    job = upstream(w)
    assert w.call("POST", f"P/jobs/{job}/claim", {}, token="cook").code == "wrong_role"
    assert w.call("POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="cook").code == "forbidden"


def test_a_link_leads_one_step(w: CheckedWorld) -> None:
    first = w.job()
    second = w.job(blocked_by=[first])
    third = w.job(role="cook", blocked_by=[second], token="owner")
    assert [w.call("GET", f"P/jobs/{job}", token="cook").status for job in (first, second, third)] == [
        404,
        200,
        200,
    ]
    shown = w.ok("GET", f"P/jobs/{third}/graph", token="cook", query={"depth": 5})
    assert first not in {node["id"] for node in shown["nodes"]}


def test_what_is_not_linked_is_like_what_does_not_exist(w: CheckedWorld) -> None:
    w.job(role="cook", token="owner")
    job = w.job(blocked_by=[w.job()], parent=w.job())
    unknown = w.refused("not_found", "GET", f"P/jobs/job_{'0' * 26}", token="cook")
    for path in PATHS:
        assert w.refused("not_found", "GET", f"P/jobs/{job}{path}", token="cook").body == unknown.body


def test_an_agent_without_a_role_follows_no_link(w: CheckedWorld) -> None:
    up = done(w, w.job())
    job = w.job(role="cook", blocked_by=[up], token="owner")
    w.claim(job, "cook")
    w.ok("GET", f"P/jobs/{up}", token="cook")
    w.ok("DELETE", "P/roles/cook", token="owner")
    w.ok("GET", f"P/jobs/{job}", token="cook")
    w.refused("not_found", "GET", f"P/jobs/{up}", token="cook")


def test_what_is_seen_may_be_named(w: CheckedWorld) -> None:
    job, hidden = upstream(w), w.job()
    body = {"summary": "x", "role": "cook"}
    w.ok("POST", "P/jobs", {**body, "blocked_by": [job], "parent": job}, token="cook")
    reply = w.refused("unknown_job", "POST", "P/jobs", {**body, "blocked_by": [job, hidden]}, token="cook")
    assert [error["path"] for error in reply.body["errors"]] == ["blocked_by/1"]


def test_a_reviewer_sends_back_what_another_role_has_made(w: CheckedWorld) -> None:
    work = done(w, w.job())
    review = w.job(role="cook", blocked_by=[work], token="owner")
    fence = w.claim(review, "cook")
    assert w.ok("GET", f"P/jobs/{work}", token="cook")["job"]["status"] == "completed"
    w.ok("POST", f"P/jobs/{review}/reject", {"fence": fence, "target": work, "reason": "no"}, token="cook")


def test_of_many_references_only_so_many_are_followed(
    w: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "FOLLOWED", 2)
    jobs = [upstream(w) for _ in range(3)]
    body = {"summary": "x", "role": "cook"}
    w.ok("POST", "P/jobs", {**body, "blocked_by": jobs[:2]}, token="cook")
    w.refused("unknown_job", "POST", "P/jobs", {**body, "blocked_by": jobs}, token="cook")


def test_the_look_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that thousands wait for costs a page of links; what lies beyond does not count."""
    meters = []

    def wrap(store):
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    monkeypatch.setattr(neighbours, "LOOKED_AT", 3)
    w = world(wrap=wrap)
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("cook", ("ops",))
    job = w.job(blocked_by=[w.job() for _ in range(20)])
    for _ in range(20):
        w.job(blocked_by=[job])
    reads = []
    for _ in range(2):
        meters[0].reads = 0
        assert w.call("GET", f"P/jobs/{job}", token="cook").status == 404
        reads.append(meters[0].reads)
        for _ in range(20):
            w.job(blocked_by=[job])
    assert reads[0] == reads[1] <= 3 + 1 + 3 + 1 + 3
    meters[0].reads = 0
    assert w.call("GET", f"P/jobs/{job}").status == 200
    assert meters[0].log[-1][0] != "query"
