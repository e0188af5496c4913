"""One request, and the world it needs, for every operation that changes something: for crashes and for twins.

A mutating operation without an entry here fails the tests that use them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.sim.world import Reply, World

from interlock.edges.operations import OPERATIONS

MUTATING = sorted(row.name for row in OPERATIONS.values() if row.method != "GET")
LARGE = {"text": "".join(chr(33 + (i * i * 7919 + i) % 90) for i in range(120_000))}
"""More than an item carries, compressed: it goes to a blob."""
NOTE = {"note": "n" * 400}
"""More than travels in a head."""


@dataclass(frozen=True)
class Request:
    """A call of an operation.

    ``repeat`` are the statuses that answer the same call once it took effect; ``replays`` says that its key is
    remembered, so that its repeat is marked as one.
    """

    method: str
    path: str
    body: Any = None
    token: str = "agent"
    key: str | None = "the-key"
    headers: dict[str, str] = field(default_factory=dict)
    repeat: tuple[int, ...] = (200, 201)
    replays: bool = True

    def send(self, w: World) -> Reply:
        """Make the call."""
        return w.call(
            self.method, self.path, self.body, token=self.token, key=self.key, headers=dict(self.headers)
        )


Fixture = Callable[[World], Request]
FIXTURES: dict[str, tuple[str, Fixture]] = {}
"""Test id → (operation, what prepares a world and answers the request)."""


def fixture(operation: str, case: str = "") -> Callable[[Fixture], Fixture]:
    """Register what prepares a world for an operation."""

    def add(prepare: Fixture) -> Fixture:
        FIXTURES[f"{operation} {case}".strip()] = (operation, prepare)
        return prepare

    return add


def without_fixture() -> list[str]:
    """The mutating operations that nobody prepares."""
    return sorted(set(MUTATING) - {operation for operation, _ in FIXTURES.values()})


def at(w: World, seconds: float) -> str:
    """A time that far ahead, as callers write it."""
    return datetime.fromtimestamp(w.clock.now / 1000 + seconds, UTC).isoformat()


def post(path: str, body: Any, **more: Any) -> Request:
    """A POST."""
    return Request("POST", path, body, **more)


def owners(path: str, body: Any = None, *, method: str = "POST", **more: Any) -> Request:
    """A request of the owner."""
    return Request(method, path, body, token="owner", **more)


def etag(w: World, path: str) -> dict[str, str]:
    """If-Match with the present version."""
    return {"if-match": w.call("GET", path, token="owner").headers["etag"]}


# ---- jobs


@fixture("jobs.create")
def _(w: World) -> Request:
    return post("P/jobs", {"summary": "s", "role": "developer"})


@fixture("jobs.create", "with everything")
def _(w: World) -> Request:
    parent, old = w.job(), w.job(external_id="ISSUE-1")
    w.ok("POST", f"P/jobs/{old}/cancel", {"reason": "r"}, token="owner")
    artifacts = [{"type": "spec", "uri": f"file:///{n}"} for n in range(3)]
    body = {"summary": "s", "role": "qa", "external_id": "ISSUE-1", "parent": parent, "context": LARGE}
    dates = {"not_before": at(w, 60), "deadline": at(w, 2_000), "artifacts": artifacts}
    return post("P/jobs", {**body, **dates, "max_retries": 1})


@fixture("jobs.edit")
def _(w: World) -> Request:
    job = w.job(context={"a": 1})
    body = {"summary": "t", "context": LARGE, "deadline": at(w, 3_000), "priority": "high"}
    headers = etag(w, f"P/jobs/{job}")
    return Request("PATCH", f"P/jobs/{job}", body, key=None, headers=headers, repeat=(200, 412))


@fixture("jobs.record")
def _(w: World) -> Request:
    return post(f"P/jobs/{w.job()}/events", {"type": "custom.note", "data": NOTE})


@fixture("jobs.attach", "by the holder")
def _(w: World) -> Request:
    job = w.job()
    return post(f"P/jobs/{job}/artifacts", {"fence": w.claim(job), "type": "log", "uri": "file:///l"})


@fixture("jobs.attach", "by an owner")
def _(w: World) -> Request:
    body = {"type": "log", "uri": "file:///l", "metadata": {"text": "m" * 3_000}}
    return owners(f"P/jobs/{w.job()}/artifacts", body)


UPLOAD = b"all tests passed"


@fixture("jobs.attach", "an upload")
def _(w: World) -> Request:
    job = w.job()
    announced = {"name": "log.txt", "size": len(UPLOAD), "sha256": hashlib.sha256(UPLOAD).hexdigest()}
    return post(f"P/jobs/{job}/artifacts", {"fence": w.claim(job), "type": "log", **announced})


@fixture("jobs.verify")
def _(w: World) -> Request:
    job = w.job()
    return post(f"P/jobs/{job}/artifacts/{w.uploaded(job, UPLOAD)}/verify", {})


@fixture("jobs.verify", "by the holder")
def _(w: World) -> Request:
    job = w.job()
    fence = w.claim(job)
    artifact = w.uploaded(job, UPLOAD, body={"fence": fence})
    return post(f"P/jobs/{job}/artifacts/{artifact}/verify", {"fence": fence})


@fixture("jobs.cancel", "held")
def _(w: World) -> Request:
    job = w.job()
    w.claim(job)
    return owners(f"P/jobs/{job}/cancel", {"reason": "r" * 300})


@fixture("jobs.cancel", "by its source")
def _(w: World) -> Request:
    return post(f"P/jobs/{w.job()}/cancel", {"reason": "r"})


def failed(w: World, **fields: Any) -> str:
    """A failed job that the agent held."""
    job = w.job(**fields)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "broken"})
    return job


@fixture("jobs.retry")
def _(w: World) -> Request:
    return owners(f"P/jobs/{failed(w, max_retries=0, external_id='ISSUE-2')}/retry", {"max_retries": 2})


@fixture("jobs.stop", "publish")
def _(w: World) -> Request:
    job = w.job()
    w.claim(job)
    return owners(f"P/jobs/{job}/stop", {"reason": "r", "role": "qa"})


@fixture("jobs.stop", "fail")
def _(w: World) -> Request:
    job = w.job()
    w.claim(job)
    return owners(f"P/jobs/{job}/stop", {"reason": "r", "then": "fail"})


# ---- claims


@fixture("claims.next")
def _(w: World) -> Request:
    w.job()
    w.job(priority="urgent")
    return post("P/claims", {"roles": ["developer"]})


@fixture("claims.next", "of a late lease")
def _(w: World) -> Request:
    w.enrol("bob")
    w.claim(w.job(lease_seconds=30), token="bob")
    w.clock.advance(40)
    return post("P/claims", {})


@fixture("claims.next", "of a due start")
def _(w: World) -> Request:
    w.job(not_before=at(w, 5))
    w.clock.advance(6)
    return post("P/claims", {})


@fixture("claims.claim")
def _(w: World) -> Request:
    return post(f"P/jobs/{w.job()}/claim", {"heartbeat_seconds": 30})


@fixture("claims.claim", "in a session")
def _(w: World) -> Request:
    return post(f"P/jobs/{w.job()}/claim", {"session": "tty1"}, key=None, replays=True)


@fixture("claims.claim", "of a lapsed job")
def _(w: World) -> Request:
    w.enrol("bob")
    job = w.job(lease_seconds=30)
    w.claim(job, token="bob")
    w.clock.advance(40)
    return post(f"P/jobs/{job}/claim", {})


def _complete(w: World, key: str | None) -> Request:
    job = w.job(requires=["report"])
    result = {
        "summary": "done",
        "data": NOTE,
        "artifacts": [{"type": "report", "uri": "file:///r"}, {"type": "log", "uri": "file:///l"}],
    }
    return post(f"P/jobs/{job}/complete", {"fence": w.claim(job), "result": result}, key=key)


@fixture("claims.complete")
def _(w: World) -> Request:
    return _complete(w, "the-key")


@fixture("claims.complete", "without a key")
def _(w: World) -> Request:
    return _complete(w, None)


@fixture("claims.complete", "late, external id")
def _(w: World) -> Request:
    job = w.job(lease_seconds=30, external_id="ISSUE-3")
    fence = w.claim(job)
    w.clock.advance(20)
    return post(f"P/jobs/{job}/complete", {"fence": fence})


@fixture("claims.fail")
def _(w: World) -> Request:
    job = w.job()
    return post(f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "r", "data": [1, None]}, key=None)


@fixture("claims.block")
def _(w: World) -> Request:
    job = w.job()
    return post(f"P/jobs/{job}/block", {"fence": w.claim(job), "reason": "r" * 400})


def blocked(w: World) -> tuple[str, int]:
    """A blocked job and its fence."""
    job = w.job()
    fence = w.claim(job)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "wait"})
    return job, fence


@fixture("claims.unblock", "by an owner")
def _(w: World) -> Request:
    return owners(f"P/jobs/{blocked(w)[0]}/unblock", {"reason": "go"})


@fixture("claims.unblock", "by the holder")
def _(w: World) -> Request:
    job, fence = blocked(w)
    return post(f"P/jobs/{job}/unblock", {"reason": "go", "fence": fence})


@fixture("claims.resume")
def _(w: World) -> Request:
    job, fence = blocked(w)
    return post(f"P/jobs/{job}/resume", {"fence": fence})


@fixture("claims.release")
def _(w: World) -> Request:
    job = w.job()
    return post(f"P/jobs/{job}/release", {"fence": w.claim(job)})


@fixture("claims.restart")
def _(w: World) -> Request:
    return post(f"P/jobs/{failed(w, external_id='ISSUE-4')}/restart", {})


@fixture("claims.heartbeat")
def _(w: World) -> Request:
    jobs = [{"id": job, "fence": w.claim(job)} for job in (w.job(lease_seconds=30), w.job())]
    w.clock.advance(20)
    return post("P/heartbeat", {"jobs": jobs}, replays=False)


# ---- roles and projects


@fixture("roles.create")
def _(w: World) -> Request:
    return owners("P/roles", {"key": "writer", "label": "Writer"})


@fixture("roles.update")
def _(w: World) -> Request:
    return owners("P/roles/qa", {"label": "Quality"}, method="PATCH", key=None)


@fixture("roles.delete")
def _(w: World) -> Request:
    return owners("P/roles/qa", method="DELETE", key=None, repeat=(404,))


@fixture("projects.create")
def _(w: World) -> Request:
    return owners("/v1/projects", {"id": "other", "title": "Other"})


@fixture("projects.update")
def _(w: World) -> Request:
    body = {"title": "New", "settings": {"visibility": "roles"}}
    return owners("P", body, method="PATCH", key=None)


@fixture("projects.pause")
def _(w: World) -> Request:
    return owners("P/pause", {"role": "developer", "reason": "r"})


@fixture("projects.resume")
def _(w: World) -> Request:
    w.ok("POST", "P/pause", {"project": True}, token="owner")
    return owners("P/resume", {"project": True})


# ---- identities


@fixture("agents.create")
def _(w: World) -> Request:
    return owners("P/agents", {"label": "new", "roles": ["qa"]})


@fixture("agents.update")
def _(w: World) -> Request:
    return owners(f"P/agents/{w.enrol('bob')}", {"roles": ["qa"]}, method="PATCH", key=None)


@fixture("agents.delete")
def _(w: World) -> Request:
    bob = w.enrol("bob")
    for _ in range(2):
        w.claim(w.job(), token="bob")
    return owners(f"P/agents/{bob}", method="DELETE", key=None)


def _an_owner(w: World, path: str) -> tuple[str, str]:
    made = w.ok("POST", path, {"label": "more"}, token="owner")["owner"]
    return made["id"], made["tokens"][0]["id"]


def _token_of(w: World, area: str) -> str:
    """The path of a token of an identity of an area: agents, owners, installation."""
    if area == "agents":
        bob = w.enrol("bob")
        token = w.ok("GET", f"P/agents/{bob}", token="owner")["agent"]["tokens"][0]["id"]
        return f"P/agents/{bob}/tokens/{token}"
    base = "P/owners" if area == "owners" else "/v1/owners"
    owner, token = _an_owner(w, base)
    return f"{base}/{owner}/tokens/{token}"


for _area in ("agents", "owners", "installation"):

    @fixture(f"{_area}.token_create")
    def _(w: World, area: str = _area) -> Request:
        return owners(_token_of(w, area).rpartition("/")[0], {"name": "laptop", "expires_in": 3_600})

    @fixture(f"{_area}.token_rotate")
    def _(w: World, area: str = _area) -> Request:
        return owners(f"{_token_of(w, area)}/rotate", {"grace_seconds": 0})

    @fixture(f"{_area}.token_revoke")
    def _(w: World, area: str = _area) -> Request:
        return owners(_token_of(w, area), method="DELETE", key=None)


@fixture("owners.create")
def _(w: World) -> Request:
    return owners("P/owners", {"label": "new", "rights": "viewer"})


@fixture("owners.delete")
def _(w: World) -> Request:
    return owners(f"P/owners/{_an_owner(w, 'P/owners')[0]}", method="DELETE", key=None)


@fixture("installation.owner_create")
def _(w: World) -> Request:
    return owners("/v1/owners", {"label": "new"})


@fixture("installation.owner_delete")
def _(w: World) -> Request:
    return owners(f"/v1/owners/{_an_owner(w, '/v1/owners')[0]}", method="DELETE", key=None)


# ---- the bus itself


@fixture("system.repair")
def _(w: World) -> Request:
    job = w.job()
    w.claim(job)
    w.dispatch()
    return owners("P/repair", {"entity": f"job/{job}"}, replays=False)


def park_changes(w: World) -> None:
    """Park every change instead of dispatching it."""
    from interlock.app import dispatch

    changes = w.engine.feed.read(limit=1_000)
    for change in changes:
        dispatch.park(w.bus, change.new, "poison")
    w.engine.feed.acknowledge(changes)


@fixture("system.redrive", "parked changes")
def _(w: World) -> Request:
    w.pump()
    w.claim(w.job(deadline=at(w, 500)))
    park_changes(w)
    return owners("/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, replays=False)


@fixture("system.redrive", "dead timers")
def _(w: World) -> Request:
    jobs = [w.job(lease_seconds=30), w.job()]
    for job in jobs:
        w.claim(job)
    w.dispatch()
    queues, store = w.engine.queues, w.engine.store
    w.clock.advance(1_000)
    messages = queues.receive("lease")
    store.queues.send("lease-dead", [(message.body, 0) for message in messages])
    queues.delete("lease", [message.receipt for message in messages])
    return owners("/v1/dead-letters/redrive", {"queue": "lease-dead"}, replays=False)


from tests.sim import requests_caps as _caps  # noqa: E402, F401  it registers its fixtures here
from tests.sim import requests_decisions as _decisions  # noqa: E402, F401  so does this
from tests.sim import requests_graph as _graph  # noqa: E402, F401  so does this
from tests.sim import requests_presence as _presence  # noqa: E402, F401  so does this
