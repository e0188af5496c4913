"""Barriers: what holds a pending job until its upstream jobs allow it.

A hold stands in the waiting job's partition until its upstream is completed. :func:`settle` brings one hold up to
what its upstream is now; :func:`decide` brings the waiting job up to what its holds say. Both look at what is there,
so that any number of them, in any order, at any time, end right. Three things are load-bearing (algorithms that
leave one out get stuck, or publish under a failed upstream): a hold remembers the upstream's version that it was
last judged by; that its upstream failed is a row of its own, which sorts before every open hold; after every write
of the head the holds are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.app import load, messages, neighbours, write
from interlock.app.call import Bus
from interlock.domain import moves
from interlock.domain.identity import SYSTEM
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import COMPLETED, ENDED, PENDING
from interlock.domain.outbox import Message
from interlock.store import conditions, keys
from interlock.store.ports import ConditionLost, Delete, Item, Put, Query, Update

QUEUE = "barrier"
SPREAD_PAGE = 25
"""Waiting jobs that one message looks after; the rest is another message's work, side by side with it."""
GATHER_PAGE = 100

OPEN, FAILED = "open", "failed"
"""States of a hold."""


def satisfies(upstream: Job, *, continues: bool) -> bool:
    """Whether a link to this upstream holds nothing back, now and for good."""
    return upstream.status == COMPLETED or (continues and upstream.status in ENDED)


def hold(pk: str, upstream: Job | str, *, continues: bool) -> Put:
    """The row that lets the job of ``pk`` wait; an upstream that is still to come is named by its id."""
    up = upstream if isinstance(upstream, str) else upstream.id
    alive = isinstance(upstream, Job) and upstream.status not in ENDED
    key = keys.hold(pk, up)
    seen = upstream.version if isinstance(upstream, Job) and alive else 0
    row = {"pk": pk, "sk": key.sk, "state": OPEN, "seen": seen, **({"continues": True} if continues else {})}
    return Put(key, row)


def settle(bus: Bus, project: str, upstream: str, job: str) -> None:
    """Bring the hold of ``job`` on ``upstream`` up to what the upstream is now."""
    table, pk = bus.store.table, keys.partition(project, "job", job)
    for _ in range(write.TRIES):
        up = load.job_head(bus, project, upstream)
        row = table.get(keys.hold(pk, upstream)) if up else None
        if up is None or row is None:
            return  # a plan's job that is still to come, or a link that is satisfied for good
        parts = _judged(pk, up, row)
        if not parts:
            return
        marks = any(isinstance(part, Put) for part in parts)
        if marks and load.job_head(bus, project, job) is None:
            return  # its creator may write the hold anew, and looks at the upstream once the head is there
        try:
            if len(parts) == 1:
                table.write(parts[0])
            else:
                table.transact(parts)
        except ConditionLost:
            continue
        return
    raise write.Lost


def _judged(pk: str, up: Job, row: Item) -> list[Put | Update | Delete]:
    """The writes that bring a hold up to its upstream; none when somebody has seen as much or more."""
    key, bad = keys.hold(pk, up.id), keys.bad_hold(pk, up.id)
    state, seen = row["state"], row["seen"]
    if satisfies(up, continues=row.get("continues", False)):
        gone = Delete(key, conditions.hold_is(state))
        return [gone] if state == OPEN else [gone, Delete(bad)]
    if seen >= up.version:
        return []
    as_read = conditions.hold_seen(seen, state)
    if up.status in ENDED:
        root = up.cascade["root"] if up.cascade else up.id
        mark = {"pk": pk, "sk": bad.sk, "status": up.status, "root": root}
        return [Update(key, {"state": FAILED, "seen": up.version}, (), as_read), Put(bad, mark)]
    alive = Update(key, {"state": OPEN, "seen": up.version}, (), as_read)
    return [alive] if state == OPEN else [alive, Delete(bad)]


def decide(bus: Bus, project: str, job: str, by: Mapping[str, Any] | None = None) -> Job | None:
    """Bring a waiting job up to what its holds say; answers the head as it is then (None: there is none).

    ``by`` says what opened the barrier last, for the event.
    """
    for _ in range(write.TRIES):
        head = load.job_head(bus, project, job)
        if head is None or not head.waits:
            return head
        change = _wanted(
            bus, head, by or {"activated_by": "upstream" if head.upstreams or head.links else "not_before"}
        )
        if change is None:
            return head
        try:
            write.change(bus, head, SYSTEM, bus.clock(), change)
        except write.Lost:
            continue
    raise write.Lost


def _wanted(bus: Bus, head: Job, by: Mapping[str, Any]) -> Change | None:
    now, pk = bus.clock(), keys.partition(head.project, "job", head.id)
    rows = bus.store.table.query(Query(pk, prefix=keys.HOLDS, limit=1)).items
    first = rows[0] if rows else None
    if first is not None and first["sk"].startswith(keys.BAD_HOLD):
        status, up, root = first["status"], first["sk"].removeprefix(keys.BAD_HOLD), first["root"]
        if head.status != status:
            return moves.cascade(head, now, status, up, root)
        return None if _still_caused(bus, head, root) else moves.blame(head, up, root)
    if head.status != PENDING:
        return moves.revive(head, now)
    if first is not None or (head.not_before is not None and head.not_before > now):
        return None
    return moves.activate(now, by, neighbours.workers_upstream(bus, head) if head.independent else ())


def _still_caused(bus: Bus, head: Job, root: str) -> bool:
    """Whether the root that a failed job names still keeps it failed. ``root`` is one that does."""
    cause = head.cascade or {}
    if cause["root"] == root:
        return True
    row = bus.store.table.get(keys.bad_hold(keys.partition(head.project, "job", head.id), cause["upstream"]))
    return row is not None and bool(row["root"] == cause["root"])


def spread(bus: Bus, project: str, upstream: str, after: str | None = None) -> None:
    """The upstream's status means something else now: whoever waits for it looks again."""
    pk = keys.partition(project, "job", upstream)
    page = bus.store.table.query(Query(pk, prefix=keys.WAITING, after=after, limit=SPREAD_PAGE))
    if page.more:
        body = {"kind": "spread", "project": project, "job": upstream, "after": page.items[-1]["sk"]}
        messages.send(bus, [Message(QUEUE, body)])
    for row in page.items:
        waiting = row["sk"].removeprefix(keys.WAITING)
        settle(bus, project, upstream, waiting)
        decide(bus, project, waiting, {"activated_by": "upstream", "upstream": upstream})


def gather(bus: Bus, project: str, job: str) -> Job | None:
    """The job has begun to wait: bring all its holds up to date, then the job itself."""
    pk, after = keys.partition(project, "job", job), None
    while True:
        query = Query(pk, prefix=keys.OPEN_HOLD, after=after, limit=GATHER_PAGE)
        page = bus.store.table.query(query)
        ups = {row["sk"].removeprefix(keys.OPEN_HOLD): row for row in page.items}
        heads = load.job_heads(bus, project, list(ups))
        for up in heads.values():
            if _judged(pk, up, ups[up.id]):
                settle(bus, project, up.id, job)
        if not page.more:
            return decide(bus, project, job)
        after = page.items[-1]["sk"]


def catch_up(bus: Bus, job: Job, upstream: Iterable[str]) -> Job:
    """A job has begun to wait: bring it up to what these upstream jobs are now, and answer its head.

    This is for the caller's sake. Where others write so often that it does not succeed, the message that every such
    beginning sends does it, as after a crash.
    """
    try:
        for up in upstream:
            settle(bus, job.project, up, job.id)
        return decide(bus, job.project, job.id) or job
    except write.Lost:
        return load.job_head(bus, job.project, job.id) or job
