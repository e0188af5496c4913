"""The write rule: the only place where a head is created or changed.

A change is one conditional write of the head, or one bounded transaction around it. It moves ``version`` to the
seq of its last event and carries the events and their chain digest; the change feed takes them from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from interlock.app.call import Bus
from interlock.domain import consequences, ledger, limits
from interlock.domain.identity import Actor
from interlock.domain.job import Change, Job
from interlock.domain.ledger import GENESIS, Fact, Sealed
from interlock.domain.lifecycle import HELD
from interlock.errors import InterlockError, StoreError
from interlock.store import conditions, items, keys
from interlock.store.conditions import Condition
from interlock.store.items import Head
from interlock.store.ports import ConditionLost, Item, Key, Put, TransactionPart, Update

H = TypeVar("H", bound=Head)

TRIES = 40
"""How often a lost race is decided again before the caller is asked to come back."""


class Lost(Exception):  # noqa: N818  an outcome of a race, not an error
    """The head (or another part of the transaction) is not as the decision saw it: read again and decide again."""


def create(
    bus: Bus, head: H, actor: Actor, facts: Sequence[Fact], parts: Sequence[TransactionPart] = ()
) -> H:
    """Write a new head with its first events; with ``parts``, as one transaction.

    Raises :class:`Lost` when the head exists already or a part's condition does not hold.
    """
    put, made = creating(bus, head, actor, facts)
    _write(bus, put, parts)
    return made


def creating(bus: Bus, head: H, actor: Actor, facts: Sequence[Fact]) -> tuple[Put, H]:
    """The write that makes a head, for a transaction around it, and the head as it will be."""
    key = items.head_key(head)
    sealed = ledger.seal(items.entity(head), 0, GENESIS, head.created_at, actor.as_event(), facts)
    work: dict[str, Any] = {"rev": sealed.version} if isinstance(head, Job) else {}
    made: H = replace(head, version=sealed.version, digest=sealed.digest, **work)
    item = {
        **items.attributes_of(made),
        **items.index_keys(made),
        "pk": key.pk,
        "sk": key.sk,
        "events": _stage(bus, key.pk, sealed),
        "stamp": bus.entropy(6),
    }
    return Put(key, item, conditions.absent()), made


def change(
    bus: Bus,
    head: H,
    actor: Actor,
    now: int,
    decision: Change,
    *,
    condition: Condition | None = None,
    remember: Sequence[bytes] = (),
    parts: Sequence[TransactionPart] = (),
) -> H:
    """Write a decision on a head and answer the head as written.

    ``condition`` names what the decision relied on (default: the head is unchanged); ``remember`` are digests of
    the calls that this write answers, kept so that a repeat finds them. Raises :class:`Lost`.
    """
    update, changed = changing(bus, head, actor, now, decision, condition=condition, remember=remember)
    _write(bus, update, parts)
    return changed


def changing(
    bus: Bus,
    head: H,
    actor: Actor,
    now: int,
    decision: Change,
    *,
    condition: Condition | None = None,
    remember: Sequence[bytes] = (),
) -> tuple[Update, H]:
    """The write of a decision on a head, for a transaction around it, and the head as it will be.

    Raises ``not_found`` for what went to the archive.
    """
    if isinstance(head, Job) and head.archived is not None:
        raise InterlockError("not_found")
    if isinstance(head, Job):
        decision = consequences.follow(head, decision, now)
    key = items.head_key(head)
    sealed = ledger.seal(items.entity(head), head.version, head.digest, now, actor.as_event(), decision.facts)
    values: dict[str, Any] = {**decision.set, "version": sealed.version, "digest": sealed.digest}
    if isinstance(head, Job):
        values["updated_at"] = now
        if ended := _endings(head, sealed):
            values["unrouted"] = {**(head.unrouted or {}), **ended}
        if decision.work:
            values["rev"] = sealed.version
    if remember:
        values["ops"] = (*head.ops, *remember)[-limits.OPERATIONS_REMEMBERED :]
    changed: H = replace(head, **values)
    to_set, to_remove = items.encode(values)
    to_set |= {
        "events": _stage(bus, key.pk, sealed),
        "stamp": bus.entropy(6),
        **items.index_keys(changed),
    }
    to_remove += ["quiet", *(name for name in ("g1pk", "g1sk") if name not in to_set)]
    relied_on = condition or conditions.unchanged(head.version)
    if isinstance(head, Job) and head.status in HELD:
        relied_on = relied_on.with_reports(head.reports)
    return Update(key, to_set, to_remove, relied_on), changed


def _endings(job: Job, sealed: Sealed) -> dict[str, str]:
    """The events that end a job for which it has rules, and the status that each brings."""
    moves = (event for event in sealed.events if event["from"] != event["to"])
    return {str(event["seq"]): event["to"] for event in moves if event["to"] in job.routing}


def quietly(bus: Bus, head: Head, attributes: Mapping[str, Any], condition: Condition) -> bool:
    """Set attributes that are no event (renewals, timer hops): no version, no ledger row. False when lost."""
    to_set, to_remove = items.encode(attributes)
    return marked(bus, items.head_key(head), to_set, to_remove, condition)


def marked(
    bus: Bus, key: Key, to_set: Mapping[str, Any], to_remove: Sequence[str], condition: Condition
) -> bool:
    """Update an item that nobody's stamp is on. False when lost.

    ``quiet`` is a mark of this write, so that one whose answer was lost, and that the engine repeated, is known again.
    """
    mark = 1 + int.from_bytes(bus.entropy(6), "big")
    try:
        bus.store.table.write(Update(key, {**to_set, "quiet": mark}, to_remove, condition))
    except ConditionLost as lost:
        found = lost.item or _head(bus, key)
        return found is not None and found.get("quiet") == mark
    return True


def decide(load: Callable[[bool], H], attempt: Callable[[H], H]) -> H:
    """Run ``attempt`` on the loaded head until its write holds.

    ``load(again)`` answers the head, read anew when ``again``. A decision that no longer applies raises its
    refusal from ``attempt``.
    """
    for turn in range(TRIES):
        head = load(turn > 0)
        try:
            return attempt(head)
        except Lost:
            continue
    raise StoreError("throttled", "many callers change this object at once")


def reload(bus: Bus, head: H) -> H:
    """The head as it is now, read consistently. Raises ``not_found`` when it was removed after it was archived."""
    item = bus.store.table.get(items.head_key(head))
    if item is None:
        raise InterlockError("not_found")
    return items.read(item)  # type: ignore[return-value]  # the key says the kind


def _stage(bus: Bus, pk: str, sealed: Sealed) -> bytes:
    """Large event data becomes items that mean nothing until a head names them; answers the packed events."""
    staged: dict[int, str] = {}
    puts = []
    for event in sealed.events:
        text = ledger.canonical(event["data"])
        if len(text) > limits.INLINE_BYTES:
            content = hashlib.sha256(text).hexdigest()[:16]
            staged[event["seq"]] = content
            key = keys.event_data(pk, event["seq"], content)
            puts.append(Put(key, {"pk": key.pk, "sk": key.sk, "data": items.pack(event["data"])}))
    if puts:
        bus.store.table.write_each(puts)
    return items.pack_events(sealed.events, staged)


def _write(bus: Bus, write: Put | Update, parts: Sequence[TransactionPart]) -> None:
    """One write or one transaction; a write that took effect although its answer was lost counts as written."""
    table = bus.store.table
    stamp = write.item["stamp"] if isinstance(write, Put) else write.set["stamp"]
    try:
        if parts:
            table.transact([write, *parts])
        else:
            table.write(write)
    except ConditionLost as lost:
        found: Item | None = lost.item if lost.index == 0 and lost.item is not None else _head(bus, write.key)
        if found is None or found.get("stamp") != stamp:
            raise Lost from None


def _head(bus: Bus, key: Key) -> Item | None:
    return bus.store.table.get(key)
