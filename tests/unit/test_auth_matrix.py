"""Who may do what: every operation by every kind of actor on its object in every state.

What is expected is computed here, from the rights table and a few sentences of the specification, by other means
than the bus does. An operation without a request in tests/unit/requests.py, or without a row in the rights table, fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from tests.sim.copies import Template
from tests.unit.checked import CheckedWorld, checked, copied
from tests.unit.requests import ACCEPTED

from interlock.domain.access import RIGHTS
from interlock.domain.lifecycle import STATUSES
from interlock.edges.operations import OPERATIONS

HELD = ("in_progress", "blocked", "unblocked")
ENDED = ("completed", "failed", "cancelled")
ASSIGNED = (*HELD, "completed", "failed")
"""Statuses in which the job names its holder, or its last one."""

RELATIONS: dict[str, set[str]] = {
    "stranger": {"enrolled", "agent"},
    "roleless": {"enrolled"},
    "holder": {"enrolled", "agent"},
    "former holder": {"enrolled", "agent"},
    "source": {"enrolled", "agent"},
    "self": {"enrolled", "agent"},
    "asker": {"enrolled", "agent"},
    "named": {"enrolled", "agent"},
    "viewer": {"viewer"},
    "owner": {"viewer", "owner"},
    "installation viewer": {"viewer"},
    "installation owner": {"viewer", "owner", "installation"},
    "foreign agent": {"enrolled"},
    "foreign owner": {"viewer", "owner"},
}
AGENTS = (
    "stranger",
    "roleless",
    "holder",
    "former holder",
    "source",
    "self",
    "asker",
    "named",
    "foreign agent",
)
UNKNOWN = {"nobody": "token_missing", "retired": "token_revoked"}
ACTORS = (*RELATIONS, *UNKNOWN)

OF_JOBS = [name for name, row in OPERATIONS.items() if "{job}" in row.path]
OF_AGENTS = [name for name, row in OPERATIONS.items() if "{agent}" in row.path]
OF_OWNERS = [name for name, row in OPERATIONS.items() if "{owner}" in row.path]
OF_DECISIONS = [name for name, row in OPERATIONS.items() if "{decision}" in row.path]
OTHERS = [name for name in OPERATIONS if name not in (*OF_JOBS, *OF_AGENTS, *OF_OWNERS, *OF_DECISIONS)]
WITH_FENCE = (
    "claims.complete",
    "claims.fail",
    "claims.block",
    "claims.unblock",
    "claims.resume",
    "claims.release",
    "claims.reject",
    "decisions.ask",
    "jobs.cancel",
    "jobs.attach",
    "jobs.verify",
)
WITHOUT_FENCE_TOO = ("jobs.cancel", "jobs.attach", "jobs.verify")
"""Those of them that the job's source may call, without a fence."""


@dataclass(frozen=True)
class Scene:
    """A prepared world with everybody in it, and the ids of what they act on. The job waited for ``upstream``; a review
    made ``retry``; the asker holds another job, on which it has asked the decision."""

    template: Template
    job: str
    upstream: str
    retry: str
    artifact: str
    upload: str
    decision: str
    broadcast: str
    agent: str
    owner: str
    installed: str
    version: int


@cache
def scene(state: str) -> Scene:
    """Everybody is enrolled; the job is in the state, or, for ``gone``, the agent and owners of the paths have left."""
    w = checked()
    status = state if state in STATUSES else "published"
    roles = {"roleless": ("qa",), "named": ("developer", "reviewer")}
    agents = {
        name: w.enrol(name, roles.get(name, ("developer",))) for name in AGENTS if name != "foreign agent"
    }
    retired = w.enrol("retired")
    w.ok("DELETE", f"P/agents/{retired}", token="owner")
    w.enrol_in(w.project(), "foreign agent")
    w.person("foreign owner", path="/v1/projects/other/owners")
    w.person("owner of the project")
    w.viewer()
    w.person("installation owner", path="/v1/owners")
    w.person("installation viewer", path="/v1/owners", rights="viewer")
    owner, installed = w.person("left"), w.person("left above", path="/v1/owners")
    w.agents["owner of the world"], w.agents["owner"] = w.owner, w.agents.pop("owner of the project")
    fields: dict[str, Any] = {"not_before": "2027-01-01T00:00:00Z"} if status == "pending" else {}
    upstream, retry, decision = _done(w), _sent_back(w), _asked(w)
    fields["blocked_by"] = [upstream]
    job = w.job(token="source", artifacts=[{"type": "log", "uri": "s3://x"}], **fields)
    upload = w.uploaded(job, token="source")
    if status != "pending":
        w.claim(job, "former holder")
        w.ok("POST", f"P/jobs/{job}/release", {"fence": 1}, token="former holder")
    if status not in ("pending", "published"):
        w.claim(job, "holder")
    way = {
        "blocked": ["block"],
        "unblocked": ["block", "unblock"],
        "completed": ["complete"],
        "failed": ["fail"],
    }.get(status, [])
    for verb in way:
        reason = {} if verb == "complete" else {"reason": "to get here"}
        w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": 3, **reason}, token="holder")
    if status == "cancelled":
        w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "to get here"}, token="owner of the world")
    w.ok("DELETE", "P/roles/qa", token="owner of the world")
    if state == "gone":
        for path in (f"P/agents/{agents['self']}", f"P/owners/{owner}", f"/v1/owners/{installed}"):
            w.ok("DELETE", path, token="owner of the world")
    shown = w.ok("GET", f"P/jobs/{job}", token="owner of the world")["job"]
    return Scene(
        Template(w),
        job,
        upstream,
        retry,
        shown["artifacts"][0]["id"],
        upload,
        decision,
        w.ok("POST", "P/broadcasts", {"text": "soon"}, token="owner")["broadcast"]["id"],
        agents["self"],
        owner,
        installed,
        shown["version"],
    )


def _done(w: CheckedWorld) -> str:
    """A completed job."""
    job = w.job(token="source")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job, "stranger")}, token="stranger")
    return job


def _sent_back(w: CheckedWorld) -> str:
    """A job that a review has made."""
    target = _done(w)
    reviewer = w.job(token="source", blocked_by=[target])
    body = {"fence": w.claim(reviewer, "stranger"), "target": target, "reason": "r"}
    return str(w.ok("POST", f"P/jobs/{reviewer}/reject", body, token="stranger")["retry"]["id"])


def _asked(w: CheckedWorld) -> str:
    """A decision that the asker has asked of reviewers, and of agents of a role that is deleted."""
    job = w.job(token="source")
    fence = w.claim(job, "asker")
    body = {"fence": fence, "kind": "approval", "prompt": "p", "roles": ["reviewer", "qa"]}
    return str(w.ok("POST", f"P/jobs/{job}/decisions", body, token="asker")["decision"]["id"])


# ---- what is expected


def expected(operation: str, actor: str, state: str) -> str | None:
    """The code of the refusal, or None where the call goes through."""
    rights, path = set(RIGHTS[operation]), OPERATIONS[operation].path
    if "anyone" in rights:
        return None
    if actor in UNKNOWN:
        return UNKNOWN[actor]
    if actor == "self" and state == "gone":
        return "token_revoked"
    in_project = "{project}" in path
    if in_project and actor.startswith("foreign"):
        return "not_found"
    if not _sees(actor, path):
        return "not_found"
    relations = RELATIONS[actor] - (set() if in_project else {"agent"})
    if "{job}" in path and actor == "source":
        relations = relations | {"source"}
    if "{agent}" in path and actor == "self":
        relations = relations | {"self"}
    if "{decision}" in path and actor in ("asker", "named"):
        relations = relations | {actor}
    if operation == "decisions.answer" and actor == "asker":
        return "self_answer"
    # holding is proved by the fence, so every agent with a live role comes as far as that
    proves = "agent" in relations and bool(rights & {"holder", "last_holder"})
    if not relations & rights and not proves:
        return "forbidden"
    judge = _JUDGES.get(operation)
    return judge(operation, actor, state) if judge else None


def _sees(actor: str, path: str) -> bool:
    if "{job}" in path or "{decision}" in path:
        return actor != "roleless"
    if "{agent}" in path:
        return actor not in AGENTS or actor == "self"
    if "{owner}" in path:
        return actor not in AGENTS
    return True


def fence_of(operation: str, actor: str, state: str) -> int | None:
    """The fence that the actor sends: its own, the current one by hearsay, or none where it needs none."""
    if actor not in AGENTS or (actor == "source" and operation in WITHOUT_FENCE_TOO):
        return None
    return 1 if actor == "former holder" or state in ("pending", "published") else 3


def _proof(actor: str, state: str, fence: int) -> str | None:
    if state in ASSIGNED and fence == 3:
        return None if actor == "holder" else "not_holder"
    return "stop_requested" if state == "cancelled" and fence == 3 else "lease_lost"


def _by_status(*permitted: str) -> Callable[[str, str, str], str | None]:
    return lambda operation, actor, state: None if state in permitted else "wrong_state"


def _holders(*permitted: str) -> Callable[[str, str, str], str | None]:
    def judge(operation: str, actor: str, state: str) -> str | None:
        if actor in AGENTS:
            fence = fence_of(operation, actor, state)
            refused = _proof(actor, state, fence or 0)
            if refused:
                return refused
        return None if state in permitted else "wrong_state"

    return judge


def _cancel(operation: str, actor: str, state: str) -> str | None:
    if actor == "source":
        return "not_holder" if state in HELD else "wrong_state" if state in ENDED else None
    return _holders("pending", "published", *HELD)(operation, actor, state)


def _attach(operation: str, actor: str, state: str) -> str | None:
    if actor not in AGENTS:
        return None
    if actor == "source":
        return "wrong_state" if state in ENDED else None
    return _holders(*HELD)(operation, actor, state)


def _restart(operation: str, actor: str, state: str) -> str | None:
    if actor != "holder" or state not in ASSIGNED:
        return "not_holder"
    return None if state == "failed" else "wrong_state"


def _claim(operation: str, actor: str, state: str) -> str | None:
    if state == "published":
        return None
    return "not_yet" if state == "pending" else "ended" if state in ENDED else "already_claimed"


def _gone(operation: str, actor: str, state: str) -> str | None:
    return "wrong_state" if state == "gone" else None


_JUDGES: dict[str, Callable[[str, str, str], str | None]] = {
    "jobs.edit": _by_status("pending", "published"),
    "jobs.retry": _by_status("failed"),
    "jobs.stop": _by_status(*HELD),
    "jobs.cancel": _cancel,
    "jobs.attach": _attach,
    "jobs.verify": _attach,
    "jobs.link": _by_status("pending", "published"),
    "claims.claim": _claim,
    "claims.complete": _holders("in_progress"),
    "claims.reject": _holders("in_progress"),
    "claims.fail": _holders(*HELD),
    "claims.block": _holders("in_progress"),
    "claims.unblock": _holders("blocked"),
    "claims.resume": _holders("blocked", "unblocked"),
    "claims.release": _holders(*HELD),
    "decisions.ask": _holders(*HELD),
    "claims.restart": _restart,
    "agents.update": _gone,
    "agents.stop": _gone,
    **{
        f"{area}.{verb}": _gone
        for area in ("agents", "owners", "installation")
        for verb in ("token_create", "token_rotate")
    },
}


# ---- what happens


def send(w: CheckedWorld, at: Scene, operation: str, actor: str, state: str) -> Any:
    """The operation's request, as this actor would send it."""
    row, body = OPERATIONS[operation], None
    path = row.path.replace("{project}", "default")
    if row.body:
        body = dict(_body(operation, at))
        if operation in WITH_FENCE:
            body.pop("fence", None)
            fence = fence_of(operation, actor, state)
            required = operation not in ("claims.unblock", *WITHOUT_FENCE_TOO)
            if fence or required:
                body["fence"] = fence or 3
    values = {
        "job": at.retry if operation == "jobs.reopen_context" else at.job,
        "artifact": at.upload if operation == "jobs.verify" else at.artifact, "agent": at.agent, "role": "ops",
        "owner": at.installed if path.startswith("/v1/owners") else at.owner, "decision": at.decision,
        "broadcast": at.broadcast,
    }  # fmt: skip
    if "{token}" in path:
        found = w.ok("GET", path.partition("/{")[0], token="owner of the world")["items"]
        person = next(item for item in found if item["id"] in (at.agent, at.owner, at.installed))
        values["token"] = person["tokens"][0]["id"]
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    headers = {"If-Match": f'"v{at.version}"'} if row.edit else {}
    token = None if actor == "nobody" else actor
    return w.call(row.method, path, body, token=token, headers=headers)


def _body(operation: str, at: Scene) -> dict[str, Any]:
    """Small bodies that do not depend on the caller."""
    special: dict[str, dict[str, Any]] = {
        "jobs.create": {"summary": "x", "role": "developer"},
        "jobs.edit": {"summary": "else"},
        "jobs.link": {"upstream": at.retry},
        "plans.create": {"jobs": [{"ref": "a", "summary": "x", "role": "developer"}]},
        "claims.next": {},
        "claims.heartbeat": {},
        "claims.claim": {},
        "claims.reject": {"target": at.upstream, "reason": "r"},
        "decisions.ask": {"kind": "approval", "prompt": "p"},
        "decisions.answer": {"answer": "approve"},
        "jobs.stop": {"reason": "r"},
        "projects.pause": {"role": "ops"},
        "projects.resume": {"role": "ops"},
        "projects.broadcast": {"text": "soon"},
        "agents.create": {"label": "b", "roles": ["ops"]},
        "agents.update": {"label": "b"},
        "system.repair": {"entity": "project/default"},
    }
    if operation in special:
        return special[operation]
    body = ACCEPTED[operation](checked()).body
    return dict(body) if body else {}


def check(operation: str, state: str) -> None:
    at = scene(state)
    for actor in ACTORS:
        w = copied(at.template)
        before = w.everything()
        reply = send(w, at, operation, actor, state)
        wanted = expected(operation, actor, state)
        assert reply.code == wanted or (wanted is None and reply.status < 300), (
            operation,
            actor,
            state,
            wanted,
            reply.status,
            reply.body,
        )
        if wanted is not None:
            assert w.everything() == before, (operation, actor, state)


@pytest.mark.parametrize("state", STATUSES)
@pytest.mark.parametrize("operation", OF_JOBS)
def test_on_jobs(operation: str, state: str) -> None:
    check(operation, state)


@pytest.mark.parametrize("state", ["published", "gone"])
@pytest.mark.parametrize("operation", [*OF_AGENTS, *OF_OWNERS])
def test_on_people(operation: str, state: str) -> None:
    check(operation, state)


@pytest.mark.parametrize("operation", OF_DECISIONS)
def test_on_decisions(operation: str) -> None:
    check(operation, "published")


@pytest.mark.parametrize("operation", OTHERS)
def test_on_everything_else(operation: str) -> None:
    check(operation, "published")


def test_every_operation_has_rights_and_a_request() -> None:
    assert RIGHTS.keys() == OPERATIONS.keys() == ACCEPTED.keys()
    assert {*OF_JOBS, *OF_AGENTS, *OF_OWNERS, *OF_DECISIONS, *OTHERS} == OPERATIONS.keys()


def test_every_right_is_a_relation_that_somebody_here_stands_in() -> None:
    known = set().union(*RELATIONS.values()) | {"source", "holder", "last_holder", "self", "anyone"}
    known |= {"asker", "named"}
    assert set().union(*RIGHTS.values()) == known


def test_somebody_gets_through_everywhere_and_somebody_does_not() -> None:
    for operation in OPERATIONS:
        states = STATUSES if operation in OF_JOBS else ["published"]
        answers = {expected(operation, actor, state) is None for actor in ACTORS for state in states}
        assert answers == ({True} if "anyone" in RIGHTS[operation] else {True, False}), operation
