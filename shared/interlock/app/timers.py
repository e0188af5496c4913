"""What the `lease` queue's messages do: end lapsed leases, open due jobs, mark deadlines, empty a retired agent's hands.

A message carries no facts; the head decides. Any number of copies, in any order, at any time, is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.app import barrier, decisions, load, messages, presence, spending, write
from interlock.app.call import Bus
from interlock.app.projects import every_project
from interlock.domain import limits, moves
from interlock.domain.decision import of_lapse
from interlock.domain.identity import SYSTEM, Agent, Project
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import ENDED, IN_PROGRESS, LEASED, PENDING, PUBLISHED
from interlock.domain.outbox import Message
from interlock.store import conditions, items, keys
from interlock.store.ports import Check, Query

QUEUE = "lease"


def handle(bus: Bus, body: Mapping[str, Any], receives: int) -> None:
    """One message. ``receives`` counts its deliveries from 1."""
    if body["kind"] == "stale":
        presence.look_after(bus, body)
        return
    if body["kind"] == "retire":
        item = bus.store.table.get(keys.head(body["project"], "agent", body["agent"]))
        if item is not None:
            empty_hands(bus, items.agent(item))
        return
    for _ in range(write.TRIES):
        job = load.job_head(bus, body["project"], body["job"])
        if job is None or _HANDLERS[body["kind"]](bus, job, body, receives):
            return
    raise write.Lost


def _lease(bus: Bus, job: Job, body: Mapping[str, Any], receives: int) -> bool:
    if job.fence != body["fence"]:
        return True
    if job.lapsed(bus.clock()):
        return expire(bus, job, bus.clock()) is not None
    presence.showed_life(bus, job, bus.clock())
    if job.status not in LEASED or job.lease_until is None:
        return True
    job = spending.judge(bus, job, bus.clock())
    if job.status not in LEASED or job.lease_until is None:
        return True
    return _again(bus, job, body, receives, "lease_hop", job.lease_until + limits.TIMER_SLACK, job.fence)


def expire(bus: Bus, job: Job, now: int) -> Job | None:
    """End a lapsed lease on behalf of the bus; None when somebody was faster."""
    condition = conditions.lease_unrenewed(job.fence, job.lease_until or 0, job.version)
    parts = []
    if moves.asks_on_lapse(job):
        parts.append(decisions.opening(of_lapse(job, now)))
    try:
        return write.change(bus, job, SYSTEM, now, moves.lapse(job, now), condition=condition, parts=parts)
    except write.Lost:
        return None


def _deadline(bus: Bus, job: Job, body: Mapping[str, Any], receives: int) -> bool:
    if job.deadline is None or job.deadline != body["at"] or job.overdue is not None or job.status in ENDED:
        return True
    now = bus.clock()
    if now < job.deadline:
        return _again(bus, job, body, receives, "deadline_hop", job.deadline)
    item = bus.store.table.get(keys.project_head(job.project))
    cancels = item is not None and bool(items.project(item).settings.get("cancel_overdue"))
    return _written(bus, job, moves.pass_deadline(job, now, cancels=cancels), now)


def _start(bus: Bus, job: Job, body: Mapping[str, Any], receives: int) -> bool:
    if job.status != PENDING or job.not_before is None or job.not_before != body["at"]:
        return True
    now = bus.clock()
    if now < job.not_before:
        return _again(bus, job, body, receives, "start_hop", job.not_before)
    barrier.decide(bus, job.project, job.id, {"activated_by": "not_before"})
    return True


def _close(bus: Bus, job: Job, _body: Mapping[str, Any], _receives: int) -> bool:
    return decisions.close_moot(bus, job)


_HANDLERS = {
    "lease": _lease,
    "deadline": _deadline,
    "start": _start,
    "decision": decisions.expire_due,
    "close": _close,
}


def _written(bus: Bus, job: Job, change: Change, now: int) -> bool:
    try:
        write.change(bus, job, SYSTEM, now, change)
    except write.Lost:
        return False
    return True


def _again(
    bus: Bus,
    job: Job,
    body: Mapping[str, Any],
    receives: int,
    attribute: str,
    due: int,
    fence: int | None = None,
) -> bool:
    """Arm the next hop, if this chain is the one that counts.

    Of two chains for one timer only the one that moves the hop lives on. A delivery that moved it and died before
    it sent the next message comes again (``receives`` > 1) and sends it then.
    """
    hop = body["hop"]
    moved = write.quietly(bus, job, {attribute: hop + 1}, conditions.timer_hop(attribute, hop, fence))
    if not moved:
        seen = load.job_head(bus, job.project, job.id)
        moved = receives > 1 and seen is not None and getattr(seen, attribute) == hop + 1
    if moved:
        messages.send(bus, [Message(QUEUE, {**body, "hop": hop + 1}, due)])
    return True


def _slept(job: Job, gap: int) -> dict[str, int]:
    """What leaves a gap out of the time in progress: nobody worked meanwhile."""
    since = job.running if job.running is not None else job.started_at
    return {} if job.status != IN_PROGRESS or since is None else {"running": since + gap}


def open_if_due(bus: Bus, project: str, job_id: str, now: int) -> bool:
    """Publish a pending job whose time has come (for claim-next, when a timer was lost)."""
    job = load.job_head(bus, project, job_id)
    if job is None or job.status != PENDING or job.not_before is None or job.not_before > now:
        return False
    try:
        after = barrier.decide(bus, project, job_id, {"activated_by": "not_before"})
    except write.Lost:
        return False  # somebody else is at it
    return after is not None and after.status == PUBLISHED


def empty_hands(bus: Bus, agent: Agent) -> int:
    """Stop every claim of an agent, as long as it is retired or stopped; answers how many.

    An owner may let it go on meanwhile: what it claims from then on is not touched.
    """
    stopped = 0
    for job in _held(bus, agent.project, agent.id):
        current: Job | None = job
        while current is not None and current.held_by(agent.id):
            if not agent.retired_at and agent.stop is None:
                return stopped
            then, reason = "publish", "agent_retired"
            if agent.stop is not None and not agent.retired_at:
                then, reason = agent.stop["then"], agent.stop["reason"]
            now = bus.clock()
            change = moves.stop(current, now, then, reason, None)
            as_it_is = Check(items.head_key(agent), conditions.unchanged(agent.version))
            try:
                write.change(bus, current, SYSTEM, now, change, parts=[as_it_is])
            except write.Lost:
                current, agent = load.job_head(bus, agent.project, job.id), write.reload(bus, agent)
                continue
            stopped += 1
            break
    return stopped


def _held(bus: Bus, project: str, agent: str) -> list[Job]:
    found: list[Job] = []
    after: str | None = None
    while True:
        page = bus.store.table.query(
            Query(keys.live_partition(project), index=1, prefix=f"{agent}#" if agent else "", after=after)
        )
        ids = [keys.entity_of(row["pk"])[2] for row in page.items]
        found += load.job_heads(bus, project, ids).values()
        if not page.more or not page.items:
            return found
        after = page.items[-1]["g1sk"]


def _note(bus: Bus, project: Project, fact: Fact) -> None:
    write.decide(
        lambda again: write.reload(bus, project) if again else project,
        lambda head: write.change(bus, head, SYSTEM, bus.clock(), Change({}, (fact,))),
    )


def bus_resumed(bus: Bus, gap: int) -> int:
    """The laptop slept (or the bus was down) for ``gap`` ms: move every live lease by that much and a beat.

    No attempt is counted. Projects that had live leases record `project.bus_resumed`. Answers how many leases moved.
    """
    moved = 0
    for project in every_project(bus):
        shift, here = gap + 10 * limits.SECOND, 0
        for job in _held(bus, project.id, ""):
            if job.status in LEASED and job.lease_until is not None and job.assignee:
                until = job.lease_until + shift
                running = conditions.lease_running(job.assignee, job.fence, until)
                here += write.quietly(bus, job, {"lease_until": until, **_slept(job, gap)}, running)
        if here:
            moved += here
            data = {"gap_seconds": gap // limits.SECOND, "leases": here}
            fact = Fact("project.bus_resumed", None, None, data)
            _note(bus, project, fact)
    return moved
