"""Heads and rows as items: the one place that turns values into attributes and back, and that sets index keys.

Items carry ``format``; this code writes :data:`FORMAT` and reads it and the one before (there is none yet).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from interlock.domain.identity import Agent, Owner, Project, Role, Token
from interlock.domain.job import Job
from interlock.domain.lifecycle import FAILED, HELD, PENDING, PUBLISHED
from interlock.domain.plan import Plan
from interlock.domain.presence import Presence
from interlock.store import keys
from interlock.store.ports import Item, Key

FORMAT = 1

Head = Job | Plan | Project | Agent | Owner | Presence

# What packed events and documents have in common; it shortens small ones to about half.
_DICTIONARY = (
    b'","blocked_reason":"","failure_reason":"lease_expired","holder":"agt_","retry_count":0,"attempt":1,"lease_seconds":1800}'
    b'"type":"job.created","type":"job.completed","type":"job.lease_expired","type":"job.claimed","entity":"job/job_01'
    b'"actor":{"kind":"owner","id":"own_","label":"actor":{"kind":"system","id":"system","label":"Interlock"}'
    b'"from":"in_progress","to":"completed","from":null,"to":"published","data":{"fence":1,'
    b'[{"seq":1,"at":"2026-11-30T00:00:00.000Z","type":"job.claimed","entity":"job/job_",'
    b'"actor":{"kind":"agent","id":"agt_","label":"agent-"},"from":"published","to":"in_progress","data":{"fence":1,'
    b'"attempt":1,"lease_seconds":1800},"prev":"0000000000000000","digest":"'
)


_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def pack(value: Any) -> bytes:
    """JSON text, compressed; keeps key order, lone surrogates and big integers."""
    text = _compact(value).encode("utf-8", "surrogatepass")
    packer = zlib.compressobj(level=6 if len(text) < 4096 else 1, zdict=_DICTIONARY)
    return packer.compress(text) + packer.flush()


def size(value: Any) -> int:
    """Bytes of the value as compact UTF-8 JSON, as an answer carries it."""
    return len(_compact(value).encode("utf-8", "surrogatepass"))


def unpack(data: bytes) -> Any:
    """The value that :func:`pack` was given."""
    unpacker = zlib.decompressobj(zdict=_DICTIONARY)
    return json.loads((unpacker.decompress(data) + unpacker.flush()).decode("utf-8", "surrogatepass"))


# Fields whose attribute form differs from their value.
_PACKED = frozenset({"settings", "pauses", "broadcasts", "jobs"})


def _encode(name: str, value: Any) -> Any:
    if name == "digest":
        return bytes.fromhex(value)
    if name == "tokens":
        return [_token_item(token) for token in value]
    if name == "roles" and isinstance(value, Mapping):
        return pack({key: _role_item(role) for key, role in value.items()})
    if name in _PACKED:
        return pack(value)
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _decode(name: str, value: Any) -> Any:
    if name == "digest":
        return value.hex()
    if name == "tokens":
        return tuple(Token(**token) for token in value)
    if name == "roles" and isinstance(value, bytes):
        return _roles(value)
    if name in _PACKED:
        return unpack(value)
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=64)
def _roles(packed: bytes) -> Mapping[str, Role]:
    """A project's roles. Every call reads them and they seldom change; nobody changes the mapping."""
    return MappingProxyType({key: _role(key, role) for key, role in unpack(packed).items()})


def _token_item(token: Token) -> Item:
    return {name: value for name in Token.__slots__ if (value := getattr(token, name)) not in ("", 0)}


def _role_item(role: Role) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in Role.__slots__
        if name != "key" and (value := getattr(role, name)) not in (None, (), False)
    }


def _role(key: str, item: Mapping[str, Any]) -> Role:
    return Role(**{**item, "key": key, "capabilities": tuple(item.get("capabilities", ()))})


_IN_KEY: dict[type, frozenset[str]] = {
    Job: frozenset({"id", "project"}),
    Plan: frozenset({"id", "project"}),
    Presence: frozenset({"id", "project"}),
    Project: frozenset({"id"}),
    Agent: frozenset({"id", "project"}),
    Owner: frozenset({"id", "scope"}),
}
"""Fields that the primary key says; they are not attributes."""
_STORED: dict[type, tuple[tuple[str, Any], ...]] = {
    t: tuple((f.name, f.default) for f in fields(t) if f.name not in _IN_KEY[t]) for t in _IN_KEY
}
_KINDS: dict[type, str] = {
    Job: "job",
    Plan: "plan",
    Project: "project",
    Agent: "agent",
    Owner: "owner",
    Presence: "presence",
}


def head_key(head: Head) -> Key:
    """The primary key of a head."""
    scope = head.id if isinstance(head, Project) else head.scope if isinstance(head, Owner) else head.project
    return keys.head(scope, _KINDS[type(head)], head.id)


def entity(head: Head) -> str:
    """How the ledger names the entity."""
    return f"{_KINDS[type(head)]}/{head.id}"


def encode(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Field values as attributes to set and attributes to remove (None, and what equals an absent attribute)."""
    to_set: dict[str, Any] = {}
    to_remove: list[str] = []
    for name, value in attributes.items():
        if value is None or value in ((), ""):
            to_remove.append(name)
        else:
            to_set[name] = _encode(name, value)
    return to_set, to_remove


def attributes_of(head: Head) -> dict[str, Any]:
    """A whole head as attributes, for its creation; fields that equal their default are left out."""
    shown = {
        name: value for name, default in _STORED[type(head)] if (value := getattr(head, name)) != default
    }
    return {**encode(shown)[0], "format": FORMAT}


def _values(kind: type, item: Item) -> dict[str, Any]:
    return {name: _decode(name, item[name]) for name, _ in _STORED[kind] if name in item}


def job(item: Item) -> Job:
    """A job's head from its item."""
    project, _, job_id = keys.entity_of(item["pk"])
    return Job(id=job_id, project=project, **_values(Job, item))


def plan(item: Item) -> Plan:
    """A plan's head from its item."""
    scope, _, plan_id = keys.entity_of(item["pk"])
    return Plan(id=plan_id, project=scope, **_values(Plan, item))


def presence(item: Item) -> Presence:
    """Whether an agent is missed, from its item."""
    scope, _, agent_id = keys.entity_of(item["pk"])
    return Presence(id=agent_id, project=scope, **_values(Presence, item))


def project(item: Item) -> Project:
    """A project's head from its item."""
    return Project(id=keys.entity_of(item["pk"])[2], **_values(Project, item))


def agent(item: Item) -> Agent:
    """An agent's head from its item."""
    scope, _, agent_id = keys.entity_of(item["pk"])
    return Agent(id=agent_id, project=scope, **_values(Agent, item))


def owner(item: Item) -> Owner:
    """An owner's head from its item."""
    scope, _, owner_id = keys.entity_of(item["pk"])
    return Owner(id=owner_id, scope=scope, **_values(Owner, item))


_READERS: dict[str, Callable[[Item], Head]] = {
    "job": job,
    "plan": plan,
    "presence": presence,
    "project": project,
    "agent": agent,
    "owner": owner,
}


def read(item: Item) -> Head:
    """Any head from its item."""
    return _READERS[keys.entity_of(item["pk"])[1]](item)


def index_keys(head: Head) -> dict[str, str]:
    """Index 1's key of a head as it is now: what may still move; empty when nothing lists it there."""
    if isinstance(head, Job):
        return _job_index(head)
    if isinstance(head, Plan | Presence):
        return {}
    if isinstance(head, Project):
        return {"g1pk": keys.members_partition(keys.INSTALLATION, "project"), "g1sk": head.id}
    scope = head.scope if isinstance(head, Owner) else head.project
    return {"g1pk": keys.members_partition(scope, _KINDS[type(head)]), "g1sk": head.id}


def _job_index(head: Job) -> dict[str, str]:
    project_id, status = head.project, head.status
    if head.archived is not None:
        return {}
    if status == PUBLISHED:
        sort = keys.ready_sort(head.priority, head.published_at or 0, head.id)
        return {"g1pk": keys.ready_partition(project_id, head.role), "g1sk": sort}
    if status in HELD:
        sort = keys.live_sort(head.assignee or "", head.started_at or 0, head.id)
        return {"g1pk": keys.live_partition(project_id), "g1sk": sort}
    if status == PENDING:
        return {
            "g1pk": keys.waiting_partition(project_id),
            "g1sk": keys.time_sort(head.not_before or 0, head.id),
        }
    if status == FAILED:
        return {
            "g1pk": keys.failed_partition(project_id),
            "g1sk": keys.time_sort(head.failed_at or 0, head.id),
        }
    if head.begun is not None:
        return {
            "g1pk": keys.reopened_partition(project_id),
            "g1sk": keys.time_sort(head.begun["at"], head.id),
        }
    return {}


def pack_events(events: Sequence[Mapping[str, Any]], staged: Mapping[int, str]) -> bytes:
    """A head's latest events; those whose data is staged (seq → content hash) carry the hash instead of data."""
    rows = [
        {**event, "data": None, "large": staged[event["seq"]]} if event["seq"] in staged else dict(event)
        for event in events
    ]
    return pack(rows)


def log_row(pk: str, event: Mapping[str, Any], written_at: int) -> Item:
    """The ledger row of one unpacked event of a head, with its place in the feed."""
    scope = keys.entity_of(pk)[0]
    key = keys.log(pk, event["seq"])
    return {
        "pk": pk,
        "sk": key.sk,
        "events": pack([event]),
        "g2pk": keys.feed_partition(scope),
        "g2sk": keys.feed_sort(written_at, pk, event["seq"]),
    }
