"""Queues in the embedded database, with SQS's rules: delays, hidden while handled, dead letters."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from interlock import config
from interlock.store import rules
from interlock.store.embedded.engine import Engine, Session
from interlock.store.ports import Message

_SECOND = 1000
_ENQUEUE = "INSERT INTO messages (queue, visible_at, body) VALUES (?, ?, ?)"
_DUE = "SELECT id, receives, body FROM messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at, id LIMIT ?"
_HIDE = "UPDATE messages SET visible_at = ?, receives = ? WHERE id = ?"
_BURY = "UPDATE messages SET queue = ?, visible_at = ?, receives = 0 WHERE id = ?"
_FORGET = "DELETE FROM messages WHERE id = ? AND receives = ? AND queue = ?"
_SHOW = "UPDATE messages SET visible_at = ? WHERE receives > 0 AND visible_at > ?"
_NEXT = "SELECT min(visible_at) FROM messages WHERE queue = ?"
_DEPTH = "SELECT count(*) FROM messages WHERE queue = ?"


def dead_letters() -> dict[str, str]:
    """The dead-letter queue of each queue that has one, by its name."""
    return {queue: f"{queue}-dead" for queue in config.QUEUES if f"{queue}-dead" in config.QUEUES}


class EmbeddedQueues:
    """Messages as rows; see :class:`interlock.store.ports.Queues`. ``clock`` tells ms since 1970."""

    def __init__(
        self, engine: Engine, clock: Callable[[], int], max_receives: int = rules.MAX_RECEIVES
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._max_receives = max_receives
        self._dead = dead_letters()

    def send(self, queue: str, messages: Iterable[tuple[Mapping[str, Any], int]]) -> None:
        """Store messages; all or none."""
        now = self._clock()
        rows: list[tuple[str, int, str]] = []
        for body, delay in messages:
            rules.check_delay(delay)
            rows.append((queue, now + delay * _SECOND, json.dumps(body, separators=(",", ":"))))

        def work(session: Session) -> None:
            for row in rows:
                session.execute(_ENQUEUE, row)
            session.queued.add(queue)

        if rows:
            self._engine.write(work)

    def receive(self, queue: str, *, limit: int = 10, visibility: int = 60) -> list[Message]:
        """Up to ``limit`` due messages, hidden for ``visibility`` seconds; looks without writing first."""
        now = self._clock()
        limit = max(1, min(limit, rules.MAX_BATCH))
        due = self.next_due(queue)
        if due is None or due > now:
            return []

        def work(session: Session) -> list[Message]:
            received: list[Message] = []
            while len(received) < limit:
                rows = session.execute(_DUE, (queue, now, limit - len(received))).fetchall()
                if not rows:
                    break
                for number, receives, body in rows:
                    if queue in self._dead and receives >= self._max_receives:
                        session.execute(_BURY, (self._dead[queue], now, number))
                        session.queued.add(self._dead[queue])
                        continue
                    session.execute(_HIDE, (now + max(visibility * _SECOND, 1), receives + 1, number))
                    received.append(
                        Message(str(number), json.loads(body), f"{number}.{receives + 1}", receives + 1)
                    )
            return received

        return self._engine.write(work)

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        """Forget messages. A receipt counts until its message is received again."""
        pairs = [receipt.partition(".") for receipt in receipts]

        def work(session: Session) -> None:
            for number, _, receives in pairs:
                session.execute(_FORGET, (int(number), int(receives), queue))

        if pairs:
            self._engine.write(work)

    def show_hidden(self) -> None:
        """Let every message that was received and not deleted come again at once: whoever received it is gone."""
        now = self._clock()

        def work(session: Session) -> None:
            session.execute(_SHOW, (now, now))

        self._engine.write(work)

    def depth(self, queue: str) -> int:
        """How many messages the queue holds, delayed and hidden ones included."""
        return self._number(_DEPTH, queue) or 0

    def next_due(self, queue: str) -> int | None:
        """When the next message becomes (or became) visible, in ms since 1970; None when the queue is empty."""
        return self._number(_NEXT, queue)

    def _number(self, statement: str, queue: str) -> int | None:
        def read(connection: sqlite3.Connection) -> int | None:
            number: int | None = connection.execute(statement, (queue,)).fetchone()[0]
            return number

        return self._engine.read(read)
