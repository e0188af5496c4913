"""Who calls: actors, projects with their roles and pauses, agents, owners, and their tokens."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.domain import limits

INSTALLATION = "installation"
RESERVED_PROJECTS = frozenset({INSTALLATION})
RESERVED_ROLES = frozenset({"owner"})
DEFAULT_SETTINGS: Mapping[str, Any] = {
    "visibility": "project",
    "lease_seconds": limits.DEFAULT_LEASE_SECONDS,
    "cancel_overdue": False,
    "retention_days": None,
    "max_claims": None,
    "daily_budget": None,
}
"""A project's settings: who sees jobs (``project``: every agent; ``roles``: those of its roles and what it
created), the default lease, whether a job past its deadline is cancelled,
after how many days ended lineages go to the archive (None: never), how many jobs may be held at once and how much
may be used in a day (None: no limit)."""


@dataclass(frozen=True, slots=True)
class Token:
    """A credential of an agent or owner. Only the SHA-256 of the secret is kept. Times in ms, 0 = never."""

    id: str
    hash: bytes
    name: str = ""
    created_at: int = 0
    expires_at: int = 0
    revoked_at: int = 0

    def live(self, now: int) -> bool:
        """Whether it authenticates at this time."""
        return not self.revoked_at and (not self.expires_at or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Role:
    """A routing label with defaults for its jobs."""

    key: str
    label: str
    created_at: int
    lease_seconds: int | None = None
    on_expire: str | None = None
    capabilities: tuple[str, ...] = ()
    independent: bool = False
    max_claims: int | None = None
    daily_budget: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The control item of a project: read consistently at each claim, so that a pause binds at once."""

    id: str
    title: str
    created_at: int
    settings: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_SETTINGS)
    roles: Mapping[str, Role] = field(default_factory=dict)
    former_roles: tuple[str, ...] = ()
    """Keys of deleted roles: jobs may still wait for them."""
    pauses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    broadcasts: Mapping[str, Mapping[str, Any]] | None = None
    """What owners tell agents, by id: text, roles, from when to when."""
    version: int = 0
    digest: str = ""
    ops: tuple[bytes, ...] = ()

    def told(self, now: int) -> dict[str, Mapping[str, Any]]:
        """What owners tell agents at this time, by id, oldest first."""
        return {name: entry for name, entry in (self.broadcasts or {}).items() if now < entry["until"]}

    def pause_of(self, roles: tuple[str, ...] | list[str], agent: str) -> str | None:
        """The first pause that binds a claim for one of ``roles`` by ``agent``: its target, or None."""
        for target in ("project", *(f"role:{role}" for role in roles), f"agent:{agent}"):
            if target in self.pauses:
                return target
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An enrolled AI or script.

    ``stop`` says that an owner stopped it: since when, why, by whom, and where its jobs go.
    """

    id: str
    project: str
    label: str
    created_at: int
    roles: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    tool_family: str | None = None
    max_claims: int | None = None
    stop: Mapping[str, Any] | None = None
    tokens: tuple[Token, ...] = ()
    retired_at: int = 0
    version: int = 0
    digest: str = ""
    ops: tuple[bytes, ...] = ()
    request: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A person with rights ``owner`` or ``viewer`` over one project, or over the installation."""

    id: str
    scope: str
    label: str
    created_at: int
    rights: str = "owner"
    tokens: tuple[Token, ...] = ()
    retired_at: int = 0
    version: int = 0
    digest: str = ""
    ops: tuple[bytes, ...] = ()
    request: bytes = b""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: ``kind`` is agent, owner or system. ``scope`` is the credential's project or the installation."""

    kind: str
    id: str
    label: str
    scope: str = ""
    rights: str = ""
    roles: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    via: str | None = None
    person: Agent | None = None
    """The agent as its head says, where an agent acts."""

    @property
    def stopped(self) -> str | None:
        """Why an owner has stopped the agent that acts; None where nobody has."""
        return None if self.person is None or self.person.stop is None else str(self.person.stop["reason"])

    @property
    def reference(self) -> str:
        """``kind:id``: how a job names its source."""
        return f"{self.kind}:{self.id}"

    def as_event(self) -> dict[str, str]:
        """The actor as events show it."""
        shown = {"kind": self.kind, "id": self.id, "label": self.label}
        return {**shown, "via": self.via} if self.via else shown


SYSTEM = Actor("system", "system", "Interlock")


@dataclass(frozen=True, slots=True)
class Credential:
    """A bearer token, taken apart: kind (agent, owner), scope, identity and the hash of its secret."""

    kind: str
    scope: str
    identity: str
    hash: bytes


_PREFIXES = {"il_agt_": "agent", "il_own_": "owner"}
_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def secret_hash(secret: str) -> bytes:
    """What is kept of a secret. It has 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).digest()


def write_token(kind: str, scope: str, identity: str, secret: str) -> str:
    """The bearer token of an identity."""
    prefix = next(p for p, k in _PREFIXES.items() if k == kind)
    return f"{prefix}{scope}.{identity}.{secret}"


def read_token(text: str) -> Credential | None:
    """Take a bearer token apart; None when it does not have the form of one."""
    kind = _PREFIXES.get(text[:7])
    parts = text[7:].split(".")
    if kind is None or len(parts) != 3 or not all(parts) or len(text) > 300 or not text.isascii():
        return None
    scope, identity, secret = parts
    if not _KEY_CHARACTERS.issuperset(scope) or not _KEY_CHARACTERS.issuperset(identity):
        return None
    if kind == "agent" and scope == INSTALLATION:
        return None
    return Credential(kind, scope, identity, secret_hash(secret))


def judge_token(tokens: tuple[Token, ...], credential: Credential, now: int) -> str | None:
    """Why a credential does not authenticate (an error code), or None when it does."""
    for token in tokens:
        if hmac.compare_digest(token.hash, credential.hash):
            if token.revoked_at:
                return "token_revoked"
            return None if token.live(now) else "token_expired"
    return "token_invalid"


def live_tokens(tokens: tuple[Token, ...], now: int) -> list[Token]:
    """The tokens that authenticate at this time."""
    return [token for token in tokens if token.live(now)]


def remembered(tokens: tuple[Token, ...], now: int) -> tuple[Token, ...]:
    """All live tokens and the latest ended ones, so that the list stays bounded."""
    dead = [token for token in tokens if not token.live(now)]
    kept = {token.id for token in dead[-limits.DEAD_TOKENS :]}
    return tuple(token for token in tokens if token.live(now) or token.id in kept)
