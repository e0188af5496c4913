"""JSON Schemas that agents send: what may be in one.

It is the part of draft 2020-12 that ends: no reference leaves the schema or goes round in a circle, there are no
patterns (some take longer than anybody waits), and nothing that looks at what other keywords have looked at. Whether
an answer fits one is judged by fit.py. Keywords that the draft does not know are left alone, as it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

Path = tuple[str, ...]


def is_integer(value: Any) -> bool:
    """Whether JSON Schema calls the value an integer: 1.0 is one."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": is_integer,
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFUSED = frozenset({
    "pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties", "$id", "$vocabulary",
    "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
})  # fmt: skip
_ONE = frozenset({
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
})  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "properties"})
"""Keywords whose value is a schema, a list of schemas, or schemas by name."""
_IN_PLACE = frozenset({"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
"""Those of them that look at the same value again."""


def _is_count(value: Any) -> bool:
    return is_integer(value) and value >= 0


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    if not names or not _are_names(names):
        return False
    return TYPES.keys() >= set(names) and len(set(names)) == len(names)


_COUNT = ("a whole number from 0", _is_count)
_NUMBER = ("a number", TYPES["number"])
_TEXT = ("text", TYPES["string"])
_FLAG = ("true or false", TYPES["boolean"])
_SHAPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "$schema": (_DIALECT, lambda value: value in (_DIALECT, f"{_DIALECT}#")),
    "type": (f"one or more of {', '.join(TYPES)}", _is_type),
    "enum": ("a list", TYPES["array"]),
    "required": ("a list of names", _are_names),
    "dependentRequired": (
        "lists of names by name",
        lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    ),
    "multipleOf": ("a number above 0", lambda value: TYPES["number"](value) and value > 0),
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _NUMBER),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains"), _COUNT),
    **dict.fromkeys(("maxProperties", "minProperties"), _COUNT),
    **dict.fromkeys(("title", "description", "$comment", "format"), _TEXT),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _TEXT),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _FLAG),
    "$ref": (
        "# or begin with #/ and lead to a schema: nothing outside is read",
        lambda value: isinstance(value, str) and (value == "#" or value.startswith("#/")),
    ),
}
"""What the values of the other keywords are."""


def problem(schema: Any) -> str | None:
    """What is wrong with a schema; None when it can be used."""
    found: dict[Path, Any] = {}
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        path, here = waiting.pop()
        wrong = _misshapen(here)
        if wrong:
            return f"{wrong}{_at(path)}"
        found[path] = here
        waiting += ((path + step, part) for step, part in _parts(here))
    return _led_astray(found)


def _misshapen(schema: Any) -> str | None:
    """What is wrong with a schema itself, not with those within it."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return "a schema is an object, true or false"
    for name, value in schema.items():
        if name in _REFUSED:
            return f"{name} is not supported"
        if name in _MANY and not (isinstance(value, list) and value):
            return f"{name} must be a list of schemas"
        if name in _NAMED and not isinstance(value, dict):
            return f"{name} must be schemas by name"
        if name in _SHAPES and not _SHAPES[name][1](value):
            return f"{name} must be {_SHAPES[name][0]}"
    return None


def _parts(schema: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas right within a schema, and how a pointer reaches them."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if name in _ONE:
            yield (name,), value
        elif name in _MANY:
            yield from (((name, str(number)), part) for number, part in enumerate(value))
        elif name in _NAMED:
            yield from (((name, key), part) for key, part in value.items())


def target(reference: str) -> Path:
    """Where a reference within a schema leads."""
    parts = unquote(reference).split("/")[1:]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def _led_astray(found: Mapping[Path, Any]) -> str | None:
    """What is wrong with references: one leads nowhere, or the same value would be looked at without an end."""
    looks: dict[Path, list[Path]] = {}
    for path, schema in found.items():
        if not isinstance(schema, dict):
            continue
        looks[path] = [path + step for step, _ in _parts(schema) if step[0] in _IN_PLACE]
        if "$ref" in schema:
            led = target(schema["$ref"])
            if led not in found:
                return f"the reference {schema['$ref'][:100]} leads to no schema"
            looks[path].append(led)
    try:
        TopologicalSorter(looks).prepare()
    except CycleError as circle:
        return f"it references itself without an end{_at(circle.args[1][0])}"
    return None


def _at(path: Path) -> str:
    return f" at {'/'.join(path)[:100]}" if path else ""
