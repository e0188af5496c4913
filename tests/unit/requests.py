"""One request per operation that is accepted, made in a world where it is possible.

An operation that has no row here fails the tests that go over all operations.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.world import Reply
from tests.unit.checked import CheckedWorld

from interlock.edges.operations import OPERATIONS


@dataclass(frozen=True)
class Sent:
    """A request. ``token`` names one of the world's credentials."""

    method: str
    path: str
    body: Any = None
    token: str | None = "owner"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def by(self, w: CheckedWorld, **more: Any) -> Reply:
        """Send it, judged."""
        asked = {
            "body": self.body,
            "token": self.token,
            "query": dict(self.query),
            "headers": dict(self.headers),
        }
        return w.call(self.method, self.path, **{**asked, **more})


Arrange = Callable[[CheckedWorld], Sent]


def _plain(method: str, path: str, body: Any = None, token: str | None = "owner", **query: str) -> Arrange:
    return lambda _: Sent(method, path, body, token, query)


def _on(
    status: str,
    method: str,
    path: str,
    body: Any = None,
    token: str = "agent",
    *,
    fence: bool = False,
    **more: Any,
) -> Arrange:
    """On a job in a status, that the world's agent published and holds or held."""

    def arrange(w: CheckedWorld) -> Sent:
        job, number = w.job_in(status, artifacts=[{"type": "log", "uri": "s3://x"}])
        sent = {**body, "fence": number} if fence and body is not None else body
        where = path
        if "{artifact}" in path:
            where = path.replace("{artifact}", w.get(job)["artifacts"][0]["id"])
        return Sent(method, f"P/jobs/{job}{where}", sent, token, **more)

    return arrange


def _agent(method: str, path: str, body: Any = None) -> Arrange:
    """On another agent."""

    def arrange(w: CheckedWorld) -> Sent:
        agent = w.enrol("target", ("qa",))
        token = w.ok("GET", f"P/agents/{agent}", token="owner")["agent"]["tokens"][0]["id"]
        return Sent(method, f"P/agents/{agent}{path}".replace("{token}", token), body)

    return arrange


def _owner(base: str, method: str, path: str, body: Any = None) -> Arrange:
    """On another owner, of the project or of the installation."""

    def arrange(w: CheckedWorld) -> Sent:
        owner = w.person("target", path=base)
        found = w.ok("GET", base, token="owner")["items"]
        token = next(item["tokens"][0]["id"] for item in found if item["id"] == owner)
        return Sent(method, f"{base}/{owner}{path}".replace("{token}", token), body)

    return arrange


def _paused(w: CheckedWorld) -> Sent:
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")
    return Sent("POST", "P/resume", {"role": "qa", "reason": "r"})


def _told(w: CheckedWorld) -> Sent:
    made = w.ok("POST", "P/broadcasts", {"text": "soon"}, token="owner")["broadcast"]["id"]
    return Sent("DELETE", f"P/broadcasts/{made}")


def _attention(w: CheckedWorld) -> Sent:
    w.job_in("blocked")
    return Sent("GET", "P/attention", query={"limit": "10"})


def _repair(w: CheckedWorld) -> Sent:
    return Sent("POST", "P/repair", {"entity": f"job/{w.job()}"})


def _beat(w: CheckedWorld) -> Sent:
    job, fence = w.job_in("in_progress")
    return Sent("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence, "usage": _USAGE}]}, "agent")


def _next(w: CheckedWorld) -> Sent:
    w.job()
    return Sent("POST", "P/claims", {"roles": ["developer"]}, "agent")


def _create(w: CheckedWorld) -> Sent:
    """A job with every field, that waits for another."""
    return Sent("POST", "P/jobs", {**_JOB, "blocked_by": [w.job()]}, "agent")


def _link(w: CheckedWorld) -> Sent:
    upstream, job = w.job(), w.job()
    return Sent("POST", f"P/jobs/{job}/links", {"type": "blocks", "upstream": upstream}, "agent")


def _graph(w: CheckedWorld) -> Sent:
    job = w.job(blocked_by=[w.job()])
    return Sent("GET", f"P/jobs/{job}/graph", None, "agent", {"depth": "2"})


def reviewed(w: CheckedWorld, **more: Any) -> tuple[str, str, int]:
    """(a completed job, the job that reviews it and that the world's agent holds, the fence). ``more``: the target's."""
    target, _ = w.job_in("completed", **more)
    reviewer = w.job(blocked_by=[target])
    return target, reviewer, w.claim(reviewer)


def _reject(w: CheckedWorld) -> Sent:
    target, reviewer, fence = reviewed(w)
    body = {"fence": fence, "target": target, "reason": "r"}
    return Sent("POST", f"P/jobs/{reviewer}/reject", body, "agent")


def _reopened(w: CheckedWorld) -> Sent:
    retry = _reject(w).by(w).body["retry"]["id"]
    return Sent("GET", f"P/jobs/{retry}/reopen-context", None, "agent")


def upload_form(data: bytes) -> dict[str, Any]:
    """The body of an attach that announces these bytes, with every field of this form but the fence."""
    announced = {"name": "tests.log", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {"type": "log", **announced, "metadata": {"a": 1}}


def _slot(w: CheckedWorld) -> Sent:
    job, fence = w.job_in("in_progress")
    return Sent("POST", f"P/jobs/{job}/artifacts", {**upload_form(b"it works"), "fence": fence}, "agent")


def _uploaded(w: CheckedWorld) -> tuple[str, int]:
    """(the path of an upload that is complete and not verified, the fence of the agent that holds the job)."""
    job, fence = w.job_in("in_progress")
    return f"P/jobs/{job}/artifacts/{w.uploaded(job, body={'fence': fence})}", fence


def _verify(w: CheckedWorld) -> Sent:
    path, fence = _uploaded(w)
    return Sent("POST", f"{path}/verify", {"fence": fence}, "agent")


def _verified(w: CheckedWorld) -> Sent:
    path, fence = _uploaded(w)
    w.ok("POST", f"{path}/verify", {"fence": fence})
    return Sent("GET", path, None, "agent")


def asked(w: CheckedWorld, **more: Any) -> str:
    """A decision that the world's agent has asked, on a job that it holds."""
    job, fence = w.job_in("in_progress")
    body = {"fence": fence, **_QUESTION, **more}
    return str(w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]["id"])


def _on_decision(method: str, path: str, body: Any = None, token: str = "owner") -> Arrange:
    return lambda w: Sent(method, f"P/decisions/{asked(w)}{path}", body, token)


def _ask_with_schema(w: CheckedWorld) -> Sent:
    job, fence = w.job_in("in_progress")
    body = {**_QUESTION, "schema": {"type": "object", "required": ["port"]}, "fence": fence}
    return Sent("POST", f"P/jobs/{job}/decisions", {**body, "options": None}, "agent")


def _redrive(w: CheckedWorld) -> Sent:
    w.bus.store.queues.send(
        "lease-dead", [({"kind": "retire", "project": "default", "agent": "agt_none"}, 0)]
    )
    return Sent("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"})


_ARTIFACT = {"type": "log", "uri": "s3://x", "checksum": "c", "metadata": {"a": 1}}
_RULE = {
    "role": "qa", "summary": "check it", "on": "completed", "when": {"field": "data.ok", "op": "eq", "value": True}, "context": {"a": 1},
    "constraints": ["c"], "priority": 30, "artifacts": [copy.deepcopy(_ARTIFACT)], "max_retries": 1,
}  # fmt: skip
_JOB = {
    "budget": {"tokens": 1_000, "usd": 1.5, "seconds": 60, "count": "reported"},
    "summary": "work", "role": "developer", "external_id": "T-1", "priority": "high", "constraints": ["c"], "context": {"a": 1},
    "artifacts": [_ARTIFACT], "max_retries": 1, "lease_seconds": 60,
    "on_expire": "fail", "requires": ["log"], "capabilities": ["gpu"], "deadline": "2027-01-01T00:00:00Z",
    "on_upstream_failure": "continue", "independent": True, "routing": [_RULE],
}  # fmt: skip
_PLAN = {
    "jobs": [
        {
            **_JOB,
            "ref": "test",
            "blocked_by": ["build"],
            "parent": "build",
            "not_before": "2026-12-01T00:00:00Z",
        },
        {"ref": "build", "summary": "build", "role": "developer"},
    ],
    "dry_run": False,
}
_RESULT = {
    "summary": "s",
    "data": {"a": 1},
    "artifacts": [{"type": "log", "uri": "s3://y", "checksum": "c", "metadata": {"a": 1}}],
}
_QUESTION = {
    "kind": "question", "prompt": "Which port?", "blocker": "b", "risk": "r", "options": ["8080", "9090"],
    "roles": ["qa"], "expires_in": 60, "wait": True,
}  # fmt: skip
_FINDING = {"file": "a.py", "line": 1, "kind": "bug", "description": "d", "fix": "f"}
_ANSWER = {"answer": "8080", "note": "n", "findings": [_FINDING], "segment": 1, "data": {"a": 1}}
_EDIT = {
    "summary": "else",
    "priority": 10,
    "constraints": ["d"],
    "context": {"b": 1},
    "deadline": "2027-01-01T00:00:00Z",
    "role": "qa",
    "max_retries": 5,
    "budget": {"tokens": 1_000, "usd": 1.5, "seconds": 60, "count": "reported"},
}
_USAGE = {"input_tokens": 9, "output_tokens": 9, "usd": 0.5, "seconds": 1.5, "model": "m"}
_DAILY = {"tokens": 9, "usd": 0.5, "seconds": 2.5}
_AGENT = {"label": "b", "roles": ["qa"], "tool_family": "x", "capabilities": ["gpu"], "max_claims": 3}
_SETTINGS = {
    "visibility": "roles", "lease_seconds": 60, "cancel_overdue": True, "retention_days": 30,
    "max_claims": 3, "daily_budget": _DAILY,
}  # fmt: skip
_CLAIM = {"heartbeat_seconds": 30, "lease_seconds": 60, "session": "s"}
_WHY = {"reason": "r", "data": {"a": 1}, "usage": _USAGE}
_INSTALLATION = "/v1/owners"

ACCEPTED: Mapping[str, Arrange] = {
    "jobs.create": _create,
    "jobs.list": _plain("GET", "P/jobs", status="published", role="developer", limit="10"),
    "jobs.get": _on("published", "GET", ""),
    "jobs.edit": _on("published", "PATCH", "", _EDIT, "owner", headers={"If-Match": '"v1"'}),
    "jobs.timeline": _on("in_progress", "GET", "/events", query={"limit": "5"}),
    "jobs.record": _on("in_progress", "POST", "/events", {"type": "custom.step", "data": {"a": 1}}),
    "jobs.explain": _on("published", "GET", "/explain", token="owner"),
    "jobs.attach": _on("in_progress", "POST", "/artifacts", {"type": "log", "uri": "s3://y", "checksum": "c", "metadata": {"a": 1}}, fence=True),
    "jobs.artifact": _on("published", "GET", "/artifacts/{artifact}"),
    "jobs.verify": _verify,
    "jobs.link": _link,
    "jobs.graph": _graph,
    "jobs.reopen_context": _reopened,
    "jobs.cancel": _on("in_progress", "POST", "/cancel", {"reason": "r"}, fence=True),
    "jobs.retry": _on("failed", "POST", "/retry", {"max_retries": 5}, "owner"),
    "jobs.stop": _on("in_progress", "POST", "/stop", {"reason": "r", "then": "fail", "role": "qa"}, "owner"),
    "claims.next": _next,
    "claims.claim": _on("published", "POST", "/claim", _CLAIM),
    "claims.complete": _on("in_progress", "POST", "/complete", {"result": _RESULT, "usage": _USAGE}, fence=True),
    "claims.fail": _on("in_progress", "POST", "/fail", _WHY, fence=True),
    "claims.block": _on("in_progress", "POST", "/block", _WHY, fence=True),
    "claims.unblock": _on("blocked", "POST", "/unblock", {"reason": "r"}, fence=True),
    "claims.resume": _on("unblocked", "POST", "/resume", {}, fence=True),
    "claims.release": _on("in_progress", "POST", "/release", {"reason": "r", "usage": _USAGE}, fence=True),
    "claims.restart": _on("failed", "POST", "/restart", {}),
    "claims.heartbeat": _beat,
    "claims.reject": _reject,
    "decisions.ask": _on("in_progress", "POST", "/decisions", _QUESTION, fence=True),
    "decisions.list": _plain("GET", "P/decisions", state="all", role="qa", limit="10"),
    "decisions.get": _on_decision("GET", "", token="agent"),
    "decisions.answer": _on_decision("POST", "/answer", _ANSWER),
    "decisions.withdraw": _on_decision("POST", "/withdraw", {"note": "n"}, "agent"),
    "plans.create": _plain("POST", "P/plans", _PLAN, "agent"),
    "ledger.feed": _plain("GET", "P/events", last="10"),
    "roles.create": _plain("POST", "P/roles", {"key": "cook", "label": "Cook", "lease_seconds": 60, "on_expire": "fail", "capabilities": ["k"], "independent": True, "max_claims": 3, "daily_budget": _DAILY}),
    "roles.list": _plain("GET", "P/roles"),
    "roles.update": _plain("PATCH", "P/roles/qa", {"label": "Q", "lease_seconds": 60, "on_expire": "fail", "capabilities": ["k"], "independent": True, "max_claims": 3, "daily_budget": _DAILY}),
    "roles.delete": _plain("DELETE", "P/roles/qa"),
    "agents.create": _plain("POST", "P/agents", _AGENT),
    "agents.list": _plain("GET", "P/agents", limit="10"),
    "agents.get": _agent("GET", ""),
    "agents.update": _agent("PATCH", "", {**_AGENT, "roles": ["ops"]}),
    "agents.delete": _agent("DELETE", ""),
    "agents.stop": _agent("POST", "/stop", {"reason": "r", "then": "fail"}),
    "agents.token_create": _agent("POST", "/tokens", {"name": "n", "expires_in": 60}),
    "agents.token_rotate": _agent("POST", "/tokens/{token}/rotate", {"grace_seconds": 60}),
    "agents.token_revoke": _agent("DELETE", "/tokens/{token}"),
    "owners.create": _plain("POST", "P/owners", {"label": "b", "rights": "viewer"}),
    "owners.list": _plain("GET", "P/owners", limit="10"),
    "owners.delete": _owner("P/owners", "DELETE", ""),
    "owners.token_create": _owner("P/owners", "POST", "/tokens", {"name": "n", "expires_in": 60}),
    "owners.token_rotate": _owner("P/owners", "POST", "/tokens/{token}/rotate", {"grace_seconds": 60}),
    "owners.token_revoke": _owner("P/owners", "DELETE", "/tokens/{token}"),
    "installation.owner_create": _plain("POST", _INSTALLATION, {"label": "b", "rights": "viewer"}),
    "installation.owner_list": _plain("GET", _INSTALLATION, limit="10"),
    "installation.owner_delete": _owner(_INSTALLATION, "DELETE", ""),
    "installation.token_create": _owner(_INSTALLATION, "POST", "/tokens", {"name": "n", "expires_in": 60}),
    "installation.token_rotate": _owner(_INSTALLATION, "POST", "/tokens/{token}/rotate", {"grace_seconds": 60}),
    "installation.token_revoke": _owner(_INSTALLATION, "DELETE", "/tokens/{token}"),
    "projects.create": _plain("POST", "/v1/projects", {"id": "p", "title": "P", "settings": _SETTINGS}),
    "projects.list": _plain("GET", "/v1/projects", limit="10"),
    "projects.get": _plain("GET", "P"),
    "projects.update": _plain("PATCH", "P", {"title": "P", "settings": _SETTINGS}),
    "projects.pause": _plain("POST", "P/pause", {"role": "qa", "reason": "r"}),
    "projects.resume": _paused,
    "system.me": _plain("GET", "P/me", token="agent"),
    "system.stats": _plain("GET", "P/stats"),
    "projects.broadcast": _plain("POST", "P/broadcasts", {"text": "soon", "roles": ["qa"], "expires_in": 600}),
    "projects.unbroadcast": _told,
    "system.workers": _plain("GET", "P/workers", limit="10"),
    "system.attention": _attention,
    "system.repair": _repair,
    "system.dead_letters": _plain("GET", "/v1/dead-letters"),
    "system.redrive": _redrive,
    "system.health": _plain("GET", "/health", token=None),
    "system.openapi": _plain("GET", "/openapi.json", token=None),
}  # fmt: skip

OTHER_FORMS: Mapping[str, tuple[str, Arrange]] = {
    "a slot for an upload": ("jobs.attach", _slot),
    "a verified upload": ("jobs.artifact", _verified),
    "a question with a schema": ("decisions.ask", _ask_with_schema),
}
"""Requests that an operation accepts beside its own, where it answers otherwise: the operation and the request."""

WITH_BODY = tuple(name for name, row in OPERATIONS.items() if row.body)
WITH_CREDENTIAL = tuple(name for name in OPERATIONS if name not in ("system.health", "system.openapi"))
WRITING = tuple(name for name, row in OPERATIONS.items() if row.method != "GET")


def arranged(w: CheckedWorld, operation: str) -> Sent:
    """A request of the operation that the world, as it is now, accepts."""
    assert operation in ACCEPTED, f"{operation} has no request in tests/unit/requests.py"
    return ACCEPTED[operation](w)
