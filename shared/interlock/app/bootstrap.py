"""The first owner, and what a laptop's bus begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from interlock.app import write
from interlock.app.call import Bus
from interlock.app.identity import new_token
from interlock.domain import ids
from interlock.domain.identity import (
    DEFAULT_SETTINGS,
    INSTALLATION,
    SYSTEM,
    Agent,
    Owner,
    Project,
    Role,
    Token,
    judge_token,
    read_token,
)
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import InterlockError
from interlock.store import conditions, items, keys
from interlock.store.ports import ConditionLost, Key, Put

LOCAL_ROLES = ("developer", "qa", "reviewer", "ops")
INDEPENDENT = frozenset({"reviewer"})
"""Nobody reviews work that they have done themselves."""
_FIRST = Key(keys.partition(INSTALLATION, "installation", INSTALLATION), "FIRST")


def first_owner(bus: Bus, *, recover: bool = False) -> str:
    """Create the installation's first owner and answer its token, which is shown once.

    A second call is refused (``already_exists``) unless ``recover``, which enrols another owner, with an event.
    The owner is written before the mark that it exists: a crash between the two is repaired by calling again.
    """
    if not recover and bus.store.table.get(_FIRST) is not None:
        raise InterlockError(
            "already_exists",
            "the installation has its first owner",
            hint="Use --recover when the token was lost.",
        )
    now = bus.clock()
    owner_id = ids.ulid("own", now, bus.entropy(10))
    token, text = new_token(
        bus, "owner", INSTALLATION, owner_id, name="recovered" if recover else "first", now=now
    )
    label = "recovered owner" if recover else "first owner"
    owner = Owner(id=owner_id, scope=INSTALLATION, label=label, created_at=now, tokens=(token,))
    write.create(
        bus,
        owner,
        SYSTEM,
        [Fact("owner.created", data={"label": label, "recovered": recover, "token": token.id})],
    )
    try:
        bus.store.table.write(
            Put(_FIRST, {"pk": _FIRST.pk, "sk": _FIRST.sk, "owner": owner_id}, conditions.absent())
        )
    except ConditionLost as lost:
        first = lost.item or bus.store.table.get(_FIRST) or {}
        if not recover and first.get("owner") != owner_id:
            # somebody else bootstrapped at the same moment: theirs counts, ours never authenticates
            ended = tuple(replace(known, revoked_at=now) for known in owner.tokens)
            made = write.reload(bus, owner)
            write.change(
                bus, made, SYSTEM, now, Change({"tokens": ended, "retired_at": now}, (Fact("owner.removed"),))
            )
            raise InterlockError("already_exists", "the installation has its first owner") from None
    return text


def ensure_local(bus: Bus, owner_token: str, agent_token: str, *, roles: Sequence[str] = LOCAL_ROLES) -> None:
    """Make what a laptop's bus begins with, as far as it is missing: the installation's owner, a project with
    roles, one agent that holds them all. The tokens were made, and stored for their user, before."""
    now = bus.clock()
    owner_credential, agent_credential = read_token(owner_token), read_token(agent_token)
    assert owner_credential is not None
    assert agent_credential is not None
    project_id = agent_credential.scope
    made: Mapping[str, Role] = {
        key: Role(key, key.capitalize(), now, independent=key in INDEPENDENT) for key in roles
    }
    project = Project(
        id=project_id, title="Default project", created_at=now, settings=dict(DEFAULT_SETTINGS), roles=made
    )
    owner = Owner(
        id=owner_credential.identity,
        scope=INSTALLATION,
        label="local owner",
        created_at=now,
        tokens=(Token(ids.derived("tok", owner_credential.identity), owner_credential.hash, "local", now),),
    )
    agent = Agent(
        id=agent_credential.identity,
        project=project_id,
        label="agent-1",
        created_at=now,
        roles=tuple(roles),
        tokens=(Token(ids.derived("tok", agent_credential.identity), agent_credential.hash, "local", now),),
    )
    facts = [
        Fact("project.created", data={"title": project.title}),
        Fact("role.created", data={"roles": list(roles)}),
    ]
    for head, happened in (
        (owner, [Fact("owner.created", data={"label": owner.label})]),
        (project, facts),
        (agent, [Fact("agent.created", data={"label": agent.label, "roles": list(roles)})]),
    ):
        try:
            write.create(bus, head, SYSTEM, happened)
        except write.Lost:
            continue


def dead_tokens(bus: Bus, *texts: str) -> list[str]:
    """Which of these tokens do not authenticate (any more), each as `kind: code`."""
    dead = []
    for text in texts:
        credential = read_token(text)
        assert credential is not None
        item = bus.store.table.get(keys.head(credential.scope, credential.kind, credential.identity))
        person = items.read(item) if item else None
        code = (
            judge_token(person.tokens, credential, bus.clock())
            if isinstance(person, Agent | Owner)
            else "token_invalid"
        )
        if code:
            dead.append(f"{credential.kind}: {code}")
    return dead
