"""Agents and owners: enrol, list, change, retire."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from interlock.app import load, timers, views, write
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.references import require_role
from interlock.app.settle import settle
from interlock.domain import ids
from interlock.domain.identity import INSTALLATION, Agent, Owner, Project, Token, secret_hash, write_token
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import Check

Person = TypeVar("Person", bound=Agent | Owner)

SHOWN_ONCE = "The token was shown once, by the first call. Rotate it to get another."


def new_secret(bus: Bus) -> str:
    """256 random bits as text."""
    return base64.urlsafe_b64encode(bus.entropy(32)).decode().rstrip("=")


def new_token(
    bus: Bus,
    kind: str,
    scope: str,
    identity: str,
    *,
    now: int,
    name: str = "",
    expires_in: int | None = None,
    token_id: str | None = None,
) -> tuple[Token, str]:
    """A token as it is kept, and its text, which is shown once."""
    secret = new_secret(bus)
    expires_at = now + expires_in * 1_000 if expires_in else 0
    made = Token(
        token_id or ids.ulid("tok", now, bus.entropy(10)), secret_hash(secret), name, now, expires_at
    )
    return made, write_token(kind, scope, identity, secret)


def scope_of(call: Call) -> str:
    """The project of the path, or the installation."""
    return call.project.id if call.project else INSTALLATION


def _enrol(
    call: Call, kind: str, build: Callable[[str, Token], Agent | Owner], data: Mapping[str, Any]
) -> Answer:
    """Create an identity with its first token. A repeat answers it without the token."""
    bus, scope = call.bus, scope_of(call)
    prefix = "agt" if kind == "agent" else "own"
    if call.key:
        identity = ids.derived(prefix, scope, call.key.hex())
        known = _existing(call, kind, identity)
        if known:
            return known
    else:
        identity = ids.ulid(prefix, call.now, bus.entropy(10))
    token, text = new_token(bus, kind, scope, identity, name="first", now=call.now)
    try:
        made = write.create(
            bus,
            build(identity, token),
            call.actor,
            [Fact(f"{kind}.created", data={**data, "token": token.id})],
        )
    except write.Lost:
        twin = _existing(call, kind, identity)
        if twin is None:
            raise
        return twin
    return Answer({kind: _view(made, call.now), "token": text}, created=True, version=made.version)


def _existing(call: Call, kind: str, identity: str) -> Answer | None:
    item = call.bus.store.table.get(keys.head(scope_of(call), kind, identity))
    if item is None:
        return None
    found = items.read(item)
    assert isinstance(found, Agent | Owner)
    if found.request != call.body_hash[:16]:
        raise InterlockError("idempotency_mismatch")
    return Answer({kind: _view(found, call.now), "hint": SHOWN_ONCE}, replayed=True, version=found.version)


def _view(found: Agent | Owner, now: int) -> dict[str, Any]:
    return views.agent(found, now) if isinstance(found, Agent) else views.owner(found, now)


def require_roles(project: Project, roles: Sequence[str]) -> None:
    """Raise ``unknown_role`` for the first role that is not live."""
    for role in roles:
        require_role(project, role, "roles")


def create_agent(call: Call) -> Answer:
    """Enrol an agent."""
    body, project = call.body, the_project(call)
    require_roles(project, body["roles"])

    def build(identity: str, token: Token) -> Agent:
        return Agent(
            id=identity,
            project=project.id,
            label=body["label"],
            created_at=call.now,
            roles=tuple(dict.fromkeys(body["roles"])),
            capabilities=tuple(dict.fromkeys(body["capabilities"])),
            tool_family=body["tool_family"],
            max_claims=body["max_claims"],
            tokens=(token,),
            request=call.body_hash[:16],
        )

    return _enrol(call, "agent", build, {"label": body["label"], "roles": list(body["roles"])})


def create_owner(call: Call) -> Answer:
    """Enrol an owner of the project, or of the installation."""
    body = call.body

    def build(identity: str, token: Token) -> Owner:
        return Owner(
            id=identity,
            scope=scope_of(call),
            label=body["label"],
            created_at=call.now,
            rights=body["rights"],
            tokens=(token,),
            request=call.body_hash[:16],
        )

    return _enrol(call, "owner", build, {"label": body["label"], "rights": body["rights"]})


def list_agents(call: Call) -> Answer:
    """All agents, retired ones included."""
    found, cursor = load.members(call, the_project(call).id, "agent")
    return Answer(
        {"items": [views.agent(items.agent(item), call.now) for item in found], "next_cursor": cursor}
    )


def list_owners(call: Call) -> Answer:
    """All owners, removed ones included."""
    found, cursor = load.members(call, scope_of(call), "owner")
    return Answer(
        {"items": [views.owner(items.owner(item), call.now) for item in found], "next_cursor": cursor}
    )


def the_agent(call: Call) -> Agent:
    """The call's agent."""
    assert isinstance(call.target, Agent)
    return call.target


def get_agent(call: Call) -> Answer:
    """Read an agent."""
    found = the_agent(call)
    return Answer({"agent": views.agent(found, call.now)}, version=found.version)


def require_active(person: Agent | Owner) -> None:
    """Raise unless the identity is still enrolled."""
    if person.retired_at:
        raise InterlockError("wrong_state", "this identity was retired; enrol a new one")


def update_agent(call: Call) -> Answer:
    """Change label, roles or capabilities; binds the agent's next call."""
    given = {name: call.body[name] for name in call.sent}
    if "roles" in given:
        require_roles(the_project(call), given["roles"])

    def decision(agent: Agent) -> Change | None:
        require_active(agent)
        new = {
            name: tuple(dict.fromkeys(value)) if isinstance(value, list) else value
            for name, value in given.items()
        }
        changed = {name: value for name, value in new.items() if value != getattr(agent, name)}
        if not changed:
            return None
        shown = {name: [_plain(getattr(agent, name)), _plain(value)] for name, value in changed.items()}
        return Change(changed, (Fact("agent.updated", data={"changes": shown}),))

    agent, _ = settle(call, the_agent(call), decision)
    return Answer({"agent": views.agent(agent, call.now)}, version=agent.version)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _retirement(kind: str, now: int) -> Callable[[Any], Change | None]:
    def decision(person: Agent | Owner) -> Change | None:
        if person.retired_at:
            return None
        revoked = tuple(
            token if token.revoked_at else replace(token, revoked_at=now) for token in person.tokens
        )
        name = "agent.retired" if kind == "agent" else "owner.removed"
        return Change({"retired_at": now, "tokens": revoked}, (Fact(name),))

    return decision


def retire_agent(call: Call) -> Answer:
    """Retire an agent: its tokens end at once, its claims are stopped and their jobs published again.

    A crash between the two, and a claim of the last moment, are healed by the dispatcher, which asks for the same later.
    """
    agent, _ = settle(call, the_agent(call), _retirement("agent", call.now))
    timers.empty_hands(call.bus, agent)
    return Answer({"agent": views.agent(agent, call.now)}, version=agent.version)


def stop_agent(call: Call) -> Answer:
    """Stop an agent: its claims end, and it claims nothing until an owner resumes it.

    The mark on its head comes first; a crash after it, and a claim of the last moment, are healed by the dispatcher,
    which asks for empty hands later.
    """
    body = call.body

    def decision(agent: Agent) -> Change | None:
        require_active(agent)
        known = agent.stop or {}
        if (known.get("then"), known.get("reason")) == (body["then"], body["reason"]):
            return None
        stop = {"at": call.now, "reason": body["reason"], "then": body["then"], "by": call.actor.id}
        return Change(
            {"stop": stop}, (Fact("agent.stopped", data={"then": body["then"], "reason": body["reason"]}),)
        )

    agent, repeated = settle(call, the_agent(call), decision)
    timers.empty_hands(call.bus, agent)
    return Answer({"agent": views.agent(agent, call.now)}, replayed=repeated, version=agent.version)


def remove_owner(call: Call) -> Answer:
    """Remove an owner; the tokens end at once. The last owner of the installation cannot be removed."""
    assert isinstance(call.target, Owner)
    if call.target.id == call.actor.id:
        raise InterlockError("in_use", "an owner cannot remove itself", hint="Another owner has to do it.")
    # of two owners who remove each other one must stay: who removes is still there when it is written
    me, retire = keys.head(call.actor.scope, "owner", call.actor.id), _retirement("owner", call.now)

    def decision(owner: Owner) -> Change | None:
        item = call.bus.store.table.get(me)
        if item is None or "retired_at" in item:
            raise InterlockError("token_revoked")
        return retire(owner)

    owner, _ = settle(call, call.target, decision, parts=lambda _: [Check(me, conditions.enrolled())])
    return Answer({"owner": views.owner(owner, call.now)}, version=owner.version)
