"""What a call costs on DynamoDB, computed from its requests after the published rules.

Writes: one unit for every KB of the larger of the item before and after, per item; the same for each index entry
that appears, disappears or changes (a changed key costs both). Transactions cost twice. Reads: one unit for every
4 KB, consistently, half of it otherwise; a page of a query is added up first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.store.ports import (
    INDEX_1_PROJECTION,
    INDEX_2_PROJECTION,
    INDEX_KEYS,
    Item,
    Key,
    Page,
    Query,
    Store,
    Table,
)

_PROJECTIONS = {1: INDEX_1_PROJECTION, 2: INDEX_2_PROJECTION}


def size(value: Any) -> int:
    """Bytes of an attribute value."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return math.ceil(len(str(abs(value)).rstrip("0") or "0") / 2) + 1 + (value < 0)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return 3 + sum(len(name) + size(part) + 1 for name, part in value.items())
    return 3 + sum(size(part) + 1 for part in value)


def item_size(item: Mapping[str, Any]) -> int:
    """Bytes of an item: names and values."""
    return sum(len(name.encode()) + size(value) for name, value in item.items())


def _kilobytes(item: Item | None, unit: int = 1024) -> int:
    return 0 if item is None else max(1, math.ceil(item_size(item) / unit))


def _entry(item: Item | None, index: int) -> Item | None:
    keys = INDEX_KEYS[index]
    if item is None or not all(name in item for name in keys):
        return None
    return {name: item[name] for name in ("pk", "sk", *keys, *_PROJECTIONS[index]) if name in item}


def write_units(before: Item | None, after: Item | None) -> float:
    """Units of a write that makes ``after`` of ``before``."""
    units = max(_kilobytes(before), _kilobytes(after), 1)
    for index, (pk, sk) in INDEX_KEYS.items():
        old, new = _entry(before, index), _entry(after, index)
        if old and new and (old[pk], old[sk]) != (new[pk], new[sk]):
            units += _kilobytes(old) + _kilobytes(new)
        elif old != new:
            units += max(_kilobytes(old), _kilobytes(new))
    return units


@dataclass
class Meter:
    """A table that counts. Wraps any Table."""

    table: Table
    writes: float = 0
    reads: float = 0
    calls: int = 0
    largest_head: int = 0
    log: list[tuple[str, float]] = field(default_factory=list)

    def _read(self, size_in_bytes: int, consistent: bool, what: str) -> None:
        units = max(1, math.ceil(size_in_bytes / 4096)) * (1 if consistent else 0.5)
        self.reads += units
        self.log.append((what, units))

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self.calls += 1
        item = self.table.get(key, consistent=consistent)
        self._read(item_size(item or {}), consistent, f"get {key.sk}")
        return item

    def batch_get(self, keys: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        self.calls += 1
        found = self.table.batch_get(keys, consistent=consistent)
        for key in dict.fromkeys(keys):
            self._read(
                item_size(found.get(key, {})), consistent, f"batch get {key.pk.split('#')[1]} {key.sk}"
            )
        return found

    def query(self, query: Query) -> Page:
        self.calls += 1
        page = self.table.query(query)
        self._read(sum(item_size(item) for item in page.items), query.index == 0, f"query {query.pk}")
        return page

    def write(self, write: Any) -> Item:
        self.calls += 1
        before = self.table.get(write.key)
        written = self.table.write(write)
        self._written(write.key, before, 1)
        return written

    def write_each(self, writes: Sequence[Any]) -> list[bool]:
        self.calls += len(writes)
        outcomes = []
        for write in writes:
            before = self.table.get(write.key)
            outcomes += self.table.write_each([write])
            self._written(write.key, before, 1)
        return outcomes

    def transact(self, parts: Sequence[Any]) -> None:
        self.calls += 1
        before = {part.key: self.table.get(part.key) for part in parts}
        self.table.transact(parts)
        for part in parts:
            self._written(part.key, before[part.key], 2)

    def _written(self, key: Key, before: Item | None, factor: int) -> None:
        after = self.table.get(key)
        units = write_units(before, after) * factor
        self.writes += units
        self.log.append((f"write {key.sk} ({item_size(after or {})} B)", units))
        if key.sk == "HEAD" and after:
            self.largest_head = max(self.largest_head, item_size(after))


def metered(store: Store) -> tuple[Store, Meter]:
    """A store whose table counts, and its meter."""
    meter = Meter(store.table)
    return Store(meter, store.queues, store.blobs), meter
