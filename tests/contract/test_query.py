"""Ranges of the table and its indexes: order, bounds, paging, sparse keys, projections."""

from __future__ import annotations

import pytest

from interlock.store.ports import INDEX_1_PROJECTION, INDEX_2_PROJECTION, Delete, Key, Put, Query, Update

PARTITION = "p#job#1"
NAMES = ["ART#1", "ART#2", "LOG#1", "LOG#10", "LOG#2", "LOG#3", "LOG$", "LOG"]
NAMES += ["a\x00b", "a", "b", "z", "é", "\ue000", "漢", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff"]
ORDER = sorted(NAMES, key=str.encode)


def fill(table, index):
    """The same sort keys in the table or in one of its indexes, among strangers."""
    writes = []
    for number, name in enumerate(NAMES):
        if index == 0:
            writes.append(Put(Key(PARTITION, name), {"n": number}))
        else:
            keys = {f"g{index}pk": PARTITION, f"g{index}sk": name}
            writes.append(
                Put(Key(f"p#{number:02d}", "HEAD"), {**keys, "version": number, "events": [number]})
            )
    writes.append(Put(Key(PARTITION + "0", "LOG#1"), {"g1pk": PARTITION + "0", "g1sk": "a"}))
    writes.append(Put(Key("p#job#", "LOG#1"), {"g2pk": "p#job#", "g2sk": "a"}))
    table.write_each(writes)


@pytest.fixture(params=[0, 1, 2])
def sort_keys(request, engine):
    """A function that runs a query, page by page, and answers the sort keys in the order of reading."""
    fill(engine.table, request.param)
    attribute = "sk" if request.param == 0 else f"g{request.param}sk"

    def read(page_size=100, **bounds):
        found, after = [], bounds.pop("after", None)
        for _ in range(len(NAMES) + 2):
            page = engine.table.query(Query(PARTITION, request.param, after=after, limit=page_size, **bounds))
            assert len(page.items) <= page_size
            found += [item[attribute] for item in page.items]
            if not page.more:
                return found
            assert page.items, "a page that goes on says from where"
            after = found[-1]
        raise AssertionError("the range has no end")

    return read


BOUNDS = [
    {},
    {"prefix": "LOG#"},
    {"prefix": "LOG"},
    {"prefix": "A"},
    {"prefix": "none"},
    {"prefix": "\U0010ffff"},
    {"prefix": "\ud7ff"},
    {"lower": "LOG#10"},
    {"upper": "LOG#10"},
    {"lower": "LOG#10", "upper": "LOG#3"},
    {"lower": "LOG#1", "upper": "LOG#1"},
    {"lower": "LOG#3", "upper": "LOG#10"},
    {"lower": "\U00010000"},
    {"upper": "\U00010000"},
    {"lower": "a", "upper": "a\x00b"},
    {"lower": "", "upper": "\U0010ffff"},
    {"upper": ""},
]


def inside(name, prefix="", lower=None, upper=None):
    return name.startswith(prefix) and (lower or "") <= name and (upper is None or name <= upper)


@pytest.mark.parametrize("forward", [True, False])
def test_every_range_in_every_page_size(sort_keys, forward):
    for bounds in BOUNDS:
        expected = [name for name in (ORDER if forward else ORDER[::-1]) if inside(name, **bounds)]
        for page_size in (1, 4):
            assert sort_keys(page_size, forward=forward, **bounds) == expected, (bounds, page_size)


@pytest.mark.parametrize("forward", [True, False])
def test_going_on_after_any_position(sort_keys, forward):
    for bounds in ({}, {"prefix": "LOG#"}, {"lower": "LOG#10", "upper": "b"}):
        expected = [name for name in (ORDER if forward else ORDER[::-1]) if inside(name, **bounds)]
        for position, name in enumerate(expected):
            found = sort_keys(3, forward=forward, after=name, **bounds)
            assert found == expected[position + 1 :], (bounds, name)


@pytest.mark.parametrize("forward", [True, False])
def test_going_on_after_a_position_that_has_gone(sort_keys, forward):
    expected = [name for name in ORDER if (name > "LOG#15" if forward else name < "LOG#15")]
    assert sort_keys(2, forward=forward, after="LOG#15") == (expected if forward else expected[::-1])
    kept = [name for name in ("LOG#1", "LOG#10", "LOG#2", "LOG#3") if (name > "LOG#15") is forward]
    assert sort_keys(2, forward=forward, after="LOG#15", prefix="LOG#") == (kept if forward else kept[::-1])


def test_the_table_answers_whole_items(engine):
    engine.table.write(Put(Key("p", "s"), {"a": 1, "b": b"2", "g1pk": "x", "g1sk": "y"}))
    page = engine.table.query(Query("p"))
    assert page.items == [{"pk": "p", "sk": "s", "a": 1, "b": b"2", "g1pk": "x", "g1sk": "y"}]
    assert not page.more


@pytest.mark.parametrize(("index", "projection"), [(1, INDEX_1_PROJECTION), (2, INDEX_2_PROJECTION)])
def test_an_index_answers_its_projection_only(engine, index, projection):
    keys = {"g1pk": "one", "g1sk": "a", "g2pk": "two", "g2sk": "b"}
    values = {name: f"value of {name}" for name in (*INDEX_1_PROJECTION, *INDEX_2_PROJECTION, "secret")}
    engine.table.write(Put(Key("p", "HEAD"), {**keys, **values}))
    (item,) = engine.table.query(Query("one" if index == 1 else "two", index)).items
    assert item.keys() == {"pk", "sk", f"g{index}pk", f"g{index}sk", *projection}


def listed(engine, index, partition):
    return [item["pk"] for item in engine.table.query(Query(partition, index)).items]


def test_indexes_are_sparse_and_follow_each_write(engine):
    table, key = engine.table, Key("p#1", "HEAD")
    table.write(Put(key, {"version": 1, "g1pk": "ready", "g1sk": "1", "g2pk": "feed", "g2sk": "1"}))
    assert (listed(engine, 1, "ready"), listed(engine, 2, "feed")) == (["p#1"], ["p#1"])
    table.write(Update(key, {"g1pk": "live"}))
    assert (listed(engine, 1, "ready"), listed(engine, 1, "live")) == ([], ["p#1"])
    table.write(Update(key, {"version": 2}, ("g1pk", "g1sk")))
    assert (listed(engine, 1, "live"), listed(engine, 2, "feed")) == ([], ["p#1"])
    table.write(Update(key, {"g1pk": "half"}))
    assert listed(engine, 1, "half") == []
    table.write(Update(key, {"g1sk": "whole"}))
    assert listed(engine, 1, "half") == ["p#1"]
    table.write(Put(key, {"version": 3}))
    assert (listed(engine, 1, "half"), listed(engine, 2, "feed")) == ([], [])
    table.transact([Update(key, {"g2pk": "feed", "g2sk": "2"})])
    assert listed(engine, 2, "feed") == ["p#1"]
    table.write(Delete(key))
    assert listed(engine, 2, "feed") == []


def test_a_page_without_room_is_refused(engine):
    with pytest.raises(ValueError, match="at least one"):
        engine.table.query(Query("p", limit=0))
