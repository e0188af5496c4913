"""What handles a message of each queue. Every delivery of a message may be the first, a twin, late, or after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.app import barrier, plans, routing, timers
from interlock.app.call import Bus

Consumer = Callable[[Bus, Mapping[str, Any], int], None]
"""(bus, the message's body, how often it was received, from 1)."""


def _barrier(bus: Bus, body: Mapping[str, Any], receives: int) -> None:  # noqa: ARG001  every delivery is the same
    match body["kind"]:
        case "spread":
            barrier.spread(bus, body["project"], body["job"], body.get("after"))
        case "gather":
            barrier.gather(bus, body["project"], body["job"])
        case "plan":
            plans.make_real(bus, body["project"], body["plan"])
        case kind:
            raise ValueError(f"unknown message {kind!r}")


CONSUMERS: Mapping[str, Consumer] = {
    timers.QUEUE: timers.handle,
    barrier.QUEUE: _barrier,
    routing.QUEUE: routing.handle,
}
