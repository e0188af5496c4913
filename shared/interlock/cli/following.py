"""The project's events as they come: the newest are asked for again and again, and each is told once.

The feed is in the order in which rows were written to it, and a row may become visible after a later one. So each round
begins ten seconds before what the last one read, and drops what was told already.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NoReturn

from interlock.cli import screen
from interlock.cli.client import RefusedError
from interlock.cli.exits import LATER, CommandError
from interlock.domain import limits

OVERLAP = 10.0
"""Seconds that are read again: a row becomes visible at most so long after the time that it is filed under."""
HISTORY = 3 * OVERLAP
"""Seconds after which a round that still reads has settled what it read first: see :meth:`Follower.round`."""
PAUSE = 1.0
"""Seconds between two rounds."""
LONGEST_PAUSE = 30.0
"""Seconds between two rounds at most while the bus does not answer; a longer Retry-After is waited for."""
LAST = 10
"""How many events are told first."""
PAGE = limits.FEED_PAGE[1]

Event = dict[str, Any]
Read = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A page of the feed for a query."""


@dataclass(slots=True)
class Follower:
    """What was read of a feed so far, and which events were told.

    It begins with the ``last`` so many events, or after the cursor ``after``. ``clock`` counts seconds and never goes
    back.
    """

    read: Read
    last: int = LAST
    after: str | None = None
    clock: Callable[[], float] = time.monotonic
    _cursors: deque[tuple[float, str]] = field(default_factory=deque)
    """When a cursor was answered, and the cursor: it stands before everything that was written later. The first one
    is where the next round begins."""
    _told: dict[tuple[str, int], float] = field(default_factory=dict)
    """(entity, seq) of what was told, and when it was read last; in this order."""
    _young_until: float = -math.inf
    """No cursor is old enough until a round has begun so late: the newest events are read again as well."""

    def round(self) -> Iterator[Event]:
        """What was not told yet. When it ends with an error the next one tells the rest.

        What it saw settles what was written ten seconds before it began, and not ten seconds before now: the bus may
        have been silent in between. A round that catches up with a long history settles what it has read behind
        itself, else it would have to be remembered and read again as a whole.
        """
        if not self._cursors:
            if self.after is None:
                yield from self._newest()
                return
            self._cursors.append((-math.inf, self.after))
        began = self.clock()
        if self._young_until > -math.inf:
            yield from self._untold(self.read({"last": PAGE}))
        query, more, first = {"after": self._cursors[0][1], "limit": PAGE}, True, math.inf
        while more:
            page = self.read(query)
            now = self.clock()
            self._cursors.append((now, page["next_cursor"]))
            yield from self._untold(page)
            first = min(first, now)
            if first <= now - HISTORY:
                self._settle(now - HISTORY)
            query, more = {**query, "after": page["next_cursor"]}, page["more"]
        if began >= self._young_until:
            self._young_until = -math.inf
        self._settle(began - OVERLAP)

    def _newest(self) -> list[Event]:
        """The last so many events. More are read, so that they are known when they are read again."""
        page = self.read({"last": PAGE})
        now = self.clock()
        self._cursors.append((now, page["next_cursor"]))
        self._young_until = now + OVERLAP
        events = list(self._untold(page))
        return events[max(0, len(events) - self.last) :]

    def _untold(self, page: Mapping[str, Any]) -> Iterator[Event]:
        now = self.clock()
        for event in page["items"]:
            key = (str(event["entity"]), int(event["seq"]))
            told = self._told.pop(key, None) is not None
            self._told[key] = now
            if not told:
                yield event

    def _settle(self, until: float) -> None:
        """What was written until then is all told: read it no more, and forget it."""
        while len(self._cursors) > 1 and self._cursors[1][0] <= until:
            self._cursors.popleft()
        # A row that hides for a moment and comes back is not told twice.
        old = self._cursors[0][0] - OVERLAP
        for key, _ in list(takewhile(lambda told: told[1] < old, self._told.items())):
            del self._told[key]


def follow(
    follower: Follower, show: Callable[[Event], object], sleep: Callable[[float], object] = time.sleep
) -> NoReturn:
    """Show what comes, for ever. A bus that does not answer or has no time is asked again; another refusal is raised."""
    pause, silent = PAUSE, False
    while True:
        try:
            for event in follower.round():
                show(event)
        except CommandError as error:
            if error.code != LATER:
                raise
            if not silent:
                screen.note(f"interlock: {screen.clean(error.detail)}; asking again")
            asked = error.retry_after if isinstance(error, RefusedError) else None
            pause, silent = max(min(2 * pause, LONGEST_PAUSE), asked or 0), True
        else:
            if silent:
                screen.note("interlock: the bus answers again")
            pause, silent = PAUSE, False
        sleep(pause)
