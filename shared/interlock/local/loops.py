"""What AWS does between services: the change feed to the dispatcher, queues to their consumers, schedules.

Each loop is a thread that does one step after the other: fetch a batch, call the real handler with the event that
AWS would send, honour the partial failures it reports. A loop waits for the store's signals where it has them and
polls once a second where not; it survives every failure of a handler or of the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from interlock.local.events import LambdaContext, new_request_id, sqs_event, stream_event
from interlock.local.template import Handler, QueueSource, Schedule, StreamSource
from interlock.store.ports import Change, Feed, Queues

log = logging.getLogger("interlock.loops")

DISPATCH_BATCH = 100
"""Changes of one event at most. More than on AWS: here a batch costs commits, not an invocation."""
POLL_SECONDS = 1.0
NAP_SECONDS = 15.0
"""The longest wait for a due time: a laptop's sleep stops the timer of a wait, but not the clock."""
BACK_OFF_SECONDS = (0.1, 5.0)


class Idle(Protocol):
    """How a loop waits for work."""

    def mark(self) -> int:
        """Where the loop stands; taken before it looks for work."""

    def wait(self, mark: int) -> None:
        """Return when there may be work that was not there at ``mark``."""

    def wake(self) -> None:
        """End a wait at once."""


class Signal(Protocol):
    """The store's bell: it counts what happened."""

    @property
    def count(self) -> int:
        """Events so far."""

    def ring(self) -> None:
        """Count an event, wake everybody who waits."""

    def wait(self, seen: int, timeout: float | None = None) -> int:
        """Wait until the count differs from ``seen``, or for ``timeout`` seconds."""


class OnSignal:
    """Waits for the store's signal, or for the next due time (``due`` and ``clock`` in ms since 1970)."""

    def __init__(self, signal: Signal, due: Callable[[], int | None], clock: Callable[[], int]) -> None:
        self._signal = signal
        self._due = due
        self._clock = clock

    def mark(self) -> int:
        """The signal's count."""
        return self._signal.count

    def wait(self, mark: int) -> None:
        """Until the signal rings or something is due."""
        due = self._due()
        if due is None:
            self._signal.wait(mark)
        elif (rest := (due - self._clock()) / 1000) > 0:
            self._signal.wait(mark, min(rest, NAP_SECONDS))

    def wake(self) -> None:
        """Ring."""
        self._signal.ring()


class Every:
    """Waits a fixed time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._woken = threading.Event()

    def mark(self) -> int:
        """Nothing is counted."""
        return 0

    def wait(self, mark: int) -> None:  # noqa: ARG002  part of Idle
        """For the time, or until woken."""
        self._woken.wait(self._seconds)

    def wake(self) -> None:
        """End this wait and all later ones."""
        self._woken.set()


class Loop:
    """A thread that repeats a step: ``step`` answers whether there was work, and raises to be tried again later."""

    def __init__(self, name: str, step: Callable[[], bool], idle: Idle) -> None:
        self.name = name
        self._step = step
        self._idle = idle
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"interlock-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Let the step that runs finish and begin no other."""
        self._stopping.set()
        self._idle.wake()

    def join(self, timeout: float) -> None:
        """Wait for the end, at most ``timeout`` seconds."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        first, longest = BACK_OFF_SECONDS
        pause = first
        while not self._stopping.is_set():
            mark = self._idle.mark()
            try:
                worked = self._step()
            except Exception:
                log.exception("%s failed; next try in %.1f s", self.name, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, longest)
                continue
            pause = first
            if not worked and not self._stopping.is_set():
                self._idle.wait(mark)


class StalledError(Exception):
    """A handler reported that it could not handle what stands first; the same is tried again."""


class Dispatch:
    """One step of the change feed: like Lambda, it goes on behind the oldest record that failed.

    After a failure the next batches are halved, so that one bad record does not hold up those before it.
    """

    def __init__(
        self,
        feed: Feed,
        source: StreamSource,
        handler: Handler,
        before: Callable[[], None],
        clock: Callable[[], int],
    ) -> None:
        self._feed = feed
        self._clock = clock
        self._function = source.function
        self._partial = source.partial
        self._handler = handler
        self._before = before
        self._limit = DISPATCH_BATCH

    def __call__(self) -> bool:
        """Dispatch a batch; False when there is none."""
        self._before()
        changes = self._feed.read(limit=self._limit)
        if not changes:
            return False
        try:
            event = stream_event(changes, self._clock())
            answer = self._handler(event, LambdaContext(self._function, new_request_id()))
        except Exception:
            self._limit = max(1, len(changes) // 2)
            raise
        handled = _before_first_failure(changes, answer) if self._partial else list(changes)
        self._feed.acknowledge(handled)
        if len(handled) < len(changes):
            self._limit = max(1, len(changes) // 2)
            if not handled:
                raise StalledError(f"change {changes[0].position} of {changes[0].key.pk} was not dispatched")
        else:
            self._limit = min(self._limit * 2, DISPATCH_BATCH)
        return True


class Consume:
    """One step of a queue: messages that the handler does not name as failed are deleted, the others come again.

    The store counts deliveries and moves a message to the dead letters, as SQS does.
    """

    def __init__(
        self,
        queues: Queues,
        source: QueueSource,
        handler: Handler,
        before: Callable[[], None],
        clock: Callable[[], int],
    ) -> None:
        self._queues = queues
        self._source = source
        self._handler = handler
        self._before = before
        self._clock = clock

    def __call__(self) -> bool:
        """Consume a batch; False when there is none."""
        self._before()
        source = self._source
        messages = self._queues.receive(source.queue, limit=source.batch, visibility=source.visibility)
        if not messages:
            return False
        event = sqs_event(source.queue, messages, self._clock())
        answer = self._handler(event, LambdaContext(source.function, new_request_id()))
        failed = _failures(answer) if source.partial else frozenset()
        if failed:
            log.warning("%d of %d messages of %s will come again", len(failed), len(messages), source.queue)
        self._queues.delete(source.queue, [m.receipt for m in messages if m.id not in failed])
        return True


class Fire:
    """One step of a schedule: calls its function, once per wait."""

    def __init__(self, schedule: Schedule, handler: Handler, before: Callable[[], None]) -> None:
        self._schedule = schedule
        self._handler = handler
        self._before = before
        self._begun = False

    def __call__(self) -> bool:
        """Call the function, except at the start: AWS waits for the first period to pass too."""
        if self._begun:
            self._before()
            event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
            self._handler(event, LambdaContext(self._schedule.function, new_request_id()))
        self._begun = True
        return False


def _failures(answer: Any) -> frozenset[str]:
    """The identifiers that a partial batch answer names."""
    named = (answer or {}).get("batchItemFailures") or ()
    return frozenset(str(item["itemIdentifier"]) for item in named)


def _before_first_failure(changes: Sequence[Change], answer: Any) -> list[Change]:
    failed = _failures(answer)
    for index, change in enumerate(changes):
        if change.position in failed:
            return list(changes[:index])
    if failed:  # as Lambda does when it knows none of the names: all of them come again
        return []
    return list(changes)
