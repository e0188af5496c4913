"""The requests of requests.py that claim under caps."""

from __future__ import annotations

from typing import Any

from tests.sim.requests import Request, failed, fixture, post
from tests.sim.world import World


def cap(w: World, kind: str, claims: int | None, agent: str = "") -> None:
    """Set or lift the cap of the project, of role developer, or of an agent (of the world's own, unless its id is given)."""
    path, body = {
        "project": ("P", {"settings": {"max_claims": claims}}),
        "role": ("P/roles/developer", {"max_claims": claims}),
        "agent": (f"P/agents/{agent or w.agent.split('.')[1]}", {"max_claims": claims}),
    }[kind]
    w.ok("PATCH", path, body, token="owner")


def capped(w: World, claims: int = 1) -> World:
    """A world with every cap that there is."""
    for kind in ("agent", "role", "project"):
        cap(w, kind, claims)
    return w


def held(w: World, token: str = "agent", **fields: Any) -> tuple[str, int]:
    """A job that an agent has claimed; (id, fence)."""
    job = w.job(**fields)
    return job, w.claim(job, token=token)


def lapsed(w: World, **fields: Any) -> None:
    """Somebody holds a job under every cap of one, and its lease has lapsed."""
    w.enrol("bob")
    held(capped(w), token="bob", lease_seconds=30, **fields)
    w.clock.advance(40)


@fixture("claims.claim", "under caps")
def _(w: World) -> Request:
    return post(f"P/jobs/{capped(w).job()}/claim", {})


@fixture("claims.claim", "under caps in slots that others left")
def _(w: World) -> Request:
    job, fence = held(capped(w))
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    return post(f"P/jobs/{w.job()}/claim", {"session": "s"})


@fixture("claims.claim", "under caps in the slot of a lapsed lease")
def _(w: World) -> Request:
    lapsed(w)
    return post(f"P/jobs/{w.job()}/claim", {})


@fixture("claims.claim", "under caps in the slot of one that asks on its lapse")
def _(w: World) -> Request:
    lapsed(w, on_expire="ask")
    return post(f"P/jobs/{w.job()}/claim", {})


@fixture("claims.claim", "under caps of the job that has lapsed itself")
def _(w: World) -> Request:
    w.enrol("bob")
    job, _fence = held(capped(w), token="bob", lease_seconds=30)
    w.clock.advance(40)
    return post(f"P/jobs/{job}/claim", {})


@fixture("claims.next", "under caps")
def _(w: World) -> Request:
    capped(w, 2)
    held(w)
    w.job()
    w.job(priority="urgent")
    return post("P/claims", {"roles": ["developer"]})


@fixture("claims.next", "under caps in the slot of a lapsed lease")
def _(w: World) -> Request:
    lapsed(w)
    w.job(priority="urgent")
    return post("P/claims", {"roles": ["developer"]})


@fixture("claims.restart", "under caps")
def _(w: World) -> Request:
    return post(f"P/jobs/{failed(capped(w))}/restart", {})


@fixture("claims.restart", "under caps with an external id")
def _(w: World) -> Request:
    job = failed(w, external_id="ISSUE-4")
    capped(w)
    w.enrol("bob")
    held(w, token="bob", lease_seconds=30)
    w.clock.advance(40)
    return post(f"P/jobs/{job}/restart", {})
