"""The loops between the store and the handlers."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.local.events import stream_event
from interlock.local.loops import (
    DISPATCH_BATCH,
    Consume,
    Dispatch,
    Every,
    Fire,
    Loop,
    OnSignal,
    StalledError,
)
from interlock.local.template import Function, QueueSource, Schedule, StreamSource
from interlock.store.aws.wire import from_wire
from interlock.store.embedded import EmbeddedStore, open_memory
from interlock.store.ports import Change, Key, Put

FUNCTION = Function("F", Path("f.py"), "handler", 20, 256)
STREAM = StreamSource(FUNCTION, 10, partial=True)
QUEUE = QueueSource("lease", FUNCTION, 10, 60, 5, "lease-dead", partial=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[EmbeddedStore]:
    opened = open_memory(clock)
    yield opened
    opened.close()


def nothing() -> None:
    pass


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def heads(store: EmbeddedStore, count: int) -> None:
    for number in range(count):
        key = Key(f"p#job#{number}", "HEAD")
        store.store.table.write(Put(key, {"pk": key.pk, "sk": key.sk, "version": 1, "events": b"\x00"}))


def dispatch(store: EmbeddedStore, clock: Clock, handler: Callable[[Any, Any], Any]) -> Dispatch:
    return Dispatch(store.feed, STREAM, handler, nothing, clock)


def sequence_numbers(event: Any) -> list[str]:
    return [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]


def test_a_stream_event_is_dynamodb_s() -> None:
    key = Key("p#job#1", "HEAD")
    new = {"pk": key.pk, "sk": key.sk, "version": 2, "on": True, "raw": b"\xff", "list": [b"\x00", {"a": 1}]}
    old = {**new, "version": 1}
    event = stream_event([Change("7", key, new, old), Change("8", key, new)], 1_790_000_000_123)
    changed, inserted = json.loads(json.dumps(event))["Records"]
    assert (changed["eventName"], inserted["eventName"]) == ("MODIFY", "INSERT")
    stream = changed["dynamodb"]
    assert stream["Keys"] == {"pk": {"S": "p#job#1"}, "sk": {"S": "HEAD"}}
    assert stream["NewImage"]["version"] == {"N": "2"}
    assert stream["NewImage"]["raw"] == {"B": base64.b64encode(b"\xff").decode()}
    assert (stream["SequenceNumber"], stream["StreamViewType"]) == ("7", "NEW_AND_OLD_IMAGES")
    assert "OldImage" not in inserted["dynamodb"]
    assert (from_wire(stream["NewImage"]), from_wire(stream["OldImage"])) == (new, old)


def test_changes_are_dispatched_once_and_in_order(store: EmbeddedStore, clock: Clock) -> None:
    heads(store, DISPATCH_BATCH + 5)
    seen: list[str] = []

    def handler(event: Any, _: Any) -> Any:
        seen.extend(record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"])
        return {"batchItemFailures": []}

    step = dispatch(store, clock, handler)
    assert step()
    assert len(seen) == DISPATCH_BATCH
    assert step()
    assert not step()
    assert seen == [f"p#job#{number}" for number in range(DISPATCH_BATCH + 5)]


def test_dispatch_goes_on_behind_the_oldest_failure(store: EmbeddedStore, clock: Clock) -> None:
    heads(store, 8)
    bad = {"5"}
    batches: list[list[str]] = []

    def handler(event: Any, _: Any) -> Any:
        numbers = sequence_numbers(event)
        batches.append(numbers)
        return {"batchItemFailures": [{"itemIdentifier": n} for n in numbers if n in bad]}

    step = dispatch(store, clock, handler)
    assert step()
    with pytest.raises(StalledError, match="change 5"):
        step()
    assert batches == [list("12345678"), list("5678")]
    bad.clear()
    while step():
        pass
    assert store.feed.read() == []
    assert [n for batch in batches[2:] for n in batch] == list("5678")


def test_a_handler_that_crashes_gets_smaller_batches(store: EmbeddedStore, clock: Clock) -> None:
    heads(store, 8)
    sizes: list[int] = []

    def handler(event: Any, _: Any) -> Any:
        numbers = sequence_numbers(event)
        sizes.append(len(numbers))
        if "4" in numbers:
            raise RuntimeError("poison")
        return None

    step = dispatch(store, clock, handler)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            step()
    assert step()  # 1 and 2
    while sizes[-1] > 1 or store.feed.read()[0].position != "4":
        try:
            step()
        except RuntimeError:
            continue
    assert [change.position for change in store.feed.read()] == list("45678")


def test_unknown_names_mean_that_all_failed(store: EmbeddedStore, clock: Clock) -> None:
    heads(store, 2)
    step = dispatch(store, clock, lambda *_: {"batchItemFailures": [{"itemIdentifier": "x"}]})
    with pytest.raises(StalledError):
        step()
    assert len(store.feed.read()) == 2


def test_without_partial_failures_an_answer_means_success(store: EmbeddedStore, clock: Clock) -> None:
    heads(store, 2)
    whole = StreamSource(FUNCTION, 10, partial=False)
    answer = {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert Dispatch(store.feed, whole, lambda *_: answer, nothing, clock)()
    assert store.feed.read() == []


def consume(store: EmbeddedStore, clock: Clock, handler: Callable[[Any, Any], Any]) -> Consume:
    return Consume(store.queues, QUEUE, handler, nothing, clock)


def test_messages_are_consumed_when_they_are_due(store: EmbeddedStore, clock: Clock) -> None:
    bodies: list[Any] = []

    def handler(event: Any, context: Any) -> Any:
        assert context.function_name == "F"
        bodies.extend(json.loads(record["body"]) for record in event["Records"])
        return {"batchItemFailures": []}

    step = consume(store, clock, handler)
    assert not step()
    store.queues.send("lease", [({"n": 1}, 0), ({"n": 2}, 30)])
    assert step()
    assert not step()
    clock.now += 30_000
    assert step()
    assert bodies == [{"n": 1}, {"n": 2}]
    assert store.queues.depth("lease") == 0


def test_failed_messages_come_again_and_end_as_dead_letters(store: EmbeddedStore, clock: Clock) -> None:
    receives: dict[int, list[str]] = {1: [], 2: []}

    def handler(event: Any, _: Any) -> Any:
        failures = []
        for record in event["Records"]:
            number = json.loads(record["body"])["n"]
            receives[number].append(record["attributes"]["ApproximateReceiveCount"])
            if number == 2:
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    step = consume(store, clock, handler)
    store.queues.send("lease", [({"n": 1}, 0), ({"n": 2}, 0)])
    while store.queues.depth("lease"):
        step()
        clock.now += QUEUE.visibility * 1000
    assert receives == {1: ["1"], 2: ["1", "2", "3", "4", "5"]}
    assert store.queues.depth("lease-dead") == 1


def test_a_consumer_that_crashes_keeps_the_whole_batch(store: EmbeddedStore, clock: Clock) -> None:
    def handler(*_: Any) -> Any:
        raise RuntimeError("no")

    store.queues.send("lease", [({}, 0), ({}, 0)])
    with pytest.raises(RuntimeError):
        consume(store, clock, handler)()
    assert store.queues.depth("lease") == 2


def test_before_runs_ahead_of_each_batch(store: EmbeddedStore, clock: Clock) -> None:
    order: list[str] = []
    heads(store, 1)
    store.queues.send("lease", [({}, 0)])
    Dispatch(store.feed, STREAM, lambda *_: order.append("dispatch"), lambda: order.append("before"), clock)()
    Consume(store.queues, QUEUE, lambda *_: order.append("consume"), lambda: order.append("before"), clock)()
    assert order == ["before", "dispatch", "before", "consume"]


def test_a_loop_wakes_for_what_happens_and_for_what_is_due(store: EmbeddedStore, clock: Clock) -> None:
    handled: list[Any] = []

    def handler(event: Any, _: Any) -> None:
        handled.extend(record["body"] for record in event["Records"])

    idle = OnSignal(store.engine.queued["lease"], lambda: store.queues.next_due("lease"), clock)
    loop = Loop("queue-lease", consume(store, clock, handler), idle)
    loop.start()
    store.queues.send("lease", [({"n": 1}, 0)])
    eventually(lambda: len(handled) == 1)
    store.queues.send("lease", [({"n": 2}, 900)])
    clock.now += 900_000
    store.engine.queued["lease"].ring()
    eventually(lambda: len(handled) == 2)
    loop.stop()
    loop.join(20)
    store.queues.send("lease", [({"n": 3}, 0)])
    assert store.queues.depth("lease") == 1


def test_an_idle_loop_does_not_look_again_and_again(store: EmbeddedStore, clock: Clock) -> None:
    steps: list[int] = []
    idle = OnSignal(store.engine.changed, lambda: None, clock)
    loop = Loop("dispatcher", lambda: bool(steps.append(1)), idle)
    loop.start()
    eventually(lambda: len(steps) == 1)
    before = len(steps)
    heads(store, 1)
    eventually(lambda: len(steps) == 2)
    loop.stop()
    loop.join(20)
    assert before == 1
    assert len(steps) == 2


def test_a_loop_survives_and_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []
    done = threading.Event()

    def step() -> bool:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        done.set()
        return False

    loop = Loop("shaky", step, Every(60))
    loop.start()
    assert done.wait(20)
    loop.stop()
    loop.join(20)
    assert [record.getMessage() for record in caplog.records] == [
        "shaky failed; next try in 0.1 s",
        "shaky failed; next try in 0.2 s",
    ]


def test_a_schedule_fires_after_each_period_and_not_at_the_start() -> None:
    fired: list[Any] = []
    fire = Fire(Schedule(FUNCTION, 60), lambda event, _: fired.append(event), nothing)
    assert not fire()
    assert fired == []
    assert not fire()
    assert len(fired) == 1
