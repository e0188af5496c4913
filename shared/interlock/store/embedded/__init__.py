"""The engine without a server: one SQLite database and a folder. Durable, atomic, one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.store.embedded.blobs import FolderBlobs, MemoryBlobs
from interlock.store.embedded.engine import Engine, FileEngine, MemoryEngine
from interlock.store.embedded.feed import EmbeddedFeed
from interlock.store.embedded.queue import EmbeddedQueues
from interlock.store.embedded.table import EmbeddedTable
from interlock.store.embedded.uploads import Served
from interlock.store.ports import Store

DATABASE = "bus.db"
BLOBS = "blobs"

__all__ = ["EmbeddedStore", "open_embedded", "open_memory"]


@dataclass(frozen=True, slots=True)
class EmbeddedStore:
    """An open store: the ports, the change feed, and what local loops wait for.

    ``engine.changed`` and ``engine.queued[queue]`` ring after commits; ``queues.next_due`` tells when to look again.
    """

    store: Store
    feed: EmbeddedFeed
    table: EmbeddedTable
    queues: EmbeddedQueues
    engine: Engine
    blobs: Served
    clock: Callable[[], int]

    def sweep(self) -> int:
        """Delete items whose ``expires`` has passed (≤ 1000), and uploads that nobody verified; answers how many.

        AWS does both by itself.
        """
        return self.table.sweep(self.clock() // 1000) + self.blobs.sweep()

    def close(self) -> None:
        """Finish what was submitted and let go of the files."""
        self.engine.close()


def open_embedded(folder: Path, *, clock: Callable[[], int]) -> EmbeddedStore:
    """Open (or make) the store in a folder. Only one process may do so at a time. Raises StoreError.

    ``clock`` tells ms since 1970; delays and hidden messages follow it. What an earlier process received and did not
    delete, because it was killed, comes again at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    blobs = FolderBlobs(folder / BLOBS, clock)
    opened = _assemble(FileEngine(folder / DATABASE), blobs, clock)
    blobs.begin()
    opened.queues.show_hidden()
    return opened


def open_memory(clock: Callable[[], int]) -> EmbeddedStore:
    """A store that ends with the process and has no threads: each call is one step in the caller's thread."""
    return _assemble(MemoryEngine(), MemoryBlobs(clock), clock)


def _assemble(engine: Engine, blobs: FolderBlobs | MemoryBlobs, clock: Callable[[], int]) -> EmbeddedStore:
    table, queues = EmbeddedTable(engine), EmbeddedQueues(engine, clock)
    store = Store(table, queues, blobs)
    return EmbeddedStore(store, EmbeddedFeed(engine), table, queues, engine, blobs, clock)
