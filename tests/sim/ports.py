"""A store whose every call passes through a hook, one atomic step at a time.

It is as unkind as the ports allow: what need not be atomic (``batch_get``, ``write_each``, a send of several
messages) becomes single steps in any order, and an index may answer from an earlier moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.store import keys
from interlock.store.conditions import Condition
from interlock.store.ports import (
    Check,
    Item,
    Key,
    Message,
    Page,
    Put,
    Query,
    Store,
    Stored,
    TransactionPart,
    Update,
    Upload,
    Write,
)

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a port: what is called, on what, and the writes it carries."""

    verb: str
    what: str
    writes: tuple[TransactionPart, ...] = ()

    @property
    def heads(self) -> tuple[Put | Update, ...]:
        """The writes of heads that move a version (renewals and timer hops do not)."""
        return tuple(
            part
            for part in self.writes
            if not isinstance(part, Check) and part.key.sk == keys.HEAD and "version" in _values(part)
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.what}"


def _values(part: Any) -> Mapping[str, Any]:
    return part.item if isinstance(part, Put) else part.set if isinstance(part, Update) else {}


Hook = Callable[[Step, Call], Any]
"""Called with every step and what carries it out; answers what the step answers, or raises."""


def _name(key: Key) -> str:
    return f"{key.pk}/{key.sk}"


def _named(part: TransactionPart) -> str:
    condition: Condition | None = part.condition
    return f"{type(part).__name__.lower()} {_name(part.key)}" + (f" if {condition.name}" if condition else "")


class HookedTable:
    """See :class:`interlock.store.ports.Table`. ``replica`` answers the queries of indexes, where it is given."""

    def __init__(
        self, inner: Any, hook: Hook, rng: random.Random, replica: Callable[[Query], Page] | None
    ) -> None:
        self._inner, self._hook, self._rng, self._replica = inner, hook, rng, replica

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        return self._hook(Step("get", _name(key)), lambda: self._inner.get(key, consistent=consistent))

    def batch_get(self, wanted: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        found = {}
        for key in _any_order(dict.fromkeys(wanted), self._rng):
            item = self._hook(Step("batch_get", _name(key)), lambda key=key: self._inner.get(key))
            if item is not None:
                found[key] = item
        return {key: found[key] for key in dict.fromkeys(wanted) if key in found}

    def query(self, query: Query) -> Page:
        ask = self._replica if query.index and self._replica else self._inner.query
        return self._hook(Step("query", f"{query.pk} index {query.index}"), lambda: ask(query))

    def write(self, write: Write) -> Item:
        return self._hook(Step("write", _named(write), (write,)), lambda: self._inner.write(write))

    def write_each(self, writes: Sequence[Write]) -> list[bool]:
        held = [False] * len(writes)
        for number in _any_order(range(len(writes)), self._rng):
            one = writes[number]
            step = Step("write_each", _named(one), (one,))
            held[number] = self._hook(step, lambda one=one: self._inner.write_each([one])[0])
        return held

    def transact(self, parts: Sequence[TransactionPart]) -> None:
        step = Step("transact", " + ".join(map(_named, parts)), tuple(parts))
        self._hook(step, lambda: self._inner.transact(parts))


def _any_order(things: Iterable[Any], rng: random.Random) -> list[Any]:
    listed = list(things)
    if len(listed) > 1:
        rng.shuffle(listed)
    return listed


class HookedQueues:
    """See :class:`interlock.store.ports.Queues`."""

    def __init__(self, inner: Any, hook: Hook, rng: random.Random) -> None:
        self._inner, self._hook, self._rng = inner, hook, rng

    def send(self, queue: str, messages: Iterable[tuple[Mapping[str, Any], int]]) -> None:
        for message in _any_order(messages, self._rng):
            step = Step("send", f"{queue} {dict(message[0])} in {message[1]} s")
            self._hook(step, lambda message=message: self._inner.send(queue, [message]))

    def receive(self, queue: str, *, limit: int = 10, visibility: int = 60) -> list[Message]:
        return self._hook(
            Step("receive", queue), lambda: self._inner.receive(queue, limit=limit, visibility=visibility)
        )

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        for receipt in _any_order(receipts, self._rng):
            step = Step("delete", f"{queue} {receipt}")
            self._hook(step, lambda receipt=receipt: self._inner.delete(queue, [receipt]))

    def depth(self, queue: str) -> int:
        return self._hook(Step("depth", queue), lambda: self._inner.depth(queue))


class HookedBlobs:
    """See :class:`interlock.store.ports.Blobs`."""

    def __init__(self, inner: Any, hook: Hook) -> None:
        self._inner, self._hook = inner, hook

    def put(self, key: str, data: bytes) -> None:
        self._hook(Step("put_blob", key), lambda: self._inner.put(key, data))

    def get(self, key: str) -> bytes | None:
        return self._hook(Step("get_blob", key), lambda: self._inner.get(key))

    def upload(self, key: str, **more: Any) -> Upload:
        return self._inner.upload(key, **more)  # signing calls nobody

    def download(self, key: str, **more: Any) -> str:
        return self._inner.download(key, **more)

    def stat(self, wanted: Sequence[str]) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        for key in wanted:
            found |= self._hook(Step("stat_blob", key), lambda key=key: self._inner.stat([key]))
        return found

    def keep(self, key: str) -> None:
        self._hook(Step("keep_blob", key), lambda: self._inner.keep(key))


def hooked(
    store: Store, hook: Hook, rng: random.Random, *, replica: Callable[[Query], Page] | None = None
) -> Store:
    """The store, with the hook around every step."""
    return Store(
        HookedTable(store.table, hook, rng, replica),
        HookedQueues(store.queues, hook, rng),
        HookedBlobs(store.blobs, hook),
    )
