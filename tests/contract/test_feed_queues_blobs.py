"""The change feed, queues and blobs mean the same on every engine."""

from __future__ import annotations

import pytest

from interlock.store import conditions
from interlock.store.ports import Delete, Key, Put, Update

HEAD = Key("p#job#1", "HEAD")
OTHER = Key("p#job#2", "HEAD")


def drain(feed):
    """Every change that waits, acknowledged."""
    found = []
    while changes := feed.read(limit=3):
        assert len(changes) <= 3
        found += changes
        feed.acknowledge(changes)
    return found


class TestFeed:
    def test_only_moves_of_a_heads_version(self, engine):
        write = engine.table.write
        write(Put(HEAD, {"version": 1, "digest": b"\x00\xff", "events": [{"seq": 1, "data": b"x"}]}))
        write(Put(Key(HEAD.pk, "BODY"), {"version": 1}))
        write(Update(HEAD, {"lease_until": 5, "quiet": 1}))
        write(Update(HEAD, {"version": 2}, ("quiet",), conditions.unchanged(1)))
        write(Update(Key(HEAD.pk, "BODY"), {"version": 2}))
        write(Delete(Key(HEAD.pk, "BODY")))
        first, second = drain(engine.feed)
        assert (first.key, first.old) == (HEAD, None)
        assert first.new == {
            "pk": HEAD.pk,
            "sk": HEAD.sk,
            "version": 1,
            "digest": b"\x00\xff",
            "events": [{"seq": 1, "data": b"x"}],
        }
        assert second.old == {**first.new, "lease_until": 5, "quiet": 1}
        assert second.new == {**first.new, "lease_until": 5, "version": 2}
        assert first.position != second.position

    def test_order_per_item(self, engine):
        for version in range(1, 8):
            for key in (HEAD, OTHER):
                if version == 1:
                    engine.table.write(Put(key, {"version": version}))
                else:
                    engine.table.transact(
                        [Update(key, {"version": version}, (), conditions.unchanged(version - 1))]
                    )
        changes = drain(engine.feed)
        for key in (HEAD, OTHER):
            assert [change.new["version"] for change in changes if change.key == key] == list(range(1, 8))

    def test_a_change_comes_again_until_it_is_acknowledged(self, engine):
        for version in (1, 2, 3):
            engine.table.write(Put(HEAD, {"version": version}))
        changes = engine.feed.read(limit=10)
        assert [change.new["version"] for change in changes] == [1, 2, 3]
        assert engine.feed.read(limit=10) == changes
        engine.feed.acknowledge(changes[1:2])
        assert engine.feed.read(limit=10) == [changes[0], changes[2]]
        assert engine.feed.read(limit=1) == changes[:1]
        engine.feed.acknowledge(changes)
        assert engine.feed.read() == []
        engine.feed.acknowledge([])
        engine.table.write(Update(HEAD, {"version": 4}))
        assert [change.new["version"] for change in engine.feed.read()] == [4]


def receive(engine, queue="lease", **options):
    """Messages by their number, once the queue answers."""
    return {message.body["n"]: message for message in engine.queues.receive(queue, **options)}


class TestQueues:
    def test_sent_received_deleted(self, engine):
        queues = engine.queues
        assert queues.receive("lease") == []
        queues.send("lease", [({"n": 1, "text": 'zażółć \U0001f600 "quoted"', "deep": {"a": [1, None]}}, 0)])
        assert queues.depth("lease") == 1
        assert queues.receive("lease-dead") == []
        (message,) = queues.receive("lease", visibility=2)
        assert message.body == {"n": 1, "text": 'zażółć \U0001f600 "quoted"', "deep": {"a": [1, None]}}
        assert message.receives == 1
        assert queues.depth("lease") == 1
        queues.delete("lease", [message.receipt])
        assert queues.depth("lease") == 0
        engine.advance(3)
        assert queues.receive("lease") == []

    def test_many_messages_and_limits(self, engine):
        engine.queues.send("lease", [({"n": number}, 0) for number in range(25)])
        engine.queues.send("lease", [])
        assert engine.queues.depth("lease") == 25
        seen = receive(engine, limit=3)
        assert len(seen) == 3
        for _ in range(10):
            batch = receive(engine)
            assert len(batch) <= 10
            assert not batch.keys() & seen.keys()
            seen |= batch
        assert seen.keys() == set(range(25))
        assert len({message.id for message in seen.values()}) == 25
        engine.queues.delete("lease", [message.receipt for message in seen.values()])
        assert engine.queues.depth("lease") == 0

    def test_a_delayed_message_is_hidden_until_it_is_due(self, engine):
        engine.queues.send("lease", [({"n": 1}, 2), ({"n": 2}, 0), ({"n": 3}, 900)])
        assert engine.queues.depth("lease") == 3
        assert receive(engine).keys() == {2}
        engine.advance(2)
        assert receive(engine).keys() == {1}

    def test_a_message_that_is_not_deleted_comes_again(self, engine):
        engine.queues.send("lease", [({"n": 1}, 0)])
        first = receive(engine, visibility=2)[1]
        assert receive(engine) == {}
        engine.advance(3)
        second = receive(engine, visibility=60)[1]
        assert (first.receives, second.receives) == (1, 2)
        assert first.id == second.id
        engine.queues.delete("lease", [second.receipt])
        engine.advance(1)
        assert engine.queues.depth("lease") == 0

    @pytest.mark.parametrize("queue", ["lease"])
    def test_a_message_that_nobody_can_handle_goes_to_the_dead_letters(self, engine, queue):
        engine.queues.send(queue, [({"n": 1}, 0)])
        for number in range(1, 6):
            assert receive(engine, queue, visibility=1)[1].receives == number
            engine.advance(2)
        assert receive(engine, queue) == {}
        assert engine.queues.depth(queue) == 0
        assert engine.queues.depth(f"{queue}-dead") == 1
        dead = receive(engine, f"{queue}-dead", visibility=1)[1]
        engine.queues.delete(f"{queue}-dead", [dead.receipt])
        assert engine.queues.depth(f"{queue}-dead") == 0

    def test_dead_letters_stay_where_they_are(self, engine):
        engine.queues.send("dispatch-dead", [({"n": 1}, 0)])
        for _ in range(6):
            assert receive(engine, "dispatch-dead", visibility=1).keys() == {1}
            engine.advance(2)

    @pytest.mark.parametrize("delay", [-1, 901])
    def test_a_delay_has_limits(self, engine, delay):
        with pytest.raises(ValueError, match="900"):
            engine.queues.send("lease", [({"n": 1}, 0), ({"n": 2}, delay)])
        assert engine.queues.depth("lease") == 0


class TestBlobs:
    def test_bytes_by_key(self, engine):
        blobs = engine.blobs
        data = bytes(range(256)) * 1000
        assert blobs.get("p/ctx/none") is None
        for key in ("p/ctx/abc", "../up", "p/ctx/Abc", "p//ü \U0001f600", "x" * 600):
            blobs.put(key, data + key.encode())
            blobs.put(key, data + key.encode())
        assert blobs.get("p/ctx/abc") == data + b"p/ctx/abc"
        assert blobs.get("p/ctx/Abc") == data + b"p/ctx/Abc"
        assert blobs.get("../up") == data + b"../up"
        assert blobs.get("p//ü \U0001f600") == data + "p//ü \U0001f600".encode()
        blobs.put("nothing", b"")
        assert blobs.get("nothing") == b""
