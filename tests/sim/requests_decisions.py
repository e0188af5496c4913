"""The requests of requests.py that ask, answer or withdraw decisions."""

from __future__ import annotations

from typing import Any

from tests.sim.requests import NOTE, Request, fixture, owners, post
from tests.sim.world import World

QUESTION = {"kind": "question", "prompt": "which port? " * 300, "blocker": "b", "risk": "r"}
"""Its prompt is more than a reason keeps, and more than travels in a head."""
SCHEMA = {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(150)}}
FINDINGS = [{"kind": "bug", "description": f"{n} " * 400, "file": "f.py", "line": n} for n in range(50)]


def holding(w: World, **fields: Any) -> tuple[str, int]:
    """A job that the world's agent holds, and its fence."""
    job = w.job(**fields)
    return job, w.claim(job)


def asked(w: World, fields: dict[str, Any] | None = None, **more: Any) -> tuple[str, str, int]:
    """(a job, the decision that its holder has asked, the fence)."""
    job, fence = holding(w, **(fields or {}))
    body = {"fence": fence, **QUESTION, **more}
    return job, w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]["id"], fence


def lapsed(w: World) -> tuple[str, str]:
    """(a job whose lease has lapsed, the decision what becomes of it)."""
    job, fence = holding(w, on_expire="ask", lease_seconds=30)
    w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})
    w.dispatch()
    w.clock.advance(40)
    w.pump()
    return job, w.get(job)["decision"]


@fixture("decisions.ask")
def _(w: World) -> Request:
    job, fence = holding(w)
    return post(f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "expires_in": 600})


@fixture("decisions.ask", "and go on")
def _(w: World) -> Request:
    job, fence = holding(w)
    w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})
    more = {"schema": SCHEMA, "roles": ["qa", "reviewer"], "wait": False, "expires_in": 40}
    return post(f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, **more})


@fixture("decisions.ask", "late, blocked by hand")
def _(w: World) -> Request:
    job, fence = holding(w, lease_seconds=30)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    w.ok("POST", f"P/jobs/{job}/unblock", {"fence": fence, "reason": "r"})
    w.clock.advance(20)
    return post(f"P/jobs/{job}/decisions", {"fence": fence, "kind": "approval", "prompt": "p"})


@fixture("decisions.answer")
def _(w: World) -> Request:
    _, decision, _ = asked(w, roles=["qa"])
    w.enrol("judge", ("qa",))
    return post(f"P/decisions/{decision}/answer", {"answer": "8080", "note": "n"}, token="judge")


@fixture("decisions.answer", "of a review")
def _(w: World) -> Request:
    _, decision, _ = asked(w, {"requires": ["review"]}, kind="review", wait=False)
    body = {"answer": "approve", "findings": FINDINGS, "segment": 3, "data": NOTE}
    return owners(f"P/decisions/{decision}/answer", body)


for _given in ("publish", "fail", "cancel"):

    @fixture("decisions.answer", f"of a lapse: {_given}")
    def _(w: World, given: str = _given) -> Request:
        return owners(f"P/decisions/{lapsed(w)[1]}/answer", {"answer": given})


@fixture("decisions.withdraw")
def _(w: World) -> Request:
    _, decision, _ = asked(w)
    return post(f"P/decisions/{decision}/withdraw", {"note": "n" * 400})


@fixture("decisions.withdraw", "of a lapse")
def _(w: World) -> Request:
    return owners(f"P/decisions/{lapsed(w)[1]}/withdraw", {})


@fixture("claims.release", "with open decisions")
def _(w: World) -> Request:
    job, _, fence = asked(w, wait=False)
    w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "expires_in": 40})
    return post(f"P/jobs/{job}/release", {"fence": fence})


@fixture("claims.claim", "of a job that an answer has published")
def _(w: World) -> Request:
    job, decision = lapsed(w)
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "publish"}, token="owner")
    return post(f"P/jobs/{job}/claim", {})
