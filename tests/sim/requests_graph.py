"""The requests of requests.py that make, change or follow links between jobs."""

from __future__ import annotations

from typing import Any

from tests.sim.requests import Request, failed, fixture, owners, post
from tests.sim.world import World

REASON = "r" * 2_100
"""More than a rejection keeps, and more than travels in a head."""


def done(w: World, token: str = "agent", **fields: Any) -> str:
    """A completed job."""
    job = w.job(**fields)
    finish(w, job, token)
    return job


def finish(w: World, job: str, token: str = "agent") -> None:
    """Claim and complete it."""
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job, token=token)}, token=token)


def work(**more: Any) -> dict[str, Any]:
    """The body of a job."""
    return {"summary": "s", "role": "developer", **more}


@fixture("jobs.create", "with blockers")
def _(w: World) -> Request:
    ups = [w.job(), done(w), w.job(), failed(w)]
    w.ok("POST", f"P/jobs/{ups[3]}/restart", {})
    w.pump()
    return post("P/jobs", work(blocked_by=ups, parent=ups[0], external_id="ISSUE-7"))


@fixture("jobs.create", "under a failed job")
def _(w: World) -> Request:
    ups = [w.job(), failed(w)]
    w.pump()
    return post("P/jobs", work(blocked_by=ups))


@fixture("jobs.create", "that goes on without")
def _(w: World) -> Request:
    ups = [w.job(), failed(w), done(w)]
    return post("P/jobs", work(blocked_by=ups, on_upstream_failure="continue", independent=True))


@fixture("jobs.create", "with nothing left to wait for")
def _(w: World) -> Request:
    w.enrol("bob")
    return post("P/jobs", work(blocked_by=[done(w), done(w, "bob")], independent=True))


@fixture("jobs.create", "with many blockers")
def _(w: World) -> Request:
    """Some of them have ended; with few holds to a transaction most are written before the head."""
    ups = [w.job() for _ in range(5)] + [failed(w)]
    return post("P/jobs", work(blocked_by=ups, on_upstream_failure="match"))


@fixture("jobs.link")
def _(w: World) -> Request:
    up, job = w.job(), w.job()
    return post(f"P/jobs/{job}/links", {"upstream": up})


@fixture("jobs.link", "to a completed job")
def _(w: World) -> Request:
    w.enrol("bob")
    up, job = done(w, "bob"), w.job(independent=True)
    return post(f"P/jobs/{job}/links", {"upstream": up})


@fixture("jobs.link", "to a failed job")
def _(w: World) -> Request:
    up, job = failed(w), w.job(blocked_by=[w.job()])
    return owners(f"P/jobs/{job}/links", {"upstream": up})


def reviewed(w: World, **fields: Any) -> tuple[str, str]:
    """(a completed job, the one that reviews it)."""
    w.enrol("bob")
    target = w.job(**fields)
    review = w.job(role="reviewer", blocked_by=[target])
    finish(w, target, "bob")
    w.pump()
    return target, review


@fixture("claims.reject")
def _(w: World) -> Request:
    rule = {"role": "qa", "summary": "next"}
    target, review = reviewed(
        w, routing=[rule], constraints=["works"], context={"a": 1}, parent=w.job(), requires=[]
    )
    w.pump()
    body = {"fence": w.claim(review), "target": target, "reason": REASON}
    return post(f"P/jobs/{review}/reject", body)


def shared(w: World, *, ended: bool) -> Request:
    """Somebody else has sent the work back already."""
    target, first = reviewed(w)
    second = w.job(role="reviewer", blocked_by=[target])
    w.enrol("rev", ("reviewer",))
    fence = w.claim(first, token="rev")
    body = {"fence": fence, "target": target, "reason": "r"}
    retry = w.ok("POST", f"P/jobs/{first}/reject", body, token="rev")["retry"]["id"]
    w.pump()
    if ended:
        finish(w, retry, "bob")
        w.pump()
    return post(f"P/jobs/{second}/reject", {**body, "fence": w.claim(second), "reason": "me too"})


@fixture("claims.reject", "shared")
def _(w: World) -> Request:
    return shared(w, ended=False)


@fixture("claims.reject", "shared, ended")
def _(w: World) -> Request:
    return shared(w, ended=True)


def plan(w: World) -> dict[str, Any]:
    """A diamond behind an open and a completed job, with something of everything."""
    outside, past, gone = w.job(), done(w), failed(w)
    jobs = [
        {"ref": "a", "blocked_by": [past]},
        {"ref": "b", "blocked_by": ["a", outside], "external_id": "ISSUE-8", "parent": "a"},
        {"ref": "c", "blocked_by": ["a", gone], "on_upstream_failure": "continue", "independent": True},
        {"ref": "d", "blocked_by": ["b", "c"], "parent": outside},
        {"ref": "e", "blocked_by": [gone, "d"]},
        {"ref": "f"},
    ]
    w.pump()
    return {"jobs": [work(**job) for job in jobs]}


@fixture("plans.create")
def _(w: World) -> Request:
    return post("P/plans", plan(w))
