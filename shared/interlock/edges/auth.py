"""Who calls and on what: one consistent read loads credential, project and object; then existence, then rights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.app import decisions as decisions_of
from interlock.app import load, neighbours
from interlock.app.call import Bus
from interlock.domain import access, ids, moves
from interlock.domain.decision import Decision
from interlock.domain.identity import (
    INSTALLATION,
    Actor,
    Agent,
    Credential,
    Owner,
    Project,
    judge_token,
    read_token,
)
from interlock.domain.job import Job
from interlock.edges.operations import Operation
from interlock.errors import InterlockError
from interlock.store import decisions, items, keys
from interlock.store.ports import Item, Key

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_OBJECTS = ("job", "agent", "owner")


@dataclass(frozen=True, slots=True)
class Admission:
    """A caller that was let in: who it is, its project, and the object of the path (of a decision: its job too)."""

    actor: Actor
    project: Project | None
    target: Job | Agent | Owner | None
    decision: Decision | None = None


def challenge(code: str, base: str) -> str:
    """The WWW-Authenticate header of every 401: where the API, at this address, says how to get a credential."""
    where = f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource"'
    return where if code == "token_missing" else where + ', error="invalid_token"'


def credential_of(header: str | None) -> Credential:
    """The credential of an Authorization header."""
    if not header:
        raise InterlockError("token_missing")
    scheme, _, text = header.strip().partition(" ")
    found = read_token(text.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise InterlockError("token_invalid", "the Authorization header does not carry an Interlock token")
    return found


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as its credential says: in which project that holds (None for owners of the installation)."""

    actor: Actor
    project: Project | None


def identify(bus: Bus, header: str | None, now: int) -> Caller:
    """Authenticate a caller that names no project: it is the credential's own. Raises 401, 404."""
    credential = credential_of(header)
    own = None if credential.scope == INSTALLATION else credential.scope
    found = _read(bus, (_identity(credential), _control(own)))
    return _caller(found, credential, own, now)


def admit(
    bus: Bus, operation: Operation, params: Mapping[str, str], header: str | None, now: int
) -> Admission:
    """Authenticate, find project and object, check the right. Raises 401, 404, 403, in this order."""
    credential = credential_of(header)
    path_project = params.get("project")
    sound = _sound(params)
    objects = _objects(path_project, params) if sound else (None, None)
    found = _read(bus, (_identity(credential), _control(path_project) if sound else None, *objects))
    caller = _caller(found, credential, path_project, now, sound=sound)
    return _on(bus, operation, params, caller, found, objects)


def admit_known(bus: Bus, operation: Operation, params: Mapping[str, str], caller: Caller) -> Admission:
    """Find the object for a caller that was identified within this request, check the right. Raises 404, 403."""
    if not _sound(params):
        raise InterlockError("not_found")
    objects = _objects(params.get("project"), params)
    return _on(bus, operation, params, caller, _read(bus, objects), objects)


def _sound(params: Mapping[str, str]) -> bool:
    return all(_ID.fullmatch(value) for value in params.values())


def _identity(credential: Credential) -> Key:
    return keys.head(credential.scope, credential.kind, credential.identity)


def _control(project: str | None) -> Key | None:
    return None if project is None else keys.project_head(project)


def _objects(project: str | None, params: Mapping[str, str]) -> tuple[Key | None, Key | None]:
    """The keys of the object that a path names, and of the decision where it names one."""
    scope = project or INSTALLATION
    asked = keys.decision(scope, params["decision"]) if "decision" in params else None
    return _object_key(scope, params), asked


def _read(bus: Bus, wanted: Sequence[Key | None]) -> Mapping[Key, Item]:
    """One consistent read of all that is wanted."""
    present = [key for key in wanted if key is not None]
    return bus.store.table.batch_get(present) if present else {}


def _caller(
    found: Mapping[Key, Item],
    credential: Credential,
    wanted: str | None,
    now: int,
    *,
    sound: bool = True,
) -> Caller:
    """The caller in the project that is wanted, which must be there and its own."""
    person = _authenticated(found.get(_identity(credential)), credential, now)
    control = _control(wanted)
    project = items.project(found[control]) if control is not None and control in found else None
    foreign = wanted is not None and credential.scope not in (wanted, INSTALLATION)
    if not sound or foreign or (wanted is not None and project is None):
        raise InterlockError("not_found")
    return Caller(_actor(person, project), project)


def _on(
    bus: Bus,
    operation: Operation,
    params: Mapping[str, str],
    caller: Caller,
    found: Mapping[Key, Item],
    objects: tuple[Key | None, Key | None],
) -> Admission:
    """The object as the caller sees it, and whether it may go on."""
    actor, project = caller.actor, caller.project
    object_key, asked_key = objects
    target = _target(found, object_key)
    asked = decisions.read(found[asked_key]) if asked_key is not None and asked_key in found else None
    if "decision" in params:
        if asked is None or project is None or not isinstance(target, Job):
            raise InterlockError("not_found")
        if not decisions_of.visible(asked, target, actor, project):
            raise InterlockError("not_found")
    elif object_key is not None and (target is None or not _sees(bus, actor, project, target)):
        raise InterlockError("not_found")
    _check_right(operation, actor, target, asked)
    return Admission(actor, project, target, asked)


def _object_key(scope: str, params: Mapping[str, str]) -> Key | None:
    if "decision" in params:
        job = ids.job_of_decision(params["decision"])
        return None if job is None else keys.head(scope, "job", job)
    for kind in _OBJECTS:
        if kind in params:
            return keys.head(scope, kind, params[kind])
    return None


def _target(found: Mapping[Key, Item], key: Key | None) -> Job | Agent | Owner | None:
    if key is None or key not in found:
        return None
    head = items.read(found[key])
    return head if isinstance(head, Job | Agent | Owner) else None


def _authenticated(item: Item | None, credential: Credential, now: int) -> Agent | Owner:
    if item is None:
        raise InterlockError("token_invalid")
    person = items.read(item)
    assert isinstance(person, Agent | Owner)
    refused = judge_token(person.tokens, credential, now)
    if refused:
        raise InterlockError(refused)
    return person


def _actor(person: Agent | Owner, project: Project | None) -> Actor:
    if isinstance(person, Owner):
        return Actor("owner", person.id, person.label, person.scope, person.rights)
    live = tuple(role for role in person.roles if project is not None and role in project.roles)
    return Actor(
        "agent",
        person.id,
        person.label,
        person.project,
        roles=live,
        capabilities=person.capabilities,
        person=person,
    )


def _sees(bus: Bus, actor: Actor, project: Project | None, target: Job | Agent | Owner) -> bool:
    if isinstance(target, Job):
        return project is not None and (
            load.visible(target, actor, project) or neighbours.sees_by_link(bus, target, actor, project)
        )
    return actor.kind == "owner" or target.id == actor.id


def _check_right(
    operation: Operation, actor: Actor, target: Job | Agent | Owner | None, asked: Decision | None
) -> None:
    held = access.relations(actor.kind, actor.rights, actor.scope, live_role=bool(actor.roles))
    if target is not None and target.id == actor.id:
        held |= {"self"}
    if isinstance(target, Job) and target.source == actor.reference:
        held |= {"source"}
    if isinstance(target, Job) and target.held_by(actor.id):
        held |= {"agent"}  # a holder acts on what it holds even when its roles were taken away meanwhile
    if asked is not None:
        held |= {"asker"} if asked.asked_by_actor(actor) else set()
        held |= {"named"} if asked.names(actor) else set()
        holds = isinstance(target, Job) and target.held_by(actor.id)
        if operation.name == "decisions.answer":
            moves.require_not_stopped(actor)
        if operation.name == "decisions.answer" and ("asker" in held or holds):
            raise InterlockError("self_answer", "the caller " + ("holds the job" if holds else "asked it"))
    if not access.allowed(operation.name, held, actor.kind):
        needed = " or ".join(access.WORDS[right] for right in access.RIGHTS[operation.name])
        raise InterlockError(
            "forbidden",
            f"{operation.name} is for {needed}",
            hint="Ask an owner of the installation."
            if access.RIGHTS[operation.name] == ("installation",)
            else None,
            extra={"needs": list(access.RIGHTS[operation.name])},
        )
