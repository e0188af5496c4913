"""Signs of life: what is written down of an agent's being there, and when it is taken to be gone or back.

Leases are what counts for work; this is for people, who want to know which agents are there. It costs a write of its
own only now and then, and nothing on the way of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.app import load, write
from interlock.app.call import Bus, Call
from interlock.domain import presence as rules
from interlock.domain.identity import SYSTEM, Actor
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import LEASED
from interlock.domain.presence import Presence, Sign
from interlock.domain.times import rfc3339
from interlock.store import items, keys
from interlock.store.ports import Item, Key, Put


def read(
    bus: Bus, project: str, agents: list[str], *, consistent: bool = False
) -> dict[str, tuple[Presence | None, Sign | None]]:
    """What is known of agents: whether they are missed, and their latest signs of life."""
    wanted = [
        key for agent in agents for key in (keys.head(project, "presence", agent), keys.seen(project, agent))
    ]
    found = bus.store.table.batch_get(wanted, consistent=consistent)
    return {agent: _known(found, project, agent) for agent in agents}


def _known(found: Mapping[Key, Item], project: str, agent: str) -> tuple[Presence | None, Sign | None]:
    head, row = found.get(keys.head(project, "presence", agent)), found.get(keys.seen(project, agent))
    return items.presence(head) if head else None, Sign(row["at"], row.get("session")) if row else None


def seen(call: Call, every: int) -> None:
    """Write down that the caller is there, unless that was done less than ``every`` ms ago; and that it is back."""
    if call.actor.kind != "agent":
        return
    bus, project, agent = call.bus, call.actor.scope, call.actor.id
    known, sign = read(bus, project, [agent])[agent]
    if sign is None or call.now - sign.at >= every or (known and known.stale_at is not None):
        session, key = call.body.get("session"), keys.seen(project, agent)
        row = {"pk": key.pk, "sk": key.sk, "at": bus.clock(), **({"session": session} if session else {})}
        bus.store.table.write(Put(key, row))
    back(bus, known, call.actor, bus.clock())


def back(bus: Bus, known: Presence | None, who: Actor, at: int) -> None:
    """An agent that was missed has given a sign of life at ``at``: one `agent.back`, however many come at once."""
    if known is None or known.stale_at is None or known.stale_at > at:
        return

    def attempt(found: Presence) -> Presence:
        if found.stale_at is None or found.stale_at > at:
            return found
        fact = Fact("agent.back", data={"agent": found.id, "stale_since": rfc3339(found.stale_at)})
        return write.change(bus, found, who, bus.clock(), Change({"stale_at": None}, (fact,)))

    write.decide(lambda again: write.reload(bus, known) if again else known, attempt)


def showed_life(bus: Bus, job: Job, now: int) -> None:
    """A claim says when its holder was there: it is not missed any more, if it was before that."""
    at = rules.shown_by(job, now)
    if job.assignee is None or at is None:
        return
    item = bus.store.table.get(keys.head(job.project, "presence", job.assignee), consistent=False)
    if item is not None:
        back(bus, items.presence(item), SYSTEM, at)


def look_after(bus: Bus, body: Mapping[str, Any]) -> None:
    """A lease of an agent has ended without a sign of life (a message of the lease queue): the agent is missed, unless it
    has given one since, by a beat or by a lease that runs; not where an owner has stopped or retired it."""
    project, name, at = body["project"], body["agent"], body["at"]
    item = bus.store.table.get(keys.head(project, "agent", name))
    agent = items.agent(item) if item else None
    if agent is None or agent.retired_at or agent.stop is not None:
        return
    for _ in range(write.TRIES):
        known, sign = read(bus, project, [name], consistent=True)[name]
        if (known and known.stale_at is not None) or (sign and sign.at >= at):
            return
        held, now = load.held_jobs(bus, project, name)[0], bus.clock()
        if any(job.status in LEASED and not job.lapsed(now) for job in held):
            return
        last = rules.last_seen(sign, held, now)
        data = {"agent": name, "job": body["job"], "last_seen": None if last is None else rfc3339(last)}
        fact = Fact("agent.stale", data=data)
        try:
            if known is None:
                write.create(
                    bus, Presence(id=name, project=project, created_at=now, stale_at=at), SYSTEM, [fact]
                )
            else:
                write.change(bus, known, SYSTEM, now, Change({"stale_at": at}, (fact,)))
        except write.Lost:
            continue
        return
    raise write.Lost
