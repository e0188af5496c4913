"""Roles of a project: make, list, change, delete. They live in the project's head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interlock.app import views
from interlock.app.call import Answer, Call, the_project
from interlock.app.projects import amend
from interlock.domain import limits
from interlock.domain.identity import Project, Role
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import FieldError, InterlockError


def create(call: Call) -> Answer:
    """Make a role."""
    body = call.body
    role = Role(
        body["key"],
        body["label"],
        call.now,
        body["lease_seconds"],
        body["on_expire"],
        tuple(dict.fromkeys(body["capabilities"])),
        body["independent"],
        body["max_claims"],
        body["daily_budget"],
    )

    def decision(project: Project) -> Change:
        if role.key in project.roles:
            raise InterlockError(
                "already_exists", f"there is a role {role.key!r}", errors=[FieldError("key", "taken")]
            )
        if len(project.roles) >= limits.PROJECT_ROLES:
            raise InterlockError("limit_reached", f"a project has at most {limits.PROJECT_ROLES} roles")
        former = tuple(key for key in project.former_roles if key != role.key)
        return Change(
            {"roles": {**project.roles, role.key: role}, "former_roles": former},
            (Fact("role.created", data={"role": role.key}),),
        )

    project, repeated = amend(call, decision)
    shown = project.roles.get(role.key, role)
    return Answer(
        {"role": views.role(shown)}, created=not repeated, replayed=repeated, version=project.version
    )


def list_all(call: Call) -> Answer:
    """All live roles, by key."""
    project = the_project(call)
    return Answer(
        {"items": [views.role(project.roles[key]) for key in sorted(project.roles)], "next_cursor": None},
        version=project.version,
    )


def _known(project: Project, key: str) -> Role:
    if key not in project.roles:
        raise InterlockError("not_found", f"there is no role {key!r}")
    return project.roles[key]


def update(call: Call) -> Answer:
    """Change a role's label and defaults; jobs that exist keep theirs."""
    key = call.params["role"]
    given: dict[str, Any] = {name: call.body[name] for name in call.sent}
    if "capabilities" in given:
        given["capabilities"] = tuple(dict.fromkeys(given["capabilities"] or ()))

    def decision(project: Project) -> Change | None:
        role = _known(project, key)
        changed = {name: value for name, value in given.items() if getattr(role, name) != value}
        if not changed:
            return None
        fact = Fact("role.updated", data={"role": key, "changed": sorted(changed)})
        return Change({"roles": {**project.roles, key: replace(role, **changed)}}, (fact,))

    project, _ = amend(call, decision)
    return Answer({"role": views.role(_known(project, key))}, version=project.version)


def delete(call: Call) -> Answer:
    """Delete a role: it takes no new jobs, and nobody can claim those that wait for it until it is made again."""
    key = call.params["role"]
    gone: list[Role] = []

    def decision(project: Project) -> Change:
        gone[:] = [_known(project, key)]
        left = {name: role for name, role in project.roles.items() if name != key}
        former = tuple(dict.fromkeys((*project.former_roles, key)))[-limits.PROJECT_ROLES :]
        return Change({"roles": left, "former_roles": former}, (Fact("role.deleted", data={"role": key}),))

    project, _ = amend(call, decision)
    return Answer({"role": views.role(gone[0])}, version=project.version)
