"""Schemas that agents send, and answers to them: the same judgement as jsonschema's, in a bounded number of steps."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from interlock.domain import limits
from interlock.domain.fit import mismatch
from interlock.domain.schema import problem

TOO_LONG = "takes too long"
META = Draft202012Validator(Draft202012Validator.META_SCHEMA)

# ---- the same as jsonschema, which is too slow for strangers' schemas

NAMES = st.sampled_from(["a", "b", "$ref", "pattern", "", "a/b~", "é"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 1.0, 1.5, "\ud800"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
COUNTS = st.integers(0, 3) | st.just(2.0)
BOUNDS = st.integers(-2, 2) | st.just(0.5)
TYPES = st.sampled_from(["null", "boolean", "object", "array", "string", "number", "integer"])
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, max_size=4),
    "const": VALUES,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), BOUNDS),
    "multipleOf": st.integers(1, 3),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), COUNTS),
    **dict.fromkeys(("minProperties", "maxProperties"), COUNTS),
    "uniqueItems": st.booleans(),
    "required": st.lists(NAMES, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
    "title": st.just("t"),
    "unknown": VALUES,
    "$ref": st.sampled_from(
        ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/properties/a~1b~0", "#/$defs/%C3%A9"]
    ),
}


def with_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas that have others within them."""
    many, named = st.lists(inner, min_size=1, max_size=2), st.dictionaries(NAMES, inner, max_size=3)
    one = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
    parts = {
        **dict.fromkeys(one, inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), many),
        **dict.fromkeys(("properties", "dependentSchemas", "$defs"), named),
    }
    return st.lists(st.sampled_from(sorted(PLAIN) + sorted(parts) * 2), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: {**PLAIN, **parts}[name] for name in names})
    )


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=PLAIN), with_schemas, max_leaves=6)
ROOTS = st.tuples(with_schemas(SCHEMAS), st.dictionaries(st.sampled_from(["a", "b", "é"]), SCHEMAS)).map(
    lambda pair: {**pair[0], "$defs": pair[1]}
)
often = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@often
@given(ROOTS, st.lists(VALUES, min_size=1, max_size=4))
@example({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"enum": [1, True]}}}, [[1.0], [True], [False], [0]])
@example({"uniqueItems": True}, [[1, 1.0], [1, True], [{"a": 1}, {"a": 1.0}], [[], {}]])
@example({"properties": {"l": {"$ref": "#"}}, "required": ["v"]}, [{"v": 1, "l": {"v": 2, "l": {}}}])
def test_what_passes_is_judged_as_jsonschema_judges_it(schema: Any, values: list[Any]) -> None:
    if problem(schema) is not None:
        return
    Draft202012Validator.check_schema(schema)
    for value in values:
        assert (mismatch(schema, value) is None) == Draft202012Validator(schema).is_valid(value), value


JUNK = st.recursive(
    SCALARS | st.just("#/$defs/a"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(sorted({*PLAIN, "items", "allOf", "properties", "$defs", "not"})), inner
        )
    ),
    max_leaves=10,
)


@often
@given(
    st.dictionaries(st.sampled_from([*sorted(PLAIN), "items", "allOf", "properties", "$defs", "not"]), JUNK)
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """Whatever jsonschema calls wrong is called wrong here too, but for a list of names that repeats one."""
    wrong = [error.validator for error in META.iter_errors(schema)]
    assert problem(schema) is not None or set(wrong) <= {"uniqueItems"}


# ---- hostile ones


def nested(depth: int, wrap: Any, inner: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def doubling(times: int, levels: int, leaf: Any) -> dict[str, Any]:
    """Each level looks at the next so many times."""
    defs = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * times} for n in range(levels)}
    return {"$defs": {**defs, f"a{levels}": leaf}, "$ref": "#/$defs/a0"}


REFUSED: dict[str, Any] = {
    "remote": {"$ref": "https://example.org/schema"},
    "remote without a scheme": {"$ref": "//example.org/schema"},
    "relative": {"$ref": "other.json"},
    "relative with a fragment": {"$ref": "other.json#/a"},
    "empty": {"$ref": ""},
    "urn": {"$ref": "urn:example:x"},
    "file": {"$ref": "file:///etc/passwd"},
    "meta-schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    "blank before": {"$ref": " #/$defs/a", "$defs": {"a": {}}},
    "anchor": {"$ref": "#a", "$defs": {"a": {"title": "a"}}},
    "percent": {"$ref": "%23/$defs/a", "$defs": {"a": {}}},
    "not text": {"$ref": 5},
    "list": {"$ref": ["#"]},
    "within an item": {"items": {"anyOf": [{"properties": {"a": {"$ref": "https://example.org"}}}]}},
    "under definitions": {"definitions": {"a": {"$ref": "https://example.org"}}},
    "nowhere": {"$ref": "#/$defs/none"},
    "nowhere in a list": {"$ref": "#/allOf/x", "allOf": [True]},
    "beyond a list": {"$ref": "#/allOf/1", "allOf": [True]},
    "before a list": {"$ref": "#/allOf/-1", "allOf": [True]},
    "with zeros": {"$ref": "#/allOf/00", "allOf": [True]},
    "into text": {"$ref": "#/title/0", "title": "t"},
    "into a number": {"$ref": "#/maxLength/x", "maxLength": 1},
    "into data": {"items": {"$ref": "#/default"}, "default": {"pattern": "(a|a)*$"}},
    "into a constant": {"items": {"$ref": "#/const"}, "const": 5},
    "into an unknown keyword": {"items": {"$ref": "#/x"}, "x": {"type": 5}},
    "into a map": {"items": {"$ref": "#/$defs"}, "$defs": {"type": {}}},
    "dynamic": {"$dynamicRef": "#a"},
    "recursive": {"$recursiveRef": "#"},
    "id": {"$id": "https://example.org/x"},
    "id within": {"items": {"$id": "x"}},
    "dynamic anchor": {"$dynamicAnchor": "a"},
    "vocabulary": {"$vocabulary": {}},
    "itself": {"$ref": "#"},
    "itself, by a part": {"allOf": [{"$ref": "#"}]},
    "itself, beside a condition": {"if": False, "then": {"$ref": "#"}},
    "each other": {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
    "itself, unused": {"properties": {"a": {"$ref": "#/properties/a"}}},
    "pattern": {"pattern": "(a+)+$"},
    "pattern within": {"properties": {"a": {"pattern": "a"}}},
    "patterns of names": {"patternProperties": {"(a+)+$": True}},
    "unevaluated": {"unevaluatedProperties": False},
    "another draft": {"$schema": "http://json-schema.org/draft-07/schema#"},
    "type": {"type": "text"},
    "types": {"type": ["string", "string"]},
    "no types": {"type": []},
    "count": {"maxLength": -1},
    "fraction": {"minItems": 1.5},
    "true as a count": {"minItems": True},
    "zero": {"multipleOf": 0},
    "tuple of old": {"items": [True]},
    "nothing of all": {"allOf": []},
    "no schemas": {"anyOf": {"a": True}},
    "properties as a list": {"properties": ["a"]},
    "a property that is text": {"properties": {"a": "string"}},
    "enum as text": {"enum": "abc"},
    "required as text": {"required": "a"},
    "required numbers": {"required": [1]},
}  # fmt: skip
TAKEN: dict[str, Any] = {
    "nothing": {},
    "properties with names of keywords": {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
    "definitions of that name": {"$defs": {"$id": {}, "pattern": {}}},
    "schemas by that name": {"dependentSchemas": {"patternProperties": True}},
    "data of that name": {"enum": [{"$ref": "https://example.org", "pattern": "(a+)+$"}], "default": {"$id": 1}},
    "unknown keywords": {"x-note": {"$ref": "https://example.org"}, "format": "regex"},
    "the dialect": {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    "a tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "a list of lists": {"items": {"$ref": "#"}},
    "names to escape": {"properties": {"a": {"$ref": "#/$defs/a~1b~0%25"}}, "$defs": {"a/b~%": {}}},
    "as deep as a body is": nested(60, lambda inner: {"not": inner}, {}),
    "a huge enum": {"enum": list(range(1_500))},
    "huge numbers": {"maximum": 10**900, "multipleOf": 5e-324},
    "no types that are wrong": {"items": True, "not": False},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert problem(REFUSED[name])


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    schema = TAKEN[name]
    assert problem(schema) is None
    for value in (None, True, 0, 10**999, 1e308, "", "\ud800", [], {}, {"pattern": "x", "$ref": 1}, [[[]]]):
        mismatch(schema, value)


def test_a_property_is_judged_whatever_its_name() -> None:
    schema = TAKEN["properties with names of keywords"]
    assert (
        mismatch(schema, {"$ref": 1, "pattern": "x"})
        == "does not fit the schema at $ref: must be of type string"
    )
    assert mismatch(schema, {"$ref": "x", "pattern": "x"}) is None


@pytest.mark.parametrize(
    ("of", "value", "fits"),
    [(0.1, 0.3, True), (0.01, 19.99, True), (0.1, 0.35, False), (5e-324, 1e308, True), (10**900, 1.5, False), (0.1, 10**999, True)],
)  # fmt: skip
def test_multiples_are_judged_as_they_are_written(of: Any, value: Any, fits: bool) -> None:
    assert (mismatch({"multipleOf": of}, value) is None) == fits


LARGE = list(range(3_300))
SLOW: dict[str, tuple[Any, Any]] = {
    "doubling": (doubling(2, 40, {"type": "null"}), None),
    "tripling": (doubling(3, 12, {"allOf": [True] * 900}), None),
    "doubling down a tree": (
        {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2},
        nested(60, lambda inner: {"a": inner}, {}),
    ),
    "a huge enum for each of many": ({"items": {"enum": list(range(1_500))}}, [-1, *range(2_000, 3_300)]),
    "an equal, large constant": ({"allOf": [{"const": LARGE[:1_000]}] * 2}, LARGE[:1_000]),
    "items that are told apart": ({"allOf": [{"uniqueItems": True}] * 300}, [{"a": n} for n in range(1_300)]),
    "contains": ({"contains": {"enum": list(range(1_500))}, "minContains": 2}, [-1] * 2_600),
    "many of many": ({"items": {"anyOf": [*[{"type": "null"}] * 400, True]}}, LARGE),
    "numbers of many digits": ({"items": {"anyOf": [{"multipleOf": 10**900}] * 8}}, [1e308, 5e-324] * 900),
    "long text": ({"uniqueItems": True, "items": {"allOf": [{"enum": ["x" * 3_000]}] * 2}}, ["x" * 3_000] * 5),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_whatever_is_asked_and_answered_a_check_ends_soon(name: str) -> None:
    """Not judged by the clock: by the steps, which are told with the time that they take."""
    schema, value = SLOW[name]
    assert len(json.dumps(schema)) <= 2 * limits.SCHEMA_BYTES
    begun = time.perf_counter()
    assert problem(schema) is None
    asked = time.perf_counter()
    told = mismatch(schema, value)
    print(f"{name}: {asked - begun:.3f} s to take, {time.perf_counter() - asked:.3f} s to judge: {told}")


def test_what_takes_too_long_fits_nothing() -> None:
    for name in ("doubling", "doubling down a tree", "contains", "many of many"):
        schema, value = SLOW[name]
        assert TOO_LONG in (mismatch(schema, value) or ""), name


def test_what_is_large_and_sensible_is_judged() -> None:
    """As much as may be sent, with a keyword or two for each part."""
    row = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 0}}}
    schema = {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/row"}, "$defs": {"row": row}}
    assert mismatch(schema, [{"id": number} for number in range(1_300)]) is None
    fields = {f"field{n}": {"type": "string", "maxLength": 100} for n in range(150)}
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    assert mismatch(schema, dict.fromkeys(fields, "x" * 90)) is None


def test_what_is_wrong_is_said_shortly() -> None:
    long = "x" * 9_000
    for schema, value in (
        ({"properties": {long: False}}, {long: 1}),
        ({"required": [long]}, {}),
        ({"maximum": 10**900}, 10**950),
        ({"propertyNames": False}, {long: 1}),
        ({"additionalProperties": {"type": "null"}}, {long: 1}),
    ):
        told = mismatch(schema, value)
        assert told is not None
        assert len(told) <= 300
    for schema in ({"$ref": "#/" + long}, {"properties": {long: 5}}, {"$defs": {long: {"type": long}}}):
        assert len(problem(schema) or "x" * 999) <= 400
