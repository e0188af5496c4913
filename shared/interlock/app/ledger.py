"""Reading the ledger: a job's timeline and the project's feed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from interlock.app import cursors, load
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.domain import limits
from interlock.errors import InterlockError
from interlock.store import items, keys
from interlock.store.ports import Item, Key, Query

PATIENCE_SECONDS = 1.0
"""How long a timeline waits for rows that the dispatcher has still to write."""
GLANCE_SECONDS = 0.05
SEEN_BY_AGENTS = ("job.", "custom.", "plan.", "project.", "role.")


Stored = tuple[str, dict[str, Any]]
"""An event and the partition of its entity."""


def with_data(bus: Bus, found: Iterable[Stored]) -> list[dict[str, Any]]:
    """Events with the data that was too large for their rows."""
    rows = list(found)
    large = {
        keys.event_data(pk, event["seq"], event["large"]): event for pk, event in rows if "large" in event
    }
    stored = bus.store.table.batch_get(list(large)) if large else {}
    for key, event in large.items():
        event["data"] = items.unpack(stored[key]["data"])
        del event["large"]
    return [event for _, event in rows]


def _unpacked(row: Item) -> list[Stored]:
    return [(row["pk"], event) for event in items.unpack(row["events"])]


def timeline(call: Call) -> Answer:
    """A job's events, oldest first. Rows that the dispatcher has not written yet are waited for, then said missing."""
    job, bus = the_job(call), call.bus
    limit = call.query["limit"]
    after = _number(cursors.read("timeline", {"job": job.id}, call.query["cursor"]))
    found, version, digest = events_of(bus, keys.partition(job.project, "job", job.id), after, limit)
    shown = _bounded(found)
    complete = len(found) == min(limit, max(version - after, 0)) and all(
        event["seq"] == after + 1 + number for number, (_, event) in enumerate(found)
    )
    last = shown[-1][1]["seq"] if shown else after
    more = (len(found) == limit or len(shown) < len(found)) and last < version
    events = with_data(bus, shown)
    value: dict[str, Any] = {
        "items": events,
        "next_cursor": cursors.write("timeline", {"job": job.id}, str(last)) if more else None,
        "version": version,
        "digest": digest,
    }
    return Answer(value if complete else {**value, "incomplete": True}, version=version)


def _number(position: str | None) -> int:
    if position is None:
        return 0
    if not (position.isascii() and position.isdigit()):
        raise InterlockError("bad_cursor")
    return int(position)


def _bounded(found: Sequence[Stored]) -> list[Stored]:
    """The first of these events: as many as one answer can carry when their data is large."""
    large = 0
    for number, (_, event) in enumerate(found):
        large += "large" in event
        if large > limits.LARGE_EVENTS_PAGE:
            return list(found[:number])
    return list(found)


def events_of(bus: Bus, pk: str, after: int, limit: int) -> tuple[list[Stored], int, str]:
    """(up to ``limit`` events of an entity after a seq, the head's version, its digest).

    The head carries its latest events itself; earlier rows that are missing are waited for a moment.
    """
    waited = 0.0
    while True:
        head = bus.store.table.get(Key(pk, keys.HEAD)) or {
            "version": 0,
            "events": items.pack([]),
            "digest": b"",
        }
        lower, upper = keys.log(pk, after + 1).sk, keys.log(pk, after + limit).sk
        page = bus.store.table.query(Query(pk, lower=lower, upper=upper, limit=limit))
        found = {event["seq"]: (pk, event) for row in page.items for pk, event in _unpacked(row)}
        for event in items.unpack(head["events"]):
            if after < event["seq"] <= after + limit:
                found.setdefault(event["seq"], (pk, event))
        expected = min(limit, max(head["version"] - after, 0))
        if len(found) >= expected or page.more or waited >= PATIENCE_SECONDS:
            return [found[seq] for seq in sorted(found)], head["version"], head["digest"].hex()
        bus.pause(GLANCE_SECONDS)
        waited += GLANCE_SECONDS


def feed(call: Call) -> Answer:
    """The project's events in the order their rows were written: the last N, or those after a cursor.

    Nothing asks for the last 100; a limit alone begins at the oldest.
    """
    bus, project, query = call.bus, the_project(call), call.query
    partition = keys.feed_partition(project.id)
    position = cursors.read("feed", {"project": project.id}, query["after"])
    limit = query["limit"] or limits.DEFAULT_FEED_PAGE
    last = query["last"] or (limit if query["after"] is None and query["limit"] is None else None)
    if last is not None:
        page = bus.store.table.query(Query(partition, index=2, limit=last, forward=False))
        found = [pair for row in page.items for pair in _unpacked(row)]
        shown, rows, more = _bounded(found)[::-1], page.items[::-1], False
    else:
        page = bus.store.table.query(Query(partition, index=2, after=position, limit=limit))
        found = [pair for row in page.items for pair in _unpacked(row)]
        shown = _bounded(found)
        # a row holds one event
        rows, more = page.items[: len(shown)], page.more or len(shown) < len(found)
    events = _seen(call, with_data(bus, shown))
    end = rows[-1]["g2sk"] if rows else position or "0"
    cursor = cursors.write("feed", {"project": project.id}, end)
    return Answer({"items": events, "next_cursor": cursor, "more": more})


def _seen(call: Call, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Owners see all; agents the jobs that they can see, the project and its roles."""
    actor, project = call.actor, the_project(call)
    if actor.kind != "agent":
        return list(events)
    if not actor.roles:
        return []
    open_to = [event for event in events if event["type"].startswith(SEEN_BY_AGENTS)]
    if project.settings.get("visibility") != "roles":
        return open_to
    ids = {event["entity"].partition("/")[2] for event in open_to if event["entity"].startswith("job/")}
    heads = load.job_heads(call.bus, project.id, sorted(ids))
    shown = {job_id for job_id, job in heads.items() if load.visible(job, actor, project)}
    return [
        e for e in open_to if not e["entity"].startswith("job/") or e["entity"].partition("/")[2] in shown
    ]
