"""Conditions as the embedded engine decides them: the same answers as DynamoDB gives to the compiled ones."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from interlock.store.conditions import Absent, AllOf, AnyOf, Compare, Exists, OneOf, Test
from interlock.store.ports import Item

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()


def holds(test: Test, item: Item | None) -> bool:
    """Whether a test holds for an item; None is an item that does not exist."""
    return _holds(test, item or {})


def _holds(test: Test, item: Item) -> bool:
    match test:
        case Compare():
            return _compare(test.operator, item.get(test.attribute, _MISSING), test.value)
        case AllOf():
            return all(_holds(part, item) for part in test.tests)
        case AnyOf():
            return any(_holds(part, item) for part in test.tests)
        case OneOf():
            found = item.get(test.attribute, _MISSING)
            return any(_same(found, value) for value in test.values)
        case Exists():
            return test.attribute in item
        case Absent():
            return test.attribute not in item


def _compare(name: str, found: Any, value: Any) -> bool:
    if name == "=":
        return _same(found, value)
    if name == "<>":
        return not _same(found, value)
    kind = _kind(value)
    if kind not in ("S", "N", "B"):
        raise ValueError(f"{name} compares strings, numbers and bytes only")
    return _kind(found) == kind and _ORDER[name](found, value)


def _same(found: Any, value: Any) -> bool:
    kind = _kind(value)
    if _kind(found) != kind:
        return False
    if kind == "L":
        return len(found) == len(value) and all(map(_same, found, value))
    if kind == "M":
        return found.keys() == value.keys() and all(_same(found[name], value[name]) for name in value)
    return bool(found == value)


def _kind(value: Any) -> str:
    """The letter of DynamoDB's type, so that true, 1 and "1" are never equal."""
    if isinstance(value, str):
        return "S"
    if isinstance(value, bool):
        return "BOOL"
    if isinstance(value, int):
        return "N"
    if isinstance(value, bytes):
        return "B"
    if isinstance(value, (list, tuple)):
        return "L"
    return "M" if isinstance(value, dict) else ""
