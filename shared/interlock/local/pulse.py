"""Sleep: a laptop that slept, or a bus that was down, must not cost the agents their leases.

The bus notes every ten seconds that it lives. When it finds that more than thirty seconds passed since the last
note, nobody could renew anything meanwhile: before anything else is handled, live leases are moved on, without
counting an attempt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from interlock.app.call import Bus
from interlock.app.timers import bus_resumed
from interlock.store import keys
from interlock.store.ports import Key, Put

log = logging.getLogger("interlock.pulse")

BEAT = 10_000
"""Milliseconds between two notes."""
GAP = 30_000
"""Milliseconds without a note after which the bus is taken to have slept."""
NOTE = Key(keys.partition(keys.INSTALLATION, "bus", "pulse"), "PULSE")
"""Where the note is. It is no head, so it makes no ledger row."""


class Pulse:
    """Watches for gaps. ``resumed(bus, gap)`` moves the leases by the gap (in ms) and a beat, and answers how many."""

    def __init__(self, bus: Bus, resumed: Callable[[Bus, int], int] = bus_resumed) -> None:
        self._bus = bus
        self._resumed = resumed
        self._lock = threading.Lock()
        note = bus.store.table.get(NOTE)
        self._last = int(note["at"]) if note else bus.clock()

    def check(self) -> None:
        """To be called before anything is handled: waits until leases were moved when there was a gap."""
        if self._bus.clock() - self._last > GAP:
            self._wake()

    def beat(self) -> None:
        """Note that the bus lives; to be called every BEAT."""
        self.check()
        with self._lock:
            self._note(self._bus.clock())

    def _wake(self) -> None:
        with self._lock:
            now = self._bus.clock()
            gap = now - self._last
            if gap <= GAP:
                return
            moved = self._resumed(self._bus, gap)
            self._note(now)
            log.warning("the bus was away for %d s; %d leases were moved on", gap // 1000, moved)

    def _note(self, now: int) -> None:
        self._bus.store.table.write(Put(NOTE, {"pk": NOTE.pk, "sk": NOTE.sk, "at": now}))
        self._last = now
