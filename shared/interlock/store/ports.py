"""The three narrow ports behind which a store lives: Table, Queues, Blobs, and the Table's change feed.

Two adapters implement them, ``aws`` and ``embedded``; one contract suite (tests/contract) runs over both and a
difference is a bug. An *item* is a mapping of attribute names to str, int, bool, bytes, lists and mappings of
these; ``None`` is never stored: an absent attribute says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from interlock.store.conditions import Condition

Item = dict[str, Any]

INDEX_KEYS = {1: ("g1pk", "g1sk"), 2: ("g2pk", "g2sk")}
"""The attributes that make the partition and sort key of each index; both are sparse. A sort key is unique
within its partition (it contains an id), so a position in an index is named by its sort key alone."""

INDEX_1_PROJECTION = (
    "status", "role", "capabilities", "created_at", "lease_first", "excluded", "overdue", "cascade", "spent",
)  # fmt: skip
INDEX_2_PROJECTION = ("events",)
"""What an index row carries beside keys. Both adapters return these attributes and no others."""


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item, replacing what is there."""

    key: Key
    item: Mapping[str, Any]
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Set and remove attributes; creates the item when it is absent and the condition allows that."""

    key: Key
    set: Mapping[str, Any]
    remove: Sequence[str] = ()
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the item; removing an absent one is no error unless the condition says so."""

    key: Key
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """In a transaction: a condition on an item that is not written."""

    key: Key
    condition: Condition


Write = Put | Update | Delete
TransactionPart = Put | Update | Delete | Check


class ConditionLost(Exception):  # noqa: N818  an outcome of a race, not an error
    """A condition did not hold; nothing was written.

    ``index`` is the position of the first write that lost (0 for a single write); ``item`` is that item as the
    store saw it, or None when it is absent or the engine cannot say (read again, consistently).
    """

    def __init__(self, index: int = 0, item: Item | None = None, condition: str = "") -> None:
        self.index = index
        self.item = item
        super().__init__(f"condition {condition or '?'} of write {index} does not hold")


@dataclass(frozen=True, slots=True)
class Query:
    """A range of one partition in sort-key order.

    ``index`` 0 is the table (consistent read), 1 and 2 the indexes (they may lag: an index proposes, the base
    item decides). ``prefix`` bounds the sort key; ``lower``/``upper`` bound it inclusively instead;
    ``after`` is a sort key of that range from which to go on, exclusively, in the direction of reading.
    """

    pk: str
    index: int = 0
    prefix: str = ""
    lower: str | None = None
    upper: str | None = None
    after: str | None = None
    limit: int = 100
    forward: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """Items of a query. ``more`` is true when the range may go on after the last item."""

    items: list[Item]
    more: bool


class Table(Protocol):
    """Items with conditional writes. Every method may raise :class:`interlock.errors.StoreError`."""

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item, or None."""

    def batch_get(self, keys: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """The items that exist among ``keys`` (any number, duplicates allowed)."""

    def query(self, query: Query) -> Page:
        """One page of a range; never more than ``query.limit`` items."""

    def write(self, write: Write) -> Item:
        """One conditional write; answers the item as written ({} after a delete).

        Raises ConditionLost. A write that the engine repeats by itself after a lost answer may report
        ConditionLost although the first try took effect: callers compare the item they find.
        """

    def write_each(self, writes: Sequence[Write]) -> list[bool]:
        """Each write by itself, in any order; False where its condition did not hold. Not atomic."""

    def transact(self, parts: Sequence[TransactionPart]) -> None:
        """All or nothing: ≤ 100 parts, no item twice, ≤ 4 MB. Raises ConditionLost."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was received: ``receipt`` deletes it, ``receives`` counts deliveries from 1."""

    id: str
    body: dict[str, Any]
    receipt: str
    receives: int = 1


class Queues(Protocol):
    """Standard queues: at least once, any order. ``queue`` is a logical name (``lease``, ``lease-dead`` …)."""

    def send(self, queue: str, messages: Iterable[tuple[Mapping[str, Any], int]]) -> None:
        """Send (body, delay in seconds ≤ 900) pairs; all are stored when it returns."""

    def receive(self, queue: str, *, limit: int = 10, visibility: int = 60) -> list[Message]:
        """Up to ``limit`` (≤ 10) visible messages, hidden from others for ``visibility`` seconds. Does not wait."""

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        """Forget messages that were handled."""

    def depth(self, queue: str) -> int:
        """About how many messages the queue holds, delayed and hidden ones included."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A request that stores one object: whoever sends it sends these headers, exactly, and the bytes."""

    method: str
    url: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored under a key: its size in bytes and its SHA-256 (64 hex digits; None where nobody knows it)."""

    size: int
    sha256: str | None


class Blobs(Protocol):
    """Bytes by key: payloads that do not fit an item, and what callers upload.

    Payloads are put and got by the bus. Uploads go past it: the bus signs an address that stores or answers exactly one
    object, for a time. ``base`` is the bus's own address as the caller wrote it, for engines whose objects the bus
    serves itself.
    """

    def put(self, key: str, data: bytes) -> None:
        """Store; the same key is only ever put with the same bytes (keys are content-addressed)."""

    def get(self, key: str) -> bytes | None:
        """The bytes, or None."""

    def upload(self, key: str, *, size: int, sha256: str, seconds: int, base: str) -> Upload:
        """The request that stores an object of this size and SHA-256 under the key, once, within ``seconds``.

        Other bytes, another length and a second object are refused. What is not kept (:meth:`keep`) goes away by
        itself after ``limits.UNVERIFIED_DAYS``.
        """

    def download(self, key: str, *, name: str, seconds: int, base: str) -> str:
        """An address that answers the object as an attachment of this name, within ``seconds``."""

    def stat(self, keys: Sequence[str]) -> dict[str, Stored]:
        """What is stored under those of the uploads' keys that have an object which this process may see."""

    def keep(self, key: str) -> None:
        """Let an uploaded object stay for good. May be repeated."""


@dataclass(frozen=True, slots=True)
class Store:
    """One engine's three ports."""

    table: Table
    queues: Queues
    blobs: Blobs


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the change feed: the head as it was and as it is now, and the record's position."""

    position: str
    key: Key
    new: Item
    old: Item | None = field(default=None)


class Feed(Protocol):
    """Changes of head items in order per item, at least once, for the local dispatcher (on AWS: Streams)."""

    def read(self, *, limit: int = 100) -> list[Change]:
        """The oldest changes that were not acknowledged."""

    def acknowledge(self, changes: Sequence[Change]) -> None:
        """Forget changes that were handled; one that is not acknowledged is read again."""
