"""Sixteen threads on one item: every engine lets exactly one win."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.store import conditions
from interlock.store.ports import ConditionLost, Delete, Key, Put, Query, Update

THREADS = 16
HEAD = Key("p#job#1", "HEAD")


@pytest.fixture
def together():
    """Run a function in every thread at the same moment and answer what each returned."""
    with ThreadPoolExecutor(THREADS) as pool:

        def run(function):
            gate = threading.Barrier(THREADS)

            def start(number):
                gate.wait(timeout=30)
                return function(number)

            return list(pool.map(start, range(THREADS), timeout=60))

        yield run


def won(table, write):
    try:
        table.write(write)
    except ConditionLost:
        return False
    return True


def test_one_update_wins(engine, together):
    engine.table.write(Put(HEAD, {"version": 0}))
    for version in range(3):
        results = together(
            lambda n, v=version: won(
                engine.table, Update(HEAD, {"version": v + 1, "by": n}, (), conditions.unchanged(v))
            )
        )
        assert results.count(True) == 1
        assert engine.table.get(HEAD)["by"] == results.index(True)


def test_one_put_wins(engine, together):
    results = together(lambda n: won(engine.table, Put(HEAD, {"by": n}, conditions.absent())))
    assert results.count(True) == 1
    assert engine.table.get(HEAD)["by"] == results.index(True)


def test_one_delete_wins(engine, together):
    engine.table.write(Put(HEAD, {"version": 1}))
    assert together(lambda _: won(engine.table, Delete(HEAD, conditions.unchanged(1)))).count(True) == 1


def test_one_transaction_wins_and_is_whole(engine, together):
    engine.table.write(Put(HEAD, {"version": 0}))

    def claim(number):
        mine = Key("p#claims", f"{number:02d}")
        try:
            engine.table.transact([
                Put(mine, {"by": number}, conditions.absent()),
                Update(HEAD, {"version": 1, "by": number}, (), conditions.unchanged(0)),
            ])  # fmt: skip
        except ConditionLost:
            return False
        return True

    results = together(claim)
    assert results.count(True) == 1
    (only,) = engine.table.query(Query("p#claims")).items
    assert only["by"] == engine.table.get(HEAD)["by"] == results.index(True)


def test_transactions_that_fail_lose_nothing_of_others(engine, together):
    engine.table.write(Put(HEAD, {"version": 0}))

    def work(number):
        if number % 2:
            return won(engine.table, Put(Key("p#plain", f"{number:02d}"), {"by": number}))
        with pytest.raises(ConditionLost):
            engine.table.transact([
                Put(Key("p#ghosts", f"{number:02d}"), {"by": number}),
                Update(HEAD, {"version": 1}, (), conditions.unchanged(9)),
            ])  # fmt: skip
        return True

    assert all(together(work))
    assert len(engine.table.query(Query("p#plain")).items) == THREADS // 2
    assert engine.table.query(Query("p#ghosts")).items == []


def test_a_counter_by_compare_and_set_counts_everything(engine, together):
    engine.table.write(Put(HEAD, {"version": 0}))

    def count(_):
        for _ in range(3):
            while True:
                version = engine.table.get(HEAD)["version"]
                if won(
                    engine.table, Update(HEAD, {"version": version + 1}, (), conditions.unchanged(version))
                ):
                    break

    together(count)
    assert engine.table.get(HEAD)["version"] == 3 * THREADS
    assert len(engine.feed.read(limit=200)) == 3 * THREADS + 1


def test_messages_are_received_once_while_hidden(engine, together):
    engine.queues.send("lease", [({"n": number}, 0) for number in range(40)])
    received = [message for batch in together(lambda _: engine.queues.receive("lease")) for message in batch]
    if engine.name != "moto":  # standard queues promise less, and moto's have no lock
        assert len({message.id for message in received}) == len(received)
    assert {message.body["n"] for message in received} <= set(range(40))
