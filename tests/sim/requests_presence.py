"""The requests of requests.py about agents that are stopped, what owners tell, and what was used."""

from __future__ import annotations

from tests.sim.requests import Request, fixture, owners, post
from tests.sim.world import World

USAGE = {"input_tokens": 900, "output_tokens": 90, "usd": 0.25, "seconds": 12.5, "model": "m"}


def daily(w: World, **amounts: float) -> None:
    """A budget of the day for the project and for developers."""
    budget = amounts or {"usd": 1_000}
    w.ok("PATCH", "P", {"settings": {"daily_budget": budget}}, token="owner")
    w.ok("PATCH", "P/roles/developer", {"daily_budget": budget}, token="owner")


@fixture("agents.stop")
def _(w: World) -> Request:
    bob = w.enrol("bob")
    for _ in range(2):
        w.claim(w.job(), token="bob")
    return owners(f"P/agents/{bob}/stop", {"reason": "r", "then": "fail"})


@fixture("projects.resume", "an agent")
def _(w: World) -> Request:
    bob = w.enrol("bob")
    w.ok("POST", "P/pause", {"agent": bob}, token="owner")
    w.ok("POST", f"P/agents/{bob}/stop", {"reason": "r"}, token="owner")
    return owners("P/resume", {"agent": bob})


@fixture("projects.broadcast")
def _(w: World) -> Request:
    return owners("P/broadcasts", {"text": "t" * 400, "roles": ["qa"], "expires_in": 600})


@fixture("projects.unbroadcast")
def _(w: World) -> Request:
    made = w.ok("POST", "P/broadcasts", {"text": "soon"}, token="owner")["broadcast"]["id"]
    return owners(f"P/broadcasts/{made}", method="DELETE", key=None, repeat=(404,))


@fixture("claims.heartbeat", "reports")
def _(w: World) -> Request:
    daily(w)
    jobs = [
        {"id": job, "fence": w.claim(job), "usage": USAGE} for job in (w.job(), w.job(budget={"usd": 0.1}))
    ]
    w.clock.advance(20)
    return post("P/heartbeat", {"jobs": jobs}, replays=False)


@fixture("claims.complete", "reports")
def _(w: World) -> Request:
    daily(w)
    job = w.job(budget={"tokens": 100})
    return post(f"P/jobs/{job}/complete", {"fence": w.claim(job), "usage": USAGE})


@fixture("claims.release", "reports")
def _(w: World) -> Request:
    daily(w)
    job = w.job()
    return post(f"P/jobs/{job}/release", {"fence": w.claim(job), "usage": USAGE})
