"""The table port on the embedded engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from interlock.store import rules
from interlock.store.embedded import writes
from interlock.store.embedded.engine import Engine, Session
from interlock.store.embedded.rows import decode
from interlock.store.ports import (
    INDEX_1_PROJECTION,
    INDEX_2_PROJECTION,
    INDEX_KEYS,
    ConditionLost,
    Item,
    Key,
    Page,
    Query,
    TransactionPart,
    Write,
)
from interlock.store.ranges import prefix_end

_GET = "SELECT data, raw FROM items WHERE pk = ? AND sk = ?"
_MANY = 64
"""Keys that one statement looks up."""

_PROJECTIONS = {
    1: ("pk", "sk", *INDEX_KEYS[1], *INDEX_1_PROJECTION),
    2: ("pk", "sk", *INDEX_KEYS[2], *INDEX_2_PROJECTION),
}


class EmbeddedTable:
    """Items in one SQLite table; see :class:`interlock.store.ports.Table`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:  # noqa: ARG002  always consistent here
        """The item, or None."""
        rules.check_key(key)
        found = self._engine.read(lambda connection: connection.execute(_GET, key).fetchone())
        return None if found is None else decode(key.pk, key.sk, *found)

    def batch_get(self, keys: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:  # noqa: ARG002  as above
        """The items that exist among the keys, all of one moment."""
        wanted = list(dict.fromkeys(Key(*key) for key in keys))
        for key in wanted:
            rules.check_key(key)

        def read(connection: sqlite3.Connection) -> list[tuple[str, str, str, bytes | None]]:
            found: list[tuple[str, str, str, bytes | None]] = []
            for start in range(0, len(wanted), _MANY):
                chunk = wanted[start : start + _MANY]
                places = ", ".join(["(?, ?)"] * len(chunk))
                found += connection.execute(
                    # CROSS JOIN keeps SQLite's planner from scanning all items instead
                    f"WITH wanted (p, s) AS (VALUES {places})"  # noqa: S608  marks only
                    " SELECT pk, sk, data, raw FROM wanted CROSS JOIN items ON pk = p AND sk = s",
                    [part for key in chunk for part in key],
                )
            return found

        return {Key(pk, sk): decode(pk, sk, data, raw) for pk, sk, data, raw in self._engine.read(read)}

    def query(self, query: Query) -> Page:
        """One page of a range."""
        statement, values = _compiled(query)
        rows = self._engine.read(lambda connection: connection.execute(statement, values).fetchall())
        items = [decode(*row) for row in rows[: query.limit]]
        if query.index:
            wanted = _PROJECTIONS[query.index]
            items = [{name: item[name] for name in wanted if name in item} for item in items]
        return Page(items, more=len(rows) > query.limit)

    def write(self, write: Write) -> Item:
        """One conditional write; answers the item as written."""
        part = writes.prepare(write)
        return self._engine.write(lambda session: writes.write(session, part))

    def write_each(self, each: Sequence[Write]) -> list[bool]:
        """Each write by itself, in the order given, made durable together."""
        parts = [writes.prepare(write) for write in each]

        def work(session: Session) -> list[bool]:
            return [_holding(session, part) for part in parts]

        return self._engine.write(work) if parts else []

    def transact(self, parts: Sequence[TransactionPart]) -> None:
        """All or nothing."""
        rules.check_parts(parts)
        prepared = [writes.prepare(part) for part in parts]
        self._engine.write(lambda session: writes.transact(session, prepared))

    def sweep(self, now: int, limit: int = 1000) -> int:
        """Delete up to ``limit`` items that expired before ``now`` (seconds since 1970); answers how many."""
        return self._engine.write(lambda session: writes.sweep(session, now, limit))


def _holding(session: Session, part: writes.Prepared) -> bool:
    try:
        writes.write(session, part)
    except ConditionLost:
        return False
    return True


def _compiled(query: Query) -> tuple[str, list[str | int]]:
    if query.limit < 1:
        raise ValueError("a page has at least one item")
    partition, sort = INDEX_KEYS[query.index] if query.index else ("pk", "sk")
    where = [f"{partition} = ?"]
    values: list[str | int] = [query.pk]

    def bound(comparison: str, value: str | None) -> None:
        if value is not None:
            where.append(f"{sort} {comparison} ?")
            values.append(value)

    if query.prefix:
        bound(">=", query.prefix)
        bound("<", prefix_end(query.prefix))
    bound(">=", query.lower)
    bound("<=", query.upper)
    bound(">" if query.forward else "<", query.after)
    direction = "ASC" if query.forward else "DESC"
    values.append(query.limit + 1)
    statement = (
        f"SELECT pk, sk, data, raw FROM items WHERE {' AND '.join(where)} ORDER BY {sort} {direction} LIMIT ?"  # noqa: S608  names come from this module
    )
    return statement, values
