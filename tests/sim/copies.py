"""Copies of a world's memory: a prepared bus, run again and again, and an index that lags behind its table."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.sim.world import Clock, World

from interlock.app.call import Bus
from interlock.store.embedded import open_memory
from interlock.store.ports import Page, Query, Store


class Template:
    """A prepared world, of which copies are cheap."""

    def __init__(self, prepared: World, seed: int = 0) -> None:
        self._world, self._seed = prepared, seed

    def copy(self, wrap: Callable[[Store], Store] = lambda store: store) -> World:
        """A world of its own with the same content, time and credentials."""
        old = self._world
        clock, rng = Clock(old.clock.now), random.Random(f"copy {self._seed}")
        engine = open_memory(clock)
        copy_database(old.engine, engine)
        copy_blobs(old.engine, engine)
        bus = Bus(wrap(engine.store), clock, rng.randbytes, lambda _seconds: None)
        return World(bus, clock, engine, old.owner, old.agent, dict(old.agents))


def copy_database(source: Any, target: Any) -> None:
    """Make one memory engine's content the other's."""
    source.engine._connection.backup(target.engine._connection)


def copy_blobs(source: Any, target: Any) -> None:
    """Make one memory engine's payloads and uploads the other's."""
    for name in ("_blobs", "_uploads", "_until"):
        getattr(target.blobs, name).update(getattr(source.blobs, name))


def all_blobs(engine: Any) -> dict[str, bytes]:
    """Every blob by its key, uploads among them."""
    return {**engine.blobs._blobs, **engine.blobs._uploads}


class Replica:
    """The indexes as they were a while ago: each query may bring them up to date, or not."""

    def __init__(self, engine: Any, rng: random.Random, clock: Callable[[], int]) -> None:
        self._engine, self._rng = engine, rng
        self._stale = open_memory(clock)
        self.lags = True
        self.refresh()

    def refresh(self) -> None:
        """Catch up."""
        copy_database(self._engine, self._stale)

    def query(self, query: Query) -> Page:
        """A page of an index."""
        if not self.lags or self._rng.random() < 0.5:
            self.refresh()
        return self._stale.store.table.query(query)
