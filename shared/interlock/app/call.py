"""What a use case is given and what it answers, whatever edge it was called through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.domain.decision import Decision
from interlock.domain.identity import Actor, Agent, Owner, Project
from interlock.domain.job import Job
from interlock.store.ports import Store


@dataclass(frozen=True, slots=True)
class Bus:
    """The running bus: its store, its clock (ms since 1970, the only clock that counts), its randomness, and how
    it waits (seconds)."""

    store: Store
    clock: Callable[[], int]
    entropy: Callable[[int], bytes]
    pause: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated call of an operation.

    ``target`` is the head of the object that the path names, loaded consistently with the credential.
    ``body`` and ``query`` were validated by the operation's models: every field is there, defaults filled in,
    and ``sent`` names the fields that the caller sent. ``key`` is the digest of the Idempotency-Key (scope:
    actor, operation, object) or None; ``body_hash`` is the digest of the canonical body.
    """

    bus: Bus
    operation: str
    actor: Actor
    now: int
    project: Project | None = None
    target: Job | Agent | Owner | None = None
    decision: Decision | None = None
    """The decision that the path names; ``target`` is its job then."""
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    sent: frozenset[str] = frozenset()
    key: bytes | None = None
    body_hash: bytes = b""
    if_match: int | None = None
    trace: str | None = None
    base: str = ""
    """The bus's address as the caller wrote it: scheme and host."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A use case's answer: a JSON value, whether something was created, whether it was a replay, its version."""

    value: dict[str, Any]
    created: bool = False
    replayed: bool = False
    version: int | None = None


def the_job(call: Call) -> Job:
    """The call's job."""
    assert isinstance(call.target, Job)
    return call.target


def the_project(call: Call) -> Project:
    """The call's project."""
    assert call.project is not None
    return call.project
