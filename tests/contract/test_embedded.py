"""What only the embedded engine promises: durable commits, group commit, wake-ups."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.contract.engines import Clock

import interlock
from interlock.errors import StoreError
from interlock.store import conditions
from interlock.store.embedded import DATABASE, open_embedded, open_memory
from interlock.store.ports import Key, Put, Query, Update

HEAD = Key("p#job#1", "HEAD")


@pytest.fixture
def opened(tmp_path):
    store = open_embedded(tmp_path, clock=Clock())
    yield store
    store.close()


def test_everything_survives_reopening(tmp_path):
    clock = Clock()
    first = open_embedded(tmp_path, clock=clock)
    first.store.table.write(Put(HEAD, {"version": 1, "raw": b"\x00", "g1pk": "ready", "g1sk": "1"}))
    first.store.queues.send("lease", [({"n": 1}, 5)])
    first.store.blobs.put("k", b"blob")
    first.close()
    assert not (tmp_path / f"{DATABASE}-wal").exists()
    second = open_embedded(tmp_path, clock=clock)
    assert second.store.table.get(HEAD)["raw"] == b"\x00"
    assert [item["pk"] for item in second.store.table.query(Query("ready", 1)).items] == [HEAD.pk]
    assert [change.key for change in second.feed.read()] == [HEAD]
    assert second.store.queues.depth("lease") == 1
    assert second.queues.next_due("lease") == clock.now + 5000
    assert second.store.blobs.get("k") == b"blob"
    second.close()


def test_what_a_process_was_handling_when_it_ended_comes_again_at_once(tmp_path):
    clock = Clock()
    first = open_embedded(tmp_path, clock=clock)
    first.store.queues.send("barrier", [({"n": 1}, 0), ({"n": 2}, 60)])
    assert len(first.store.queues.receive("barrier", visibility=360)) == 1
    first.close()
    second = open_embedded(tmp_path, clock=clock)
    (again,) = second.store.queues.receive("barrier", visibility=360)
    assert (again.body, again.receives) == ({"n": 1}, 2)
    assert second.store.queues.receive("barrier") == [], "what was delayed stays so"
    second.close()


WRITE_UNTIL_KILLED = """
import itertools, sys, threading
from pathlib import Path
from interlock.store.embedded import open_embedded
from interlock.store.ports import Key, Put, Update

opened = open_embedded(Path(sys.argv[1]), clock=lambda: 0)
say = threading.Lock()

def work(thread):
    for number in itertools.count():
        key = Key(f"p#job#{thread}-{number}", "HEAD")
        opened.store.table.write(Put(key, {"version": 1, "payload": b"x" * 500}))
        opened.store.table.transact([Update(key, {"version": 2}), Put(Key(key.pk, "BODY"), {"n": number})])
        opened.store.queues.send("lease", [({"job": key.pk}, 0)])
        with say:
            print(key.pk, flush=True)

for thread in range(4):
    threading.Thread(target=work, args=(thread,)).start()
"""


def test_every_acknowledged_write_survives_kill_9(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(interlock.__file__).parent.parent)}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    with writer:
        acknowledged = [writer.stdout.readline().strip() for _ in range(400)]
        os.kill(writer.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert len(set(acknowledged)) >= 400
    store = open_embedded(tmp_path, clock=Clock())
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        messages = raw.execute("SELECT count(*) FROM messages").fetchone()[0]
    raw.close()
    heads = store.store.table.batch_get([Key(pk, "HEAD") for pk in acknowledged])
    bodies = store.store.table.batch_get([Key(pk, "BODY") for pk in acknowledged])
    assert len(heads) == len(bodies) == len(acknowledged)
    assert {item["version"] for item in heads.values()} == {2}
    assert messages >= len(acknowledged)
    changes = store.feed.read(limit=100_000)
    assert {change.key.pk for change in changes if change.new["version"] == 2} >= set(acknowledged)
    store.close()


class TestGroupCommit:
    @pytest.fixture
    def together(self, opened):
        """Submit functions so that all of them wait for the writer at the same time; answers their outcomes."""

        def run(*submissions):
            entered, go = threading.Event(), threading.Event()

            def hold(session):
                entered.set()
                assert go.wait(30)

            def outcome(submit):
                try:
                    return submit()
                except Exception as error:
                    return error

            with ThreadPoolExecutor(len(submissions) + 1) as pool:
                first = pool.submit(opened.engine.write, hold)
                assert entered.wait(30)
                pending = [pool.submit(outcome, submission) for submission in submissions]
                limit = time.monotonic() + 30
                while opened.engine._inbox.qsize() < len(submissions):
                    assert time.monotonic() < limit
                go.set()
                first.result(30)
                return [each.result(30) for each in pending]

        return run

    def test_a_failing_submission_leaves_its_neighbours_alone(self, opened, together):
        table = opened.store.table

        def breaks_off(session):
            session.execute("INSERT INTO messages (queue, visible_at, body) VALUES ('ghost', 0, '{}')")
            raise RuntimeError("half-way")

        def bad_statement(session):
            session.execute("INSERT INTO messages (queue, visible_at, body) VALUES ('ghost', 0, '{}')")
            session.execute("INSERT INTO nowhere VALUES (1)")

        results = together(
            lambda: table.write(Put(Key("p#a", "HEAD"), {"version": 1})),
            lambda: opened.engine.write(breaks_off),
            lambda: table.write(Put(Key("p#b", "HEAD"), {"version": 1})),
            lambda: opened.engine.write(bad_statement),
            lambda: table.write(Update(Key("p#none", "HEAD"), {"a": 1}, (), conditions.unchanged(1))),
            lambda: table.transact(
                [Put(Key("p#c", "HEAD"), {"version": 1}), Put(Key("p#d", "HEAD"), {"version": 1})]
            ),
        )
        kinds = [type(result).__name__ if isinstance(result, Exception) else "" for result in results]
        assert kinds == ["", "RuntimeError", "", "StoreError", "ConditionLost", ""]
        assert opened.store.queues.depth("ghost") == 0
        assert table.batch_get([Key(f"p#{name}", "HEAD") for name in "abcd"]).keys() == {
            Key(f"p#{name}", "HEAD") for name in "abcd"
        }
        assert len(opened.feed.read()) == 4

    def test_one_commit_serves_everybody(self, opened, together):
        seen = opened.engine.changed.count
        together(*[
            lambda n=n: opened.store.table.write(Put(Key(f"p#{n}", "HEAD"), {"version": 1})) for n in range(50)
        ])  # fmt: skip
        assert opened.engine.changed.count == seen + 1
        assert len(opened.feed.read()) == 50


def test_sixteen_threads_never_find_the_database_locked(opened):
    table = opened.store.table

    def work(thread):
        for number in range(40):
            key = Key(f"p#{thread}-{number}", "HEAD")
            table.write(Put(key, {"version": 1, "g1pk": "ready", "g1sk": f"{thread}-{number}"}))
            assert table.get(key)["version"] == 1
            assert table.query(Query("ready", 1, limit=3)).items
            opened.store.queues.send("lease", [({"n": number}, 0)])
            for message in opened.store.queues.receive("lease"):
                opened.store.queues.delete("lease", [message.receipt])
            opened.feed.acknowledge(opened.feed.read(limit=5))
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))
    assert len(table.query(Query("ready", 1, limit=1000)).items) == 640


class TestFailures:
    def test_after_closing_every_call_says_that_the_store_is_gone(self, tmp_path):
        for store in (open_embedded(tmp_path, clock=Clock()), open_memory(Clock())):
            store.close()
            store.close()
            for call in (
                lambda s=store: s.store.table.get(HEAD),
                lambda s=store: s.store.table.write(Put(HEAD, {})),
                lambda s=store: s.store.queues.depth("lease"),
                lambda s=store: s.feed.read(),
            ):
                with pytest.raises(StoreError) as failed:
                    call()
                assert failed.value.code == "store_unavailable"

    def test_what_was_submitted_before_closing_is_answered(self, tmp_path):
        store = open_embedded(tmp_path, clock=Clock())
        with ThreadPoolExecutor(8) as pool:
            writes = [
                pool.submit(store.store.table.write, Put(Key(f"p#{n}", "HEAD"), {"version": 1}))
                for n in range(200)
            ]
            writes[0].result(30)
            store.close()
            answered = [write.exception(30) is None for write in writes]
        again = open_embedded(tmp_path, clock=Clock())
        found = again.store.table.batch_get([Key(f"p#{n}", "HEAD") for n in range(200)])
        assert [Key(f"p#{n}", "HEAD") in found for n in range(200)] == answered
        again.close()

    def test_a_full_disk(self, opened):
        opened.engine._connection.execute("PRAGMA max_page_count = 60")

        def fill():
            for number in range(100):
                opened.store.table.write(Put(Key(f"p#{number}", "HEAD"), {"version": 1, "x": b"x" * 10_000}))

        with pytest.raises(StoreError):
            fill()
        opened.engine._connection.execute("PRAGMA max_page_count = 10000")
        written = opened.store.table.query(Query("p#0")).items
        assert written[0]["version"] == 1
        opened.store.table.write(Put(Key("p#after", "HEAD"), {"version": 1}))

    def test_a_file_that_is_no_database_of_ours(self, tmp_path):
        (tmp_path / DATABASE).write_bytes(b"not a database, but long enough to be read as one" * 100)
        with pytest.raises(StoreError):
            open_embedded(tmp_path, clock=Clock())

    def test_a_database_of_a_later_format(self, tmp_path):
        open_embedded(tmp_path, clock=Clock()).close()
        raw = sqlite3.connect(tmp_path / DATABASE)
        raw.execute("PRAGMA user_version = 99")
        raw.close()
        with pytest.raises(StoreError, match="99"):
            open_embedded(tmp_path, clock=Clock())

    def test_a_blob_folder_that_cannot_be_written(self, tmp_path):
        store = open_embedded(tmp_path, clock=Clock())
        (tmp_path / "blobs").write_bytes(b"a file where the folder should be")
        with pytest.raises(StoreError):
            store.store.blobs.put("k", b"x")
        store.close()


def test_a_sweep_takes_what_has_expired(opened):
    now = Clock().now // 1000
    keys = [Key(f"p#idem#{number}", "CALL") for number in range(4)]
    for key, expires in zip(keys, (now - 1, now, now + 1), strict=False):
        opened.store.table.write(Put(key, {"expires": expires}))
    opened.store.table.write(Put(keys[3], {"expires": now - 5}))
    opened.store.table.write(Update(keys[3], {"kept": 1}, ("expires",)))
    assert opened.sweep() == 2
    assert opened.sweep() == 0
    assert opened.store.table.batch_get(keys).keys() == {keys[2], keys[3]}


class TestWakeUps:
    def test_a_loop_that_waits_is_woken_by_a_change(self, opened):
        signal = opened.engine.changed
        seen = signal.count
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(signal.wait, seen, 30)
            opened.store.table.write(Put(Key(HEAD.pk, "BODY"), {"a": 1}))
            assert signal.count == seen
            opened.store.table.write(Put(HEAD, {"version": 1}))
            assert waiting.result(30) == seen + 1
        opened.store.table.write(Update(HEAD, {"quiet": 1}))
        assert signal.count == seen + 1
        assert signal.wait(seen, 30) == seen + 1
        assert signal.wait(seen + 1, 0) == seen + 1

    def test_a_sent_message_rings_and_says_when_it_is_due(self, opened):
        now = Clock().now
        bells = opened.engine.queued
        seen = bells["lease"].count
        assert opened.queues.next_due("lease") is None
        opened.store.queues.send("lease", [({"n": 1}, 900), ({"n": 2}, 30)])
        assert bells["lease"].wait(seen, 30) == seen + 1
        assert bells["barrier"].count == 0, "no other queue's consumer is woken"
        assert opened.queues.next_due("lease") == now + 30_000
        opened.store.queues.send("lease", [({"n": 3}, 0)])
        assert opened.queues.next_due("lease") == now
        opened.store.queues.receive("lease", visibility=20)
        assert opened.queues.next_due("lease") == now + 20_000

    def test_the_memory_engine_rings_too(self):
        store = open_memory(Clock())
        store.store.table.write(Put(HEAD, {"version": 1}))
        store.store.queues.send("lease", [({"n": 1}, 0)])
        assert (store.engine.changed.count, store.engine.queued["lease"].count) == (1, 1)


def test_a_submission_of_the_memory_engine_runs_in_the_callers_thread():
    store = open_memory(Clock())
    assert store.engine.write(lambda session: threading.current_thread()) is threading.current_thread()
    assert store.engine.read(lambda connection: threading.current_thread()) is threading.current_thread()
