"""The ledger: numbered, hash-chained events. One chain per entity.

The digest of an event is SHA-256 over the previous digest (as hex text) and the canonical JSON of the event as
it is served, without ``digest``: sorted keys, no spaces, ASCII escapes. Anyone can recompute it from an answer
or an export.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.domain.times import rfc3339

GENESIS = "0" * 64
"""``prev`` of an entity's first event."""


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


@dataclass(frozen=True, slots=True)
class Fact:
    """What happened, before it is numbered: the event's type, statuses (for jobs) and data."""

    type: str
    from_status: str | None = None
    to_status: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Facts as events, with the number and digest of the last one."""

    events: tuple[dict[str, Any], ...]
    version: int
    digest: str


def canonical(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, ASCII escapes."""
    return _canonical(value).encode("ascii")


def digest_of(event: Mapping[str, Any]) -> str:
    """The digest that an event must carry, as hex."""
    body = {name: value for name, value in event.items() if name != "digest"}
    return hashlib.sha256(str(event["prev"]).encode("ascii") + canonical(body)).hexdigest()


def seal(
    entity: str, version: int, digest: str, now: int, actor: Mapping[str, str], facts: Sequence[Fact]
) -> Sealed:
    """Number and chain ``facts`` after the event ``version`` of ``entity`` (``<kind>/<id>``), whose digest is given.

    ``version`` 0 and :data:`GENESIS` begin a chain.
    """
    events = []
    for fact in facts:
        version += 1
        event: dict[str, Any] = {
            "seq": version,
            "at": rfc3339(now),
            "type": fact.type,
            "entity": entity,
            "actor": dict(actor),
            "from": fact.from_status,
            "to": fact.to_status,
            "data": dict(fact.data),
            "prev": digest,
        }
        digest = digest_of(event)
        events.append({**event, "digest": digest})
    return Sealed(tuple(events), version, digest)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a chain: ``kind`` is ``hole``, ``broken`` (a digest does not fit), ``fork`` (two
    different events with one number) or ``short`` (the head knows more events than the ledger)."""

    entity: str
    seq: int
    kind: str
    detail: str


def verify(
    events: Iterable[Mapping[str, Any]], heads: Mapping[str, tuple[int, str]] | None = None
) -> list[Finding]:
    """Check chains, in any order and with repeats allowed; ``heads`` maps entity → (version, digest).

    Names the first bad link of each entity. Entities that only ``heads`` or only ``events`` know are checked too.
    """
    chains: dict[str, dict[int, Mapping[str, Any]]] = {}
    findings: list[Finding] = []
    for event in events:
        entity, seq = str(event["entity"]), int(event["seq"])
        if seq < 1:
            findings.append(Finding(entity, seq, "broken", "events are numbered from 1"))
            continue
        known = chains.setdefault(entity, {}).setdefault(seq, event)
        if known is not event and known != event:
            findings.append(Finding(entity, seq, "fork", "two different events carry this number"))
    for entity in sorted({*chains, *(heads or {})}):
        finding = _first_bad_link(entity, chains.get(entity, {}), (heads or {}).get(entity))
        if finding:
            findings.append(finding)
    return findings


def _first_bad_link(
    entity: str, chain: Mapping[int, Mapping[str, Any]], head: tuple[int, str] | None
) -> Finding | None:
    previous = GENESIS
    last = max(chain, default=0)
    for seq in range(1, last + 1):
        event = chain.get(seq)
        if event is None:
            return Finding(entity, seq, "hole", f"event {seq} is missing below {last}")
        if event["prev"] != previous:
            return Finding(entity, seq, "broken", "it does not follow from the event before it")
        if digest_of(event) != event["digest"]:
            return Finding(entity, seq, "broken", "its content does not fit its digest")
        previous = str(event["digest"])
    if head is None:
        return None
    version, digest = head
    if version > last:
        return Finding(entity, last + 1, "short", f"the head is at {version}, the ledger ends at {last}")
    at_head = chain[version]["digest"] if version in chain else GENESIS
    if at_head != digest:
        return Finding(entity, version, "broken", "the head's digest is another one")
    return None
