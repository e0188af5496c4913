"""Conditional writes as the writer carries them out: find every item, decide, then write.

What does not depend on the stored item is prepared in the caller's thread, because the writer's time is
everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from interlock.store import keys, rules
from interlock.store.conditions import Condition
from interlock.store.embedded.engine import Session
from interlock.store.embedded.evaluate import holds
from interlock.store.embedded.rows import Row, decode, encode
from interlock.store.ports import Check, ConditionLost, Item, Key, Put, TransactionPart, Update

_FIND = "SELECT rowid, g1pk, g1sk, g2pk, g2sk, expires, data, raw FROM items WHERE pk = ? AND sk = ?"
_INSERT = "INSERT INTO items (g1pk, g1sk, g2pk, g2sk, expires, data, raw, pk, sk) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT = (
    f"{_INSERT} ON CONFLICT (pk, sk) DO UPDATE SET g1pk = excluded.g1pk, g1sk = excluded.g1sk,"
    " g2pk = excluded.g2pk, g2sk = excluded.g2sk, expires = excluded.expires, data = excluded.data, raw = excluded.raw"
)
_REPLACE_BODY = "UPDATE items SET data = ?, raw = ? WHERE rowid = ?"
_REPLACE = (
    "UPDATE items SET g1pk = ?, g1sk = ?, g2pk = ?, g2sk = ?, expires = ?, data = ?, raw = ? WHERE rowid = ?"
)
_DELETE = "DELETE FROM items WHERE rowid = ?"
_SWEEP = "DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE expires <= ? LIMIT ?)"
_INDEXED = 5
"""The columns of a row, from the left, that are in an index."""
_CHANGE = "INSERT INTO changes (pk, sk, new_data, new_raw, old_data, old_raw) VALUES (?, ?, ?, ?, ?, ?)"


class Prepared(NamedTuple):
    """A part of a transaction with what could be worked out beforehand."""

    key: Key
    condition: Condition | None
    image: Item | None
    """The item that a put writes."""
    row: Row | None
    values: Item
    """The attributes that an update sets."""
    remove: Sequence[str]
    kind: type[TransactionPart]


class _Found(NamedTuple):
    rowid: int
    row: Row
    item: Item


class _Outcome(NamedTuple):
    """A decided write: what is there and what comes instead (no image: the item goes)."""

    key: Key
    found: _Found | None
    looked: bool
    image: Item | None
    row: Row | None


def prepare(part: TransactionPart) -> Prepared:
    """Check and encode a part. Raises ValueError."""
    if isinstance(part, Put):
        image = rules.put_image(part)
        return Prepared(part.key, part.condition, image, encode(image), {}, (), Put)
    if isinstance(part, Update):
        return Prepared(part.key, part.condition, None, None, rules.update_values(part), part.remove, Update)
    rules.check_key(part.key)
    return Prepared(part.key, part.condition, None, None, {}, (), type(part))


def write(session: Session, part: Prepared, position: int = 0) -> Item:
    """Carry out one write; answers the item as written. Raises ConditionLost, ValueError."""
    outcome = _decide(session, part, position)
    _store(session, outcome)
    return outcome.image or {}


def transact(session: Session, parts: Sequence[Prepared]) -> None:
    """Carry out all parts or none. Raises ConditionLost, ValueError."""
    outcomes = [_decide(session, part, position) for position, part in enumerate(parts)]
    for part, outcome in zip(parts, outcomes, strict=True):
        if part.kind is not Check:
            _store(session, outcome)


def sweep(session: Session, now: int, limit: int) -> int:
    """Delete up to ``limit`` items whose time, in seconds since 1970, has come; answers how many."""
    return session.execute(_SWEEP, (now, limit)).rowcount


def _decide(session: Session, part: Prepared, position: int) -> _Outcome:
    key = part.key
    if part.image is not None and part.condition is None and key.sk != keys.HEAD:
        return _Outcome(key, None, False, part.image, part.row)
    found = _find(session, key)
    item = found.item if found else None
    if part.condition is not None and not holds(part.condition.test, item):
        raise ConditionLost(position, item, part.condition.name)
    if part.kind is not Update:
        return _Outcome(key, found, True, part.image, part.row)
    image: Item = dict(item) if item is not None else {"pk": key.pk, "sk": key.sk}
    image.update(part.values)
    for name in part.remove:
        image.pop(name, None)
    return _Outcome(key, found, True, image, encode(image))


def _find(session: Session, key: Key) -> _Found | None:
    columns = session.execute(_FIND, key).fetchone()
    if columns is None:
        return None
    rowid, *row = columns
    found = Row._make(row)
    return _Found(rowid, found, decode(key.pk, key.sk, found.data, found.raw))


def _store(session: Session, outcome: _Outcome) -> None:
    key, found, looked, image, row = outcome
    if image is None or row is None:
        if found is not None:
            session.execute(_DELETE, (found.rowid,))
        return
    if found is not None:
        if row[:_INDEXED] == found.row[:_INDEXED]:
            session.execute(_REPLACE_BODY, (row.data, row.raw, found.rowid))
        else:
            session.execute(_REPLACE, (*row, found.rowid))
    else:
        session.execute(_INSERT if looked else _UPSERT, (*row, key.pk, key.sk))
    if keys.is_change(key, found.item if found else None, image):
        old = (found.row.data, found.row.raw) if found else (None, None)
        session.execute(_CHANGE, (key.pk, key.sk, row.data, row.raw, *old))
        session.changed = True
