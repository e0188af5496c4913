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
    # what is no digest at all (in an export, say) is hashed too, and fits nothing
    return hashlib.sha256(str(event["prev"]).encode("utf-8", "surrogatepass") + canonical(body)).hexdigest()


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
    chains = Chains()
    for event in events:
        chains.add(event)
    return chains.findings(heads)


_KEPT = 16
"""Bytes of a digest that are kept of an event that fits: enough to know its twin, and the head that it made."""


@dataclass(slots=True)
class _Chain:
    """One entity's events: those that fit, in order, and those that wait for the ones before them (or follow a bad
    link), as (prev, digest, the digest that their content has)."""

    digests: bytearray = field(default_factory=bytearray)
    last: str = GENESIS
    waiting: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    bad: Finding | None = None

    @property
    def length(self) -> int:
        """How many events fit."""
        return len(self.digests) // _KEPT

    def kept(self, seq: int) -> bytes:
        """What is kept of an event that fits."""
        return bytes(self.digests[(seq - 1) * _KEPT : seq * _KEPT])


class Chains:
    """Checks chains as events come, in any order and with repeats allowed, without keeping the events."""

    def __init__(self) -> None:
        self._chains: dict[str, _Chain] = {}
        self._findings: list[Finding] = []
        self.events = 0
        """Events that came, repeats included."""

    @property
    def entities(self) -> Iterable[str]:
        """Whose events came."""
        return self._chains.keys()

    def add(self, event: Mapping[str, Any]) -> None:
        """Take one more event."""
        self.events += 1
        entity, seq = str(event["entity"]), int(event["seq"])
        if seq < 1:
            self._findings.append(Finding(entity, seq, "broken", "events are numbered from 1"))
            return
        chain = self._chains.setdefault(entity, _Chain())
        link = (str(event["prev"]), str(event["digest"]), digest_of(event))
        if seq > chain.length:
            if chain.waiting.setdefault(seq, link) == link:
                _advance(entity, chain)
                return
        elif link[1] == link[2] and bytes.fromhex(link[2])[:_KEPT] == chain.kept(seq):
            return
        self._findings.append(Finding(entity, seq, "fork", "two different events carry this number"))

    def has(self, entity: str, seq: int) -> bool:
        """Whether this event has come."""
        chain = self._chains.get(entity)
        return chain is not None and (1 <= seq <= chain.length or seq in chain.waiting)

    def reach(self, entity: str) -> int:
        """Up to which number the entity's events have come without a hole."""
        chain = self._chains.get(entity)
        if chain is None:
            return 0
        reach = chain.length
        while reach + 1 in chain.waiting:
            reach += 1
        return reach

    def findings(self, heads: Mapping[str, tuple[int, str]] | None = None) -> list[Finding]:
        """What is wrong with what came; ``heads`` maps entity → (version, digest)."""
        heads = heads or {}
        found = list(self._findings)
        for entity in sorted({*self._chains, *heads}):
            finding = _first_bad_link(entity, self._chains.get(entity, _Chain()), heads.get(entity))
            if finding:
                found.append(finding)
        return found


def _advance(entity: str, chain: _Chain) -> None:
    """Take over the waiting events that fit now."""
    while chain.bad is None and (link := chain.waiting.get(chain.length + 1)) is not None:
        seq = chain.length + 1
        prev, digest, content = link
        if prev != chain.last:
            chain.bad = Finding(entity, seq, "broken", "it does not follow from the event before it")
        elif digest != content:
            chain.bad = Finding(entity, seq, "broken", "its content does not fit its digest")
        else:
            del chain.waiting[seq]
            chain.digests += bytes.fromhex(digest)[:_KEPT]
            chain.last = digest


def _first_bad_link(entity: str, chain: _Chain, head: tuple[int, str] | None) -> Finding | None:
    if chain.bad:
        return chain.bad
    if chain.waiting:
        seq, last = chain.length + 1, max(chain.waiting)
        return Finding(entity, seq, "hole", f"event {seq} is missing below {last}")
    if head is None:
        return None
    version, digest = head
    if version > chain.length:
        detail = f"the head is at {version}, the ledger ends at {chain.length}"
        return Finding(entity, chain.length + 1, "short", detail)
    if version == chain.length:
        same = chain.last == digest
    else:
        same = digest.startswith(chain.kept(version).hex() if version > 0 else GENESIS)
    return None if same else Finding(entity, version, "broken", "the head's digest is another one")
