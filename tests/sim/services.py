"""The dispatcher and the consumers as they are served: real events, real handlers, real loops."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from tests.sim.world import World

from interlock.edges import runtime
from interlock.edges.batch import queue_handler, stream_handler
from interlock.local.loops import Consume, Dispatch, StalledError
from interlock.local.template import QueueSource, StreamSource

_FUNCTION: Any = SimpleNamespace(name="test", timeout=60, memory=256)
VISIBILITY = 60


_dispatcher = cache(stream_handler)
_consumer = cache(queue_handler)


def serve_changes(w: World) -> bool:
    """One batch of the change feed through the dispatcher; False when there was none or nothing got through."""
    runtime.use(w.bus)
    source = StreamSource(_FUNCTION, 10, partial=True)
    try:
        return Dispatch(w.engine.feed, source, _dispatcher(), lambda: None, w.clock)()
    except StalledError:
        return False


def serve_messages(w: World, queue: str = "lease") -> bool:
    """One batch of a queue through its consumer; False when there was none."""
    runtime.use(w.bus)
    source = QueueSource(
        queue,
        _FUNCTION,
        batch=10,
        visibility=VISIBILITY,
        partial=True,
        max_receives=5,
        dead_letters=f"{queue}-dead",
    )
    return Consume(w.bus.store.queues, source, _consumer(queue), lambda: None, w.clock)()
