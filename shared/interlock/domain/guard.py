"""Guards: one test of a JSON value, as data. A guard never raises; what it cannot compare is false.

``field`` is a dotted path through objects (and, by number from 0, through lists). A missing field makes every guard
false but ``not_exists``; what is null does not exist either, but it equals null. Numbers compare as numbers, text as
text (by code points), and a boolean is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

Operator = Literal["eq", "neq", "gt", "gte", "lt", "lte", "exists", "not_exists", "in", "contains"]
OPERATORS: tuple[str, ...] = get_args(Operator)
UNARY = frozenset({"exists", "not_exists"})
"""Operators without a value."""
_ORDER = frozenset({"gt", "gte", "lt", "lte"})
_MISSING = object()


def problem(op: str, value: Any, *, sent: bool) -> str | None:
    """What is wrong with a guard's ``value`` for its operator, or None. ``sent``: whether it was given at all."""
    if op in UNARY:
        return f"{op} takes no value" if sent else None
    if not sent:
        return f"{op} needs a value"
    if op == "in" and not isinstance(value, list):
        return "in needs a list as its value"
    if op in _ORDER and (isinstance(value, bool) or not isinstance(value, (int, float, str))):
        return f"{op} needs a number or text as its value"
    return None


def holds(guard: Mapping[str, Any], subject: Any) -> bool:
    """Whether ``{field, op, value}`` holds of a JSON value."""
    found = _at(subject, guard["field"])
    op, value = guard["op"], guard.get("value")
    if op in UNARY:
        missing = found is _MISSING or found is None
        return missing if op == "not_exists" else not missing
    if found is _MISSING:
        return False
    match op:
        case "eq":
            return same(found, value)
        case "neq":
            return not same(found, value)
        case "in":
            return isinstance(value, list) and any(same(found, one) for one in value)
        case "contains":
            return _contains(found, value)
        case _:
            return _ordered(op, found, value)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but neither equals true; the order of keys does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return bool(one is other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return bool(one == other)


def _at(subject: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(subject, dict) and part in subject:
            subject = subject[part]
        elif isinstance(subject, list) and _is_index(part) and int(part) < len(subject):
            subject = subject[int(part)]
        else:
            return _MISSING
    return subject


def _is_index(part: str) -> bool:
    # no list has more than so many places; a number of 5,000 digits is an error to int()
    return part.isascii() and part.isdigit() and len(part) < 7


def _contains(found: Any, value: Any) -> bool:
    if isinstance(found, str):
        return isinstance(value, str) and value in found
    if isinstance(found, list):
        return any(same(one, value) for one in found)
    return isinstance(found, dict) and isinstance(value, str) and value in found


def _ordered(op: str, found: Any, value: Any) -> bool:
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (found, value))
    if not numbers and not (isinstance(found, str) and isinstance(value, str)):
        return False
    match op:
        case "gt":
            return bool(found > value)
        case "gte":
            return bool(found >= value)
        case "lt":
            return bool(found < value)
        case _:
            return bool(found <= value)
