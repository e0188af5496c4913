"""Broadcasts: what owners tell the agents of a project. They sit in the project's head and end by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.app import views
from interlock.app.call import Answer, Call, the_project
from interlock.app.projects import amend
from interlock.app.references import require_each_role
from interlock.domain import ids, limits
from interlock.domain.identity import Project
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import InterlockError


def create(call: Call) -> Answer:
    """Tell the agents of the project (or those of some roles) something, for a time."""
    body = call.body
    require_each_role(the_project(call), body["roles"])
    name = (
        ids.derived("brd", the_project(call).id, call.key.hex())
        if call.key
        else ids.ulid("brd", call.now, call.bus.entropy(10))
    )
    entry = {
        "text": body["text"],
        "roles": list(body["roles"]),
        "by": call.actor.id,
        "at": call.now,
        "until": call.now + body["expires_in"] * limits.SECOND,
    }

    def decision(project: Project) -> Change:
        there = project.told(call.now)
        if len(there) >= limits.BROADCASTS:
            raise InterlockError(
                "limit_reached",
                f"a project has at most {limits.BROADCASTS} broadcasts at a time; take one back",
            )
        fact = Fact(
            "project.broadcast", data={"broadcast": name, "text": body["text"], "roles": entry["roles"]}
        )
        return Change({"broadcasts": {**there, name: entry}}, (fact,))

    project, repeated = amend(call, decision)
    shown = (project.broadcasts or {}).get(name, entry)
    return Answer({"broadcast": views.broadcast(name, shown)}, not repeated, repeated, project.version)


def delete(call: Call) -> Answer:
    """Take a broadcast back: no agent is told any more."""
    name = call.params["broadcast"]
    gone: list[Mapping[str, Any]] = []

    def decision(project: Project) -> Change:
        there = project.told(call.now)
        if name not in there:
            raise InterlockError("not_found", f"there is no broadcast {name}")
        gone[:] = [there.pop(name)]
        return Change({"broadcasts": there or None}, (Fact("project.unbroadcast", data={"broadcast": name}),))

    project, _ = amend(call, decision)
    return Answer({"broadcast": views.broadcast(name, gone[0])}, version=project.version)
