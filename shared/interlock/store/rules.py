"""What every engine refuses, so that code which runs on one runs on the other: DynamoDB's limits and types.

Breaking a rule is an error of the program, never of a caller: everything here raises ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.store.ports import INDEX_KEYS, Check, Delete, Item, Key, Put, TransactionPart, Update

MAX_PK = 2048
MAX_SK = 1024
MAX_ITEM = 400 * 1024
MAX_PARTS = 100
MAX_TRANSACTION = 4 * 1024 * 1024
MAX_DELAY = 900
MAX_BATCH = 10
"""Messages of one receive."""
MAX_RECEIVES = 5
"""Deliveries of a message before it goes to its queue's dead letters."""

_NUMBER_BOUND = 10**38
_KEY_LIMITS = (("pk", MAX_PK), ("sk", MAX_SK))
_INDEX_LIMITS = tuple(
    (name, limit) for pair in INDEX_KEYS.values() for name, limit in zip(pair, (MAX_PK, MAX_SK), strict=True)
)
_CHARACTER_BYTES = 4


def _check_text(name: str, value: Any, limit: int) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a string of 1 to {limit} bytes")
    if len(value) * _CHARACTER_BYTES > limit and len(value.encode()) > limit:
        raise ValueError(f"{name} is longer than {limit} bytes")


def check_key(key: Key) -> None:
    """Refuse a primary key that DynamoDB would refuse: empty, not text, or too long."""
    _check_text("pk", key.pk, MAX_PK)
    _check_text("sk", key.sk, MAX_SK)


def copied(value: Any) -> Any:
    """A value as a store gives it back (sequences as lists), sharing nothing mutable with the argument."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _encodable(value)
    if kind is bool or kind is bytes:
        return value
    if isinstance(value, int):
        if not -_NUMBER_BOUND < value < _NUMBER_BOUND:
            raise ValueError("a number has at most 38 digits")
        return int(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) and name for name in value):
            raise ValueError("names in a mapping are non-empty strings")
        return {copied(name): copied(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(part) for part in value]
    if isinstance(value, str):
        return _encodable(str.__str__(value))
    raise ValueError(f"a store keeps no {kind.__name__}")


def _encodable(text: str) -> str:
    """Refuse lone surrogates, which no UTF-8 can carry (UnicodeEncodeError is a ValueError)."""
    text.encode()
    return text


def put_image(put: Put) -> Item:
    """The whole item that a put writes, key included."""
    check_key(put.key)
    image: Item = {"pk": put.key.pk, "sk": put.key.sk}
    image.update(copied(put.item))
    if image["pk"] != put.key.pk or image["sk"] != put.key.sk:
        raise ValueError("the item to put names another key")
    _check_image(image)
    return image


def update_values(update: Update) -> Item:
    """The attributes that an update sets."""
    check_key(update.key)
    values: Item = copied(update.set)
    if not values and not update.remove:
        raise ValueError("an update sets or removes something")
    touched = [*values, *update.remove]
    if len(set(touched)) < len(touched):
        raise ValueError("an update names an attribute twice")
    if "pk" in touched or "sk" in touched:
        raise ValueError("an update cannot change the key")
    _check_image(values)
    return values


def _check_image(image: Item) -> None:
    for name, limit in _INDEX_LIMITS:
        if name in image:
            _check_text(name, image[name], limit)


def check_size(item: Item) -> None:
    """Refuse an item above 400 KB."""
    if size(item) > MAX_ITEM:
        raise ValueError("an item has at most 400 KB")


def check_parts(parts: Sequence[TransactionPart]) -> None:
    """Refuse a transaction that is empty, has more than 100 parts or 4 MB, or names an item twice."""
    if not 0 < len(parts) <= MAX_PARTS:
        raise ValueError(f"a transaction has 1 to {MAX_PARTS} parts")
    if len({part.key for part in parts}) < len(parts):
        raise ValueError("a transaction names an item once")
    total = 0
    for part in parts:
        match part:
            case Put():
                total += size(part.item)
            case Update():
                total += size(part.set)
            case Delete() | Check():
                check_key(part.key)
    if total > MAX_TRANSACTION:
        raise ValueError("a transaction has at most 4 MB")


def check_delay(seconds: int) -> None:
    """Refuse a delay that SQS would refuse."""
    if not 0 <= seconds <= MAX_DELAY:
        raise ValueError(f"a message is delayed by at most {MAX_DELAY} seconds")


def size(item: Mapping[str, Any]) -> int:
    """An item's size in bytes, as DynamoDB counts (numbers a byte or two too high)."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return len(str(value)) // 2 + 2
    if isinstance(value, Mapping):
        return 3 + len(value) + size(value)
    if isinstance(value, (list, tuple)):
        return 3 + sum(1 + _value_size(part) for part in value)
    return len(value)
