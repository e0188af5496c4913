"""The bus itself: who am I, counts, health, repair and dead letters."""

from __future__ import annotations

from typing import Any

from interlock import config
from interlock.app import cursors, dispatch, leases, load, notices, views, write
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.consumers import CONSUMERS
from interlock.domain import limits
from interlock.domain.lifecycle import HELD
from interlock.errors import FieldError, InterlockError
from interlock.store import keys
from interlock.store.ports import Key, Query

DEAD = tuple(queue for queue in config.QUEUES if queue.endswith("-dead"))
"""Where messages end that their consumer could not handle, and records that the dispatcher could not."""
REDRIVEN = 100
"""Messages that one redrive call handles."""


def me(call: Call) -> Answer:
    """Who the caller is, and what it holds: a restarted agent goes on from here."""
    actor, project = call.actor, the_project(call)
    held: list[Any] = []
    cursor = None
    if actor.kind == "agent":
        position = cursors.read("claims", {"agent": actor.id}, call.query["cursor"])
        held, after = load.held_jobs(
            call.bus, project.id, actor.id, after=position, limit=call.query["limit"]
        )
        cursor = leases.claims_cursor(actor.id, after)
    value = {
        "actor": views.actor(actor),
        "roles": list(actor.roles),
        "capabilities": list(actor.capabilities),
        "project": project.id,
        "claims": [views.held(job, call.now) for job in held],
        "notices": [*notices.of_agent(call, held), *notices.waiting_for(call)]
        if actor.kind == "agent"
        else notices.of_owner(call.bus, project, call.now),
        "next_cursor": cursor,
    }
    return Answer(value)


def stats(call: Call) -> Answer:
    """What is on the board: counts (up to a bound, then `more`), and the age of the oldest ready job per role."""
    bus, project = call.bus, the_project(call)
    ready = {}
    for role in [*sorted(project.roles), *sorted(project.former_roles)]:
        page = bus.store.table.query(
            Query(keys.ready_partition(project.id, role), index=1, limit=limits.COUNTED)
        )
        if role in project.roles or page.items:
            oldest = min((int(row["g1sk"].split("#")[1]) for row in page.items), default=None)
            age = None if oldest is None else max(0, (call.now - oldest) // limits.SECOND)
            ready[role] = {"count": len(page.items), "more": page.more, "oldest_age_seconds": age}
    live = bus.store.table.query(Query(keys.live_partition(project.id), index=1, limit=limits.COUNTED))
    held = {status: sum(1 for row in live.items if row.get("status") == status) for status in HELD}
    value: dict[str, Any] = {
        "published": ready,
        **{status: {"count": count, "more": live.more} for status, count in held.items()},
    }
    for status, partition in (("pending", keys.waiting_partition), ("failed", keys.failed_partition)):
        page = bus.store.table.query(Query(partition(project.id), index=1, limit=limits.COUNTED))
        value[status] = {"count": len(page.items), "more": page.more}
    return Answer({"stats": value, "counted_up_to": limits.COUNTED})


def repair(call: Call) -> Answer:
    """Send again what an entity's head implies: missing ledger rows, missing timers. Changes nothing that is right."""
    kind, _, name = call.body["entity"].partition("/")
    pk = keys.partition(the_project(call).id, kind, name)
    if kind not in ("job", "plan", "agent", "presence", "owner", "project") or (
        kind == "project" and name != the_project(call).id
    ):
        raise InterlockError(
            "invalid",
            errors=[
                FieldError(
                    "entity",
                    "is job/<id>, plan/<id>, agent/<id>, presence/<agent>, owner/<id> or project/<id>",
                )
            ],
        )
    if not dispatch.repair(call.bus, pk):
        raise InterlockError("not_found", f"there is no {call.body['entity']}")
    return Answer({"repaired": call.body["entity"]})


def dead_letters(call: Call) -> Answer:
    """How many messages and records could not be handled."""
    queues = {queue: call.bus.store.queues.depth(queue) for queue in DEAD}
    return Answer({"queues": queues, "total": sum(queues.values())})


def redrive(call: Call) -> Answer:
    """Handle dead letters again, up to a bound per call; those that fail again stay."""
    queue, bus = call.body["queue"], call.bus
    handled = failed = 0
    while handled + failed < REDRIVEN:
        messages = bus.store.queues.receive(queue, limit=10, visibility=30)
        if not messages:
            break
        done = []
        for message in messages:
            if _handled(bus, queue, message.body):
                done.append(message.receipt)
            else:
                failed += 1
        handled += len(done)
        bus.store.queues.delete(queue, done)
    return Answer({"queue": queue, "redriven": handled, "failed": failed})


def _handled(bus: Bus, queue: str, body: dict[str, Any]) -> bool:
    try:
        if queue == dispatch.PARKED:
            dispatch.redrive(bus, body)
        else:
            CONSUMERS[queue.removesuffix("-dead")](bus, body, 2)
    except (LookupError, TypeError, ValueError, InterlockError, write.Lost):
        return False
    return True


def health(call: Call) -> Answer:
    """Whether the store answers. Raises ``store_unavailable`` when it does not."""
    from interlock import __version__

    call.bus.store.table.get(
        Key(keys.partition(keys.INSTALLATION, "installation", keys.INSTALLATION), keys.HEAD)
    )
    return Answer({"status": "ok", "version": __version__})
