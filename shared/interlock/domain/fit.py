"""Whether a value fits a JSON Schema that schema.py has let pass: judged in a bounded number of steps.

The schema is an agent's, the value an answerer's. Schemas of a few KiB exist that no validator is ever done with;
here each step is counted, and what takes more than ``limits.SCHEMA_STEPS`` fits nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from interlock.domain import limits
from interlock.domain.schema import TYPES, Path, target

_MESSAGE_CHARACTERS = 300
_DEAR, _TEXT = 30, 8
"""Steps that work with numbers of many digits, and making a text, count for."""


class _Endless(Exception):  # noqa: N818  an outcome, not an error
    """The check takes too many steps."""


def mismatch(schema: Any, value: Any) -> str | None:
    """Why a value does not fit the schema; None when it does."""
    check = _Check(schema)
    try:
        wrong = check.first(schema, value, ())
    except (_Endless, RecursionError):
        return "takes too long to be checked against the schema: make it smaller, or withdraw the decision"
    if wrong is None:
        return None
    where, why = wrong
    at = f" at {'/'.join(where)}" if where else ""
    return f"does not fit the schema{at[:100]}: {why}"[:_MESSAGE_CHARACTERS]


Wrong = tuple[Path, str]


class _Check:
    """One check of one value: its schema, and the steps that are left."""

    def __init__(self, root: Any) -> None:
        self._root, self._left = root, limits.SCHEMA_STEPS
        self._targets: dict[str, Any] = {}

    def take(self, steps: int) -> None:
        """So many steps are made."""
        self._left -= steps
        if self._left < 0:
            raise _Endless

    def first(self, schema: Any, value: Any, path: Path) -> Wrong | None:
        """Where and why the value does not fit, the first reason."""
        self.take(1)
        if isinstance(schema, bool):
            return None if schema else (path, "nothing is allowed there")
        self.take(len(schema))
        for name, expected in schema.items():
            rule, inner = _RULES.get(name), _INNER.get(name)
            if rule is not None:
                why = rule(self, expected, value, schema)
                wrong = None if why is None else (path, why)
            else:
                wrong = None if inner is None else inner(self, expected, value, schema, path)
            if wrong is not None:
                return wrong
        return None

    def fits(self, schema: Any, value: Any) -> bool:
        return self.first(schema, value, ()) is None

    def led(self, reference: str) -> Any:
        """The schema that a reference leads to."""
        if reference not in self._targets:
            here = self._root
            for part in target(reference):
                here = here[int(part)] if isinstance(here, list) else here[part]
            self._targets[reference] = here
        return self._targets[reference]

    def equal(self, one: Any, other: Any) -> bool:
        """Whether JSON Schema calls two values equal: 1 is 1.0, and not true."""
        self.take(1)
        if TYPES["number"](one) and TYPES["number"](other):
            return bool(one == other)
        if type(one) is not type(other):
            return False
        if isinstance(one, list):
            return len(one) == len(other) and all(map(self.equal, one, other))
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(self.equal(one[name], other[name]) for name in one)
        return bool(one == other)

    def text(self, value: Any) -> str:
        """A text that is the same for equal values."""

        def plain(part: Any) -> Any:
            self.take(1)
            if isinstance(part, float) and part.is_integer():
                return int(part)
            if isinstance(part, list):
                return [plain(each) for each in part]
            return {name: plain(each) for name, each in part.items()} if isinstance(part, dict) else part

        text = json.dumps(plain(value), sort_keys=True)
        self.take(_TEXT + len(text) // 64)
        return text


# ---- keywords that look at the value alone

Rule = Callable[[_Check, Any, Any, Mapping[str, Any]], str | None]


def _type(_check: _Check, names: Any, value: Any, _schema: Any) -> str | None:
    names = [names] if isinstance(names, str) else names
    return None if any(TYPES[name](value) for name in names) else f"must be of type {' or '.join(names)}"


def _enum(check: _Check, options: Any, value: Any, _schema: Any) -> str | None:
    return None if any(check.equal(each, value) for each in options) else "must be one of the enum's values"


def _const(check: _Check, wanted: Any, value: Any, _schema: Any) -> str | None:
    return None if check.equal(wanted, value) else "must be the constant value"


def _bound(kind: type | tuple[type, ...], fits: Callable[[Any, Any], bool], words: str) -> Rule:
    """A keyword that sets a bound to values of a kind."""

    def rule(check: _Check, bound: Any, value: Any, _schema: Any) -> str | None:
        if not isinstance(value, kind) or isinstance(value, bool) or fits(value, bound):
            return None
        check.take(_DEAR)
        return f"{words} {str(bound)[:30]}"

    return rule


def _multiple(check: _Check, of: Any, value: Any, _schema: Any) -> str | None:
    if not TYPES["number"](value):
        return None
    check.take(_DEAR)
    times = Fraction(str(value)) / Fraction(str(of))  # as they are written: 0.3 is three times 0.1
    return None if times.denominator == 1 else f"must be a multiple of {str(of)[:30]}"


def _unique(check: _Check, wanted: Any, value: Any, _schema: Any) -> str | None:
    if not wanted or not isinstance(value, list) or len({check.text(each) for each in value}) == len(value):
        return None
    return "its items must differ"


def _required(check: _Check, names: Any, value: Any, _schema: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    check.take(len(names))
    missing = next((name for name in names if name not in value), None)
    return None if missing is None else f"{missing[:60]} is missing"


def _dependent_required(check: _Check, needs: Any, value: Any, schema: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    check.take(len(needs))
    found = (_required(check, names, value, schema) for name, names in needs.items() if name in value)
    return next((why for why in found if why is not None), None)


_NUMBERS = (int, float)
_RULES: Mapping[str, Rule] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "uniqueItems": _unique,
    "required": _required,
    "dependentRequired": _dependent_required,
    "multipleOf": _multiple,
    "maximum": _bound(_NUMBERS, lambda value, bound: value <= bound, "must be at most"),
    "minimum": _bound(_NUMBERS, lambda value, bound: value >= bound, "must be at least"),
    "exclusiveMaximum": _bound(_NUMBERS, lambda value, bound: value < bound, "must be below"),
    "exclusiveMinimum": _bound(_NUMBERS, lambda value, bound: value > bound, "must be above"),
    "maxLength": _bound(str, lambda value, bound: len(value) <= bound, "its length must be at most"),
    "minLength": _bound(str, lambda value, bound: len(value) >= bound, "its length must be at least"),
    "maxItems": _bound(list, lambda value, bound: len(value) <= bound, "its items must be at most"),
    "minItems": _bound(list, lambda value, bound: len(value) >= bound, "its items must be at least"),
    "maxProperties": _bound(dict, lambda value, bound: len(value) <= bound, "its members must be at most"),
    "minProperties": _bound(dict, lambda value, bound: len(value) >= bound, "its members must be at least"),
}

# ---- keywords with schemas

Inner = Callable[[_Check, Any, Any, Mapping[str, Any], Path], Wrong | None]


def _ref(check: _Check, reference: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    return check.first(check.led(reference), value, path)


def _first(wrongs: Any) -> Wrong | None:
    return next((wrong for wrong in wrongs if wrong is not None), None)


def _all_of(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    return _first(check.first(part, value, path) for part in parts)


def _any_of(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    return None if any(check.fits(part, value) for part in parts) else (path, "fits none of anyOf")


def _one_of(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    count = sum(check.fits(part, value) for part in parts)
    return None if count == 1 else (path, f"fits {count} of oneOf, must fit one")


def _not(check: _Check, part: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    return (path, "fits what it must not") if check.fits(part, value) else None


def _if(check: _Check, part: Any, value: Any, schema: Any, path: Path) -> Wrong | None:
    return check.first(schema.get("then" if check.fits(part, value) else "else", True), value, path)


def _dependent_schemas(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    check.take(len(parts))
    there = [part for name, part in parts.items() if isinstance(value, dict) and name in value]
    return _first(check.first(part, value, path) for part in there)


def _properties(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    check.take(len(parts))
    there = [name for name in parts if isinstance(value, dict) and name in value]
    return _first(check.first(parts[name], value[name], (*path, name)) for name in there)


def _additional(check: _Check, part: Any, value: Any, schema: Any, path: Path) -> Wrong | None:
    if not isinstance(value, dict):
        return None
    check.take(len(value))
    known = schema.get("properties", {})
    return _first(check.first(part, value[name], (*path, name)) for name in value if name not in known)


def _property_names(check: _Check, part: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    names = value if isinstance(value, dict) else ()
    return _first(check.first(part, name, (*path, name)) for name in names)


def _prefix_items(check: _Check, parts: Any, value: Any, _schema: Any, path: Path) -> Wrong | None:
    pairs = zip(parts, value, strict=False) if isinstance(value, list) else ()
    return _first(check.first(part, item, (*path, str(n))) for n, (part, item) in enumerate(pairs))


def _items(check: _Check, part: Any, value: Any, schema: Any, path: Path) -> Wrong | None:
    begin = len(schema.get("prefixItems", ()))
    rest = value[begin:] if isinstance(value, list) else ()
    return _first(check.first(part, item, (*path, str(n))) for n, item in enumerate(rest, begin))


def _contains(check: _Check, part: Any, value: Any, schema: Any, path: Path) -> Wrong | None:
    if not isinstance(value, list):
        return None
    count = sum(check.fits(part, item) for item in value)
    if count < schema.get("minContains", 1):
        return path, "too few of its items fit contains"
    return (path, "too many of its items fit contains") if count > schema.get("maxContains", count) else None


_INNER: Mapping[str, Inner] = {
    "$ref": _ref,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "dependentSchemas": _dependent_schemas,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "prefixItems": _prefix_items,
    "items": _items,
    "contains": _contains,
}
