"""Guards: what holds of which value, what is refused when a rule is published, and that no value is too odd."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.checked import CheckedWorld, checked

from interlock.domain import guard

BIG = 10**400  # beyond every double
SUBJECT = {
    "summary": "all green",
    "data": {
        "ok": True,
        "off": False,
        "none": None,
        "n": 3,
        "real": 3.0,
        "half": 0.5,
        "zero": 0,
        "minus": -0.0,
        "big": BIG,
        "text": "abc",
        "number": "10",
        "empty": "",
        "tags": ["a", 1, None, [True], {"k": 1}],
        "nested": [[1, 2], [3, {"deep": "x"}]],
        "map": {"a": 1, "0": "zero", "": "blank", "b": [1, {"c": 2}]},
    },
    "artifacts": ["art_1", "art_2"],
}

HOLDS: list[tuple[str, str, Any]] = [
    # equality
    ("data.ok", "eq", True),
    ("data.off", "eq", False),
    ("data.none", "eq", None),
    ("data.n", "eq", 3.0),
    ("data.real", "eq", 3),
    ("data.minus", "eq", 0),
    ("data.big", "eq", BIG),
    ("data.text", "eq", "abc"),
    ("data.empty", "eq", ""),
    ("data.tags", "eq", ["a", 1.0, None, [True], {"k": 1}]),
    ("data.map.b", "eq", [1, {"c": 2.0}]),
    ("data.map", "eq", {"b": [1, {"c": 2}], "": "blank", "0": "zero", "a": 1}),
    ("data.ok", "neq", 1),
    ("data.off", "neq", 0),
    ("data.off", "neq", None),
    ("data.none", "neq", False),
    ("data.n", "neq", "3"),
    ("data.n", "neq", True),
    ("data.big", "neq", 1e308),
    ("data.tags", "neq", ["a", 1, None, [1], {"k": 1}]),
    ("data.map", "neq", {}),
    # order
    ("data.n", "gt", 2.5),
    ("data.n", "gte", 3.0),
    ("data.n", "lt", BIG),
    ("data.half", "lte", 0.5),
    ("data.big", "gt", 1e308),
    ("data.minus", "gte", 0),
    ("data.text", "gt", "ab"),
    ("data.text", "lt", "abd"),
    ("data.number", "lt", "9"),
    # presence
    ("summary", "exists", None),
    ("data.off", "exists", None),
    ("data.empty", "exists", None),
    ("data.zero", "exists", None),
    ("data.map.", "exists", None),
    ("data.none", "not_exists", None),
    ("data.absent", "not_exists", None),
    ("data.absent.more", "not_exists", None),
    ("data.none.more", "not_exists", None),
    ("data.text.0", "not_exists", None),
    ("nothing", "not_exists", None),
    # membership
    ("data.n", "in", [1, 3.0]),
    ("data.none", "in", [None]),
    ("data.tags", "in", [["a", 1, None, [True], {"k": 1}]]),
    ("data.text", "contains", "bc"),
    ("data.text", "contains", ""),
    ("data.tags", "contains", 1.0),
    ("data.tags", "contains", None),
    ("data.tags", "contains", [True]),
    ("data.tags", "contains", {"k": 1}),
    ("data.map", "contains", "a"),
    ("artifacts", "contains", "art_2"),
    # paths
    ("data.tags.0", "eq", "a"),
    ("data.nested.1.1.deep", "eq", "x"),
    ("data.nested.0.1", "eq", 2),
    ("data.map.0", "eq", "zero"),
    ("artifacts.1", "eq", "art_2"),
    ("data.map.b.1.c", "eq", 2),
]

FAILS: list[tuple[str, str, Any]] = [
    ("data.ok", "eq", 1),
    ("data.ok", "eq", "true"),
    ("data.off", "eq", 0),
    ("data.none", "eq", 0),
    ("data.n", "eq", "3"),
    ("data.big", "eq", 1e308),
    ("data.tags", "eq", ["a"]),
    ("data.map", "eq", {"a": 1}),
    # a missing field is false for everything but not_exists
    ("data.absent", "eq", None),
    ("data.absent", "neq", 1),
    ("data.absent", "in", [None]),
    ("data.absent", "contains", ""),
    ("data.absent", "lt", 1),
    ("data.absent", "exists", None),
    ("data.none", "exists", None),
    ("data.ok", "not_exists", None),
    # what has no order has none
    ("data.ok", "gt", 0),
    ("data.ok", "gte", 1),
    ("data.none", "lte", 0),
    ("data.tags", "gt", "a"),
    ("data.n", "gt", "2"),
    ("data.number", "gt", 9),
    ("data.n", "gt", 3),
    ("data.n", "lt", 3.0),
    # membership
    ("data.ok", "in", [1, "true"]),
    ("data.n", "in", []),
    ("data.text", "contains", "B"),
    ("data.number", "contains", 1),
    ("data.tags", "contains", True),
    ("data.tags", "contains", "k"),
    ("data.map", "contains", 1),
    ("data.map", "contains", None),
    ("data.n", "contains", 3),
    ("data.none", "contains", None),
    # paths
    ("data.tags.5", "exists", None),
    ("data.tags.-1", "exists", None),
    ("data.tags.1e0", "exists", None),
    ("data.tags.²", "exists", None),
    ("data.tags.٣", "exists", None),
    ("data.tags." + "9" * 190, "exists", None),
    ("data.tags.", "exists", None),
    ("data.tags.+1", "exists", None),
    (".data", "exists", None),
    ("data..ok", "exists", None),
    ("Data", "exists", None),
]


@pytest.mark.parametrize(("field", "op", "value"), HOLDS)
def test_it_holds(field: str, op: str, value: Any) -> None:
    assert guard.holds({"field": field, "op": op, "value": value}, SUBJECT) is True


@pytest.mark.parametrize(("field", "op", "value"), FAILS)
def test_it_does_not_hold(field: str, op: str, value: Any) -> None:
    assert guard.holds({"field": field, "op": op, "value": value}, SUBJECT) is False


@pytest.mark.parametrize("subject", [None, True, 0, "text", [], {}])
def test_of_nothing_only_absence_holds(subject: Any) -> None:
    asked = {
        op: guard.holds({"field": "data.ok", "op": op, "value": None}, subject) for op in guard.OPERATORS
    }
    assert [op for op, held in asked.items() if held] == ["not_exists"]


# ---- properties

numbers = st.one_of(
    st.integers(),
    st.integers(-BIG, BIG),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-2, 2),
)
texts = st.text(st.characters(), max_size=8)  # lone surrogates too
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
paths = st.one_of(
    st.lists(st.one_of(texts, st.integers(-2, 5).map(str)), min_size=1, max_size=5).map(".".join),
    st.sampled_from(["a", "a.0", "a.b", "0", ".", ""]),
)
subjects = st.one_of(values, st.fixed_dictionaries({"a": values}))


def ask(field: str, op: str, value: Any, subject: Any) -> bool:
    return guard.holds({"field": field, "op": op, "value": value}, subject)


@given(paths, st.sampled_from(guard.OPERATORS), values, subjects)
def test_it_never_raises(field: str, op: str, value: Any, subject: Any) -> None:
    assert ask(field, op, value, subject) in (True, False)


@given(paths, values, subjects)
def test_opposites(field: str, value: Any, subject: Any) -> None:
    assert ask(field, "exists", None, subject) != ask(field, "not_exists", None, subject)
    assert not (ask(field, "eq", value, subject) and ask(field, "neq", value, subject))
    assert ask(field, "eq", value, subject) == ask(field, "in", [value], subject)
    if ask(field, "exists", None, subject):
        assert ask(field, "eq", value, subject) != ask(field, "neq", value, subject)


@given(values, values)
def test_what_is_equal_is_what_reads_the_same(one: Any, other: Any) -> None:
    """Equality by another way: numbers as exact fractions, objects without their order."""

    def told(value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return str(value)
        if isinstance(value, int | float):
            return ("number", Fraction(value))
        if isinstance(value, str):
            return ("text", value)
        if isinstance(value, list):
            return ("list", *map(told, value))
        return ("object", frozenset((name, told(part)) for name, part in value.items()))

    assert guard.same(one, other) == (told(one) == told(other))
    assert guard.same(one, one)
    assert guard.same(json.loads(json.dumps(one)), one)


@given(numbers, numbers)
def test_numbers_have_the_order_of_numbers(one: Any, other: Any) -> None:
    found = {op: ask("a", op, other, {"a": one}) for op in ("lt", "lte", "gt", "gte", "eq")}
    left, right = Fraction(one), Fraction(other)
    assert found == {
        "lt": left < right,
        "lte": left <= right,
        "gt": left > right,
        "gte": left >= right,
        "eq": left == right,
    }


@given(scalars, scalars, st.sampled_from(("lt", "lte", "gt", "gte")))
def test_what_is_of_two_kinds_has_no_order(one: Any, other: Any, op: str) -> None:
    def kind(value: Any) -> str:
        return type(value).__name__.replace("float", "int")

    assume(kind(one) != kind(other) or kind(one) in ("bool", "NoneType"))
    assert not ask("a", op, other, {"a": one})


# ---- what is published


@pytest.fixture(scope="module")
def w() -> CheckedWorld:
    return checked()


def publish(w: CheckedWorld, when: Any) -> Any:
    rule = {"role": "qa", "summary": "follow", "when": when}
    return w.call("POST", "P/jobs", {"summary": "work", "role": "developer", "routing": [rule]})


WRONG: list[tuple[str, Any, str, str]] = [
    ("an unknown operator", {"field": "a", "op": "equals", "value": 1}, "invalid", "/op"),
    ("no operator", {"field": "a", "value": 1}, "invalid", "/op"),
    ("an operator that is no text", {"field": "a", "op": 1, "value": 1}, "invalid", "/op"),
    ("no field", {"op": "exists"}, "invalid", "/field"),
    ("a blank field", {"field": " ", "op": "exists"}, "invalid", "/field"),
    ("a long field", {"field": "a" * 201, "op": "exists"}, "invalid", "/field"),
    ("a field that is no text", {"field": ["a"], "op": "exists"}, "invalid", "/field"),
    ("another field", {"field": "a", "op": "exists", "not": True}, "unknown_field", "/not"),
    ("no object", ["a", "exists"], "invalid", ""),
    *((f"{op} without a value", {"field": "a", "op": op}, "invalid", "") for op in guard.OPERATORS if op not in sorted(guard.UNARY)),
    *((f"{op} with {value}", {"field": "a", "op": op, "value": value}, "invalid", "") for op in sorted(guard.UNARY) for value in (True, None)),
    *((f"in with {value}", {"field": "a", "op": "in", "value": value}, "invalid", "") for value in ("abc", 1, None, {"a": 1})),
    *((f"{op} with {value}", {"field": "a", "op": op, "value": value}, "invalid", "") for op in ("gt", "lte") for value in (True, None, [1], {})),
]  # fmt: skip


@pytest.mark.parametrize(("when", "code", "path"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_guard_is_refused_where_it_stands(w: CheckedWorld, when: Any, code: str, path: str) -> None:
    reply = publish(w, when)
    assert (reply.status, reply.code) == (422, code)
    assert [error["path"] for error in reply.body["errors"]] == [f"routing/0/when{path}"]


def test_a_value_that_is_too_large_is_refused(w: CheckedWorld) -> None:
    reply = publish(w, {"field": "a", "op": "eq", "value": "x" * 5_000})
    assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.parametrize(
    "when",
    [
        None,
        {"field": "data.ok", "op": "exists"},
        {"field": "data.0.ok", "op": "eq", "value": None},
        {"field": "data.big", "op": "gt", "value": 10**999},
        {"field": "data.text", "op": "lt", "value": "\x00é😀"},
        {"field": "data.odd", "op": "in", "value": [1, "a", None, {"a": ["\ud800"]}]},
        {"field": "." * 200, "op": "not_exists"},
    ],
)
def test_a_guard_comes_back_as_it_was_sent(w: CheckedWorld, when: Any) -> None:
    made = publish(w, when)
    assert made.status == 201
    for job in (made.body["job"], w.get(made.body["job"]["id"])):
        assert [rule["when"] for rule in job["routing"]] == [when]
