"""Transactions: all or nothing, and the first part that lost is named."""

from __future__ import annotations

import pytest

from interlock.store import conditions
from interlock.store.ports import Check, ConditionLost, Delete, Key, Put, Query, Update


def key(number):
    return Key("p#job#1", f"ITEM#{number:04d}")


@pytest.fixture
def table(engine):
    for number in range(4):
        engine.table.write(Put(key(number), {"version": number}))
    return engine.table


def state(table):
    return {item["sk"]: item for item in table.query(Query("p#job#1", limit=1000)).items}


def test_every_kind_of_part(table):
    table.transact([
        Put(key(9), {"new": True}, conditions.absent()),
        Update(key(1), {"version": 5}, (), conditions.unchanged(1)),
        Delete(key(2), conditions.unchanged(2)),
        Check(key(3), conditions.unchanged(3)),
        Update(key(8), {"made": "by update"}),
        Put(key(0), {"replaced": 1}),
    ])  # fmt: skip
    found = {
        sk: {n: v for n, v in item.items() if n not in ("pk", "sk")} for sk, item in state(table).items()
    }
    assert found == {
        key(0).sk: {"replaced": 1},
        key(1).sk: {"version": 5},
        key(3).sk: {"version": 3},
        key(8).sk: {"made": "by update"},
        key(9).sk: {"new": True},
    }


def test_a_check_of_what_is_absent(table):
    table.transact([Check(key(7), conditions.absent()), Put(key(9), {"a": 1})])
    assert table.get(key(9))
    assert table.get(key(7)) is None


@pytest.mark.parametrize("loser", [0, 1, 2, 3])
def test_nothing_happens_when_a_part_loses(table, loser):
    right = [
        Update(key(0), {"version": 10}, (), conditions.unchanged(0)),
        Delete(key(1), conditions.unchanged(1)),
        Check(key(2), conditions.unchanged(2)),
        Put(key(3), {"version": 13}, conditions.unchanged(3)),
    ]
    wrong = [
        Update(key(0), {"version": 10}, (), conditions.unchanged(99)),
        Delete(key(1), conditions.unchanged(99)),
        Check(key(2), conditions.unchanged(99)),
        Put(key(3), {"version": 13}, conditions.unchanged(99)),
    ]
    before = state(table)
    parts = [wrong[loser] if number == loser else part for number, part in enumerate(right)]
    with pytest.raises(ConditionLost) as lost:
        table.transact([*parts, Put(key(20), {"ghost": 1}), Update(key(21), {"ghost": 1})])
    assert lost.value.index == loser
    assert lost.value.item == before[key(loser).sk]
    assert "unchanged" in str(lost.value)
    assert state(table) == before
    table.transact(right)


def test_the_first_of_several_losers_is_named(table):
    with pytest.raises(ConditionLost) as lost:
        table.transact([
            Put(key(9), {}),
            Check(key(5), conditions.unchanged(1)),
            Put(key(1), {}, conditions.absent()),
        ])  # fmt: skip
    assert lost.value.index == 1
    assert lost.value.item is None


def test_a_transaction_that_lost_leaves_no_trace_in_the_feed(engine):
    head = Key("p#job#2", "HEAD")
    engine.table.write(Put(head, {"version": 1}))
    with pytest.raises(ConditionLost):
        engine.table.transact([
            Update(head, {"version": 2}),
            Put(Key("p#job#3", "HEAD"), {"version": 1}),
            Check(key(5), conditions.unchanged(1)),
        ])  # fmt: skip
    engine.table.transact([Update(head, {"version": 2}), Put(key(1), {"a": 1})])
    changes = engine.feed.read()
    assert [(change.key, change.new["version"]) for change in changes] == [(head, 1), (head, 2)]


def test_a_hundred_parts(table):
    table.transact([Put(key(number), {"n": number}, conditions.absent()) for number in range(100, 200)])
    assert len(state(table)) == 104


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Put(key(number), {"n": number}) for number in range(101)],
        [Put(key(1), {"a": 1}), Check(key(1), conditions.absent())],
        [Put(key(1), {"a": 1}), Update(key(1), {"a": 2})],
        [Put(key(number), {"n": b"x" * 390_000}) for number in range(11)],
        [Put(key(1), {"a": 1}), Put(Key("p", ""), {"a": 1})],
        [Put(key(1), {"a": 1}), Put(key(2), {"a": b"x" * (401 * 1024)})],
        [Put(key(1), {"a": 1}), Update(key(2), {})],
    ],
    ids=[
        "empty",
        "101 parts",
        "item twice",
        "item written twice",
        "4 MB",
        "bad key",
        "400 KB",
        "empty update",
    ],
)
def test_what_no_engine_takes_is_refused_before_anything_happens(table, parts):
    before = state(table)
    with pytest.raises(ValueError):
        table.transact(parts)
    assert state(table) == before
