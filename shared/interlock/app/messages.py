"""Sending messages to the queues, and what is due to whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.app.call import Bus
from interlock.domain.outbox import Message
from interlock.store import keys
from interlock.store.ports import Query


def send(bus: Bus, messages: Iterable[Message]) -> None:
    """Put messages on their queues; those of use to nobody are left out, and twins are sent once.

    Whoever begins to wait for a job writes its row there first and looks at the job afterwards, so that a row which
    is not here yet belongs to somebody who will see the job as it is now.
    """
    now = bus.clock()
    wanted: dict[str, list[tuple[Mapping[str, Any], int]]] = {}
    known: dict[tuple[str, str], bool] = {}
    for message in messages:
        body = message.body
        if message.if_waited_for:
            job = (body["project"], body["job"])
            if job not in known:
                known[job] = is_waited_for(bus, *job)
            if not known[job]:
                continue
        pair = (body, message.delay(now))
        if pair not in (there := wanted.setdefault(message.queue, [])):
            there.append(pair)
    for queue, pairs in wanted.items():
        bus.store.queues.send(queue, pairs)


def is_waited_for(bus: Bus, project: str, job: str) -> bool:
    """Whether any job names this one as an upstream."""
    pk = keys.partition(project, "job", job)
    return bool(bus.store.table.query(Query(pk, prefix=keys.WAITING, limit=1)).items)
