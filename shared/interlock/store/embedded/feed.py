"""The change log of the embedded database: what DynamoDB Streams is on AWS."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.store.embedded.engine import Engine, Session
from interlock.store.embedded.rows import decode
from interlock.store.ports import Change, Key

_OLDEST = (
    "SELECT position, pk, sk, new_data, new_raw, old_data, old_raw FROM changes ORDER BY position LIMIT ?"
)
_FORGET = "DELETE FROM changes WHERE position = ?"


class EmbeddedFeed:
    """Changes in the order of their commits; see :class:`interlock.store.ports.Feed`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, *, limit: int = 100) -> list[Change]:
        """The oldest changes that were not acknowledged."""
        rows = self._engine.read(lambda connection: connection.execute(_OLDEST, (limit,)).fetchall())
        return [
            Change(
                str(position),
                Key(pk, sk),
                decode(pk, sk, new_data, new_raw),
                None if old_data is None else decode(pk, sk, old_data, old_raw),
            )
            for position, pk, sk, new_data, new_raw, old_data, old_raw in rows
        ]

    def acknowledge(self, changes: Sequence[Change]) -> None:
        """Forget changes that were handled."""
        positions = [(int(change.position),) for change in changes]

        def work(session: Session) -> None:
            for position in positions:
                session.execute(_FORGET, position)

        if positions:
            self._engine.write(work)
