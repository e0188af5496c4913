"""Workers: who is there, when it was last seen, and what it holds. Read from what is true; nothing is kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import load, views
from interlock.app import presence as presence_of
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.domain import limits, presence
from interlock.domain.identity import Agent, Project
from interlock.domain.job import Job
from interlock.domain.presence import Presence, Sign
from interlock.store import items, keys
from interlock.store.ports import Item, Query

ROWS = 1_000
"""Held jobs that one page looks at."""
SHOWN = 20
"""Held jobs that one worker names."""


def read(call: Call) -> Answer:
    """A page of the project's agents by id, as workers."""
    bus, project = call.bus, the_project(call)
    found, cursor = load.members(call, project.id, "agent")
    agents = [items.agent(item) for item in found]
    rows, cut = _held_rows(bus, project.id, agents)
    names = [keys.entity_of(row["pk"])[2] for each in rows.values() for row in each[: SHOWN + 1]]
    heads = load.job_heads(bus, project.id, names)
    there = presence_of.read(bus, project.id, [agent.id for agent in agents])
    shown = []
    for agent in agents:
        mine = [
            heads[name] for row in rows.get(agent.id, ()) if (name := keys.entity_of(row["pk"])[2]) in heads
        ]
        held = [job for job in mine if job.held_by(agent.id)]
        if agent.retired_at and not held:
            continue
        seen = [job for job in held if load.visible(job, call.actor, project)]
        more = len(rows.get(agent.id, ())) > SHOWN or agent.id in cut
        shown.append(_shown(agent, there[agent.id], project, held, seen[:SHOWN], call.now, more=more))
    return Answer({"items": shown, "next_cursor": cursor})


def _held_rows(
    bus: Bus, project: str, agents: Sequence[Agent]
) -> tuple[dict[str, list[Item]], frozenset[str]]:
    """(rows of what these agents hold, those of whom not all was read): they and what is held are both sorted by agent."""
    if not agents:
        return {}, frozenset()
    ids = sorted(agent.id for agent in agents)
    lower, found, cut = f"{ids[0]}#", dict[str, list[Item]](), set[str]()
    while True:
        query = Query(keys.live_partition(project), index=1, lower=lower, upper=f"{ids[-1]}#~", limit=ROWS)
        page = bus.store.table.query(query)
        for row in page.items:
            found.setdefault(row["g1sk"].partition("#")[0], []).append(row)
        if not page.more or not page.items:
            return found, frozenset(cut)
        # of whoever holds so much no more is shown; the next one's begin behind it
        cut.add(last := page.items[-1]["g1sk"].partition("#")[0])
        lower = f"{last}#~"


def _shown(
    agent: Agent,
    there: tuple[Presence | None, Sign | None],
    project: Project,
    held: Sequence[Job],
    seen: Sequence[Job],
    now: int,
    *,
    more: bool,
) -> Mapping[str, Any]:
    known, sign = there
    last = presence.last_seen(sign, held, now)
    since = presence.stale_since(known, last)
    return {
        "agent": agent.id,
        "label": agent.label,
        "roles": list(agent.roles),
        "state": presence.state(agent, project, held, now, missed=since is not None),
        "last_seen": views.moment(last),
        "seconds_since_seen": None if last is None else max(0, now - last) // limits.SECOND,
        "session": presence.session(sign, held, now),
        "beats_missed": presence.beats_missed(held, now),
        "holds": [views.holding(job, now) for job in seen],
        "holds_more": more,
        "stale_since": views.moment(since),
        "stop": views.stop(agent),
    }
