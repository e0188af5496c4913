"""A bell that loops wait for instead of polling."""

from __future__ import annotations

import threading


class Signal:
    """Counts events. A loop reads :attr:`count`, looks for work, then waits until the count has moved on:
    an event between looking and waiting is never missed."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """Events so far."""
        return self._count

    def ring(self) -> None:
        """Count an event and wake everybody who waits."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(self, seen: int, timeout: float | None = None) -> int:
        """Wait until the count differs from ``seen`` or ``timeout`` seconds have passed; answers the count."""
        with self._condition:
            self._condition.wait_for(lambda: self._count != seen, timeout)
            return self._count
