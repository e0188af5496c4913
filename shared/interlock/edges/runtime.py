"""The process's bus: made from the environment on first use, or given by whoever runs the handlers locally."""

from __future__ import annotations

import os
import time

from interlock import config
from interlock.app.call import Bus

_bus: Bus | None = None


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def use(bus: Bus | None) -> None:
    """Serve from this bus (local runs and tests); None forgets it."""
    global _bus  # noqa: PLW0603  one process serves one bus, as one Lambda function does
    _bus = bus


def bus() -> Bus:
    """The bus of this process."""
    if _bus is None:
        from interlock.store.aws import open_aws

        use(Bus(open_aws(config.load()), wall_clock, os.urandom, time.sleep))
    assert _bus is not None
    return _bus
