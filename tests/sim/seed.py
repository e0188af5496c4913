"""A large board, quickly: the same items that the use cases write, in large batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from interlock.app import dispatch, write
from interlock.app.call import Bus
from interlock.domain import ids, moves
from interlock.domain.identity import Actor
from interlock.domain.job import Job
from interlock.domain.ledger import Fact
from interlock.store import items, keys
from interlock.store.ports import Item, Put, Store, Update

BATCH = 2_000
ACTOR = Actor("agent", "agt_seed", "seed")


class _Buffer:
    """A table that only collects; `write.create` and `write.change` write whole heads through it."""

    def __init__(self) -> None:
        self.items: dict[Any, Item] = {}

    def write(self, wanted: Put | Update) -> Item:
        item = dict(wanted.item) if isinstance(wanted, Put) else {**self.items[wanted.key], **wanted.set}
        if isinstance(wanted, Update):
            for name in wanted.remove:
                item.pop(name, None)
        self.items[wanted.key] = item
        return item


def seed(
    store: Store,
    clock: Callable[[], int],
    jobs: int,
    *,
    role: str = "developer",
    completed: bool = False,
    project: str = "default",
    feed: Any = None,
    done: Callable[[int], None] = lambda _: None,
) -> None:
    """Write ``jobs`` published (or completed) jobs with bodies and ledger rows; acknowledges their change records."""
    document = items.pack(
        {"constraints": ["the tests pass"], "context": {"objective": "x" * 200}, "artifacts": []}
    )
    made = 0
    while made < jobs:
        buffer = _Buffer()
        bus = Bus(Store(buffer, store.queues, store.blobs), clock, os.urandom, lambda _: None)
        rows: list[Put] = []
        for _ in range(min(BATCH, jobs - made)):
            made += 1
            _one(bus, buffer, rows, document, Job(
                id=ids.ulid("job", clock(), os.urandom(10)), project=project, status="published", role=role,
                summary=f"seeded job {made}", priority=20, source=ACTOR.reference, source_label="seed",
                created_at=clock() + made, updated_at=clock(), published_at=clock() + made,
            ), completed)  # fmt: skip
        puts = [Put(key, item) for key, item in buffer.items.items()]
        _write(store, [*puts, *rows])
        while feed is not None and (changes := feed.read(limit=BATCH)):
            feed.acknowledge(changes)
        done(made)


def _one(bus: Bus, buffer: _Buffer, rows: list[Put], document: bytes, job: Job, completed: bool) -> None:
    head = write.create(bus, job, ACTOR, [Fact("job.created", None, "published", {"role": job.role})])
    pk = keys.partition(job.project, "job", job.id)
    body = keys.Key(pk, keys.BODY)
    listed = {"g2pk": keys.jobs_partition(job.project), "g2sk": keys.time_sort(job.created_at, job.id)}
    buffer.items[body] = {"pk": pk, "sk": keys.BODY, "doc": document, "request": b"seed", **listed}
    key = items.head_key(head)
    rows.extend(dispatch.effects(buffer.items[key], job.created_at).rows)
    if completed:
        claimed = write.change(
            bus,
            head,
            ACTOR,
            job.created_at,
            moves.claim(head, ACTOR, job.created_at, lease=None, heartbeat=None, session=None, key=None),
        )
        rows.extend(dispatch.effects(buffer.items[key], job.created_at).rows)
        write.change(bus, claimed, ACTOR, job.created_at, moves.complete(claimed, job.created_at, {}, {}))
        rows.extend(dispatch.effects(buffer.items[key], job.created_at).rows)


def _write(store: Store, puts: Sequence[Put]) -> None:
    store.table.write_each(puts)
