"""Use cases of decisions: ask, read, answer, withdraw; and what the bus does about them by itself.

Whatever happens to a decision is one transaction of its job's head and the decision's item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import cursors, load, messages, repeats, shown, views, write
from interlock.app.call import Answer, Bus, Call, the_job, the_project
from interlock.app.references import require_each_role
from interlock.app.settle import settle
from interlock.domain import decision as rules
from interlock.domain import limits, moves, schema
from interlock.domain.decision import OPEN, Decision
from interlock.domain.identity import SYSTEM, Actor, Project
from interlock.domain.job import Change, Job
from interlock.domain.outbox import Message
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, items, keys
from interlock.store import decisions as stored
from interlock.store.ports import Item, Key, Put, Query


def opening(decision: Decision) -> Put:
    """The part of a transaction that asks a decision."""
    return Put(stored.key(decision), stored.item(decision), conditions.absent())


def closing(decision: Decision) -> Put:
    """The part of a transaction that closes a decision, which must be open until then."""
    return Put(stored.key(decision), stored.item(decision), conditions.decision_open())


def read_many(bus: Bus, project: str, ids: Sequence[str]) -> list[Decision]:
    """Those that are there among these decisions, in this order."""
    wanted = [key for name in ids if (key := keys.decision(project, name)) is not None]
    found = bus.store.table.batch_get(wanted) if wanted else {}
    return [stored.read(found[key]) for key in wanted if key in found]


def the_decision(call: Call) -> Decision:
    """The call's decision, as it was when the call was let in."""
    assert call.decision is not None
    return call.decision


def visible(decision: Decision, job: Job | None, actor: Actor, project: Project) -> bool:
    """Whether the actor may see the decision: whoever sees its job, whom it names, and who asked it."""
    if job is None or job.archived is not None:
        return False
    if load.visible(job, actor, project) or decision.names(actor):
        return True
    return bool(actor.roles) and decision.asked_by_actor(actor)


def ask(call: Call) -> Answer:
    """Ask for a decision on the held job. A repeat answers the decision as it is now."""
    body, project = call.body, the_project(call)
    require_each_role(project, body["roles"])
    wrong = None if body["answer_schema"] is None else schema.problem(body["answer_schema"])
    if wrong:
        raise InterlockError("invalid", f"the schema: {wrong}", errors=[FieldError("schema", wrong)])
    request = repeats.digest(call.key, call.body_hash).hex() if call.key else None
    made: list[Decision] = []

    def decision(job: Job) -> Change:
        made[:] = [rules.of_call(job, call.actor, call.now, body, request)]
        return rules.ask(job, made[0], call.now)

    def check(job: Job) -> None:
        moves.require_claim(job, call.actor, body["fence"])

    job, repeated = settle(call, the_job(call), decision, check=check, parts=lambda _: [opening(made[0])])
    found = made[0] if not repeated else _of_request(call.bus, job, request)
    return Answer({"decision": views.decision(found, job, call.now)}, not repeated, repeated, job.version)


def _of_request(bus: Bus, job: Job, request: str | None) -> Decision:
    """The decision that an earlier try of this call asked."""
    found = [each for each in of_job(bus, job.project, job.id) if each.request == request]
    if not found:
        raise InterlockError("not_found", "the decision of this call is gone")
    return found[-1]


def of_job(bus: Bus, project: str, job: str) -> list[Decision]:
    """All decisions that were ever asked on a job, oldest first."""
    found: list[Decision] = []
    pk, after = keys.partition(project, "job", job), None
    while True:
        page = bus.store.table.query(Query(pk, prefix=keys.DECISION_PREFIX, after=after))
        found += [stored.read(row) for row in page.items]
        if not page.more or not page.items:
            return sorted(found, key=lambda each: each.asked_at)
        after = page.items[-1]["sk"]


def get(call: Call) -> Answer:
    """Read a decision."""
    return Answer({"decision": views.decision(the_decision(call), the_job(call), call.now)})


def answer(call: Call) -> Answer:
    """Answer a decision. Of many answers one counts; answering lets a blocked job go on."""
    return _close(call, lambda job, found: rules.answer(job, found, call.actor, call.now, call.body))


def withdraw(call: Call) -> Answer:
    """Take a decision back."""
    note = call.body["note"]
    return _close(call, lambda job, found: rules.withdraw(job, found, call.actor, call.now, note))


def _close(call: Call, close: Callable[[Job, Decision], tuple[Change, Decision]]) -> Answer:
    closed: list[Decision] = []

    def decision(job: Job) -> Change:
        found = the_decision(call)
        # what was read with the credential may be older than the job
        if job.version != the_job(call).version or found.id not in (job.asked or {}):
            found = _again(call.bus, found)
        change, after = close(job, found)
        closed[:] = [after]
        return change

    job, repeated = settle(call, the_job(call), decision, parts=lambda _: [closing(closed[0])], reads_on=True)
    found = _again(call.bus, the_decision(call)) if repeated else closed[0]
    value = {"decision": views.decision(found, job, call.now), "job": shown.whole(call.bus, job)}
    return Answer(value, replayed=repeated, version=job.version)


def _again(bus: Bus, decision: Decision) -> Decision:
    item = bus.store.table.get(stored.key(decision))
    if item is None:
        raise InterlockError("not_found")
    return stored.read(item)


def list_all(call: Call) -> Answer:
    """A page of decisions that the caller may see. It may be short, and still carry a cursor."""
    bus, project, query = call.bus, the_project(call), call.query
    binding = {"project": project.id, **{name: query[name] for name in ("state", "job", "role")}}
    position = cursors.read("decisions", binding, query["cursor"])
    found, more = _rows(bus, project.id, query, position)
    wanted = [each for _, each in found if each is not None]
    heads = load.job_heads(bus, project.id, list(dict.fromkeys(each.job for each in wanted)))
    shown: list[dict[str, Any]] = []
    room, last = limits.DECISIONS_PAGE_BYTES, None
    for at, each in found:
        if each is not None and visible(each, heads.get(each.job), call.actor, project):
            view = views.decision(each, heads[each.job], call.now)
            room -= items.size(view)
            if room < 0 and shown:
                more = True
                break
            shown.append(view)
        last = at
    cursor = cursors.write("decisions", binding, last) if more and last else None
    return Answer({"items": shown, "next_cursor": cursor})


def _rows(
    bus: Bus, project: str, query: Mapping[str, Any], position: str | None
) -> tuple[list[tuple[str, Decision | None]], bool]:
    """((position, decision, or None where it is not wanted) of one page, whether there are more)."""
    if query["job"] is not None:
        pk = keys.partition(project, "job", query["job"])
        walk = Query(pk, prefix=keys.DECISION_PREFIX, after=position, limit=query["limit"])
        at = "sk"
    else:
        index = 1 if query["state"] == OPEN else 2
        at = f"g{index}sk"
        walk = Query(
            keys.decisions_partition(project),
            index=index,
            after=position,
            limit=query["limit"],
            forward=query["state"] == OPEN,
        )
    page = bus.store.table.query(walk)
    rows = bus.store.table.batch_get([Key(row["pk"], row["sk"]) for row in page.items])

    def wanted(row: Item) -> Decision | None:
        item = rows.get(Key(row["pk"], row["sk"]))
        each = None if item is None else stored.read(item)
        if each is None or query["state"] not in ("all", each.state):
            return None
        return each if query["role"] is None or query["role"] in each.roles else None

    return [(row[at], wanted(row)) for row in page.items], page.more


def open_for(bus: Bus, project: Project, actor: Actor, limit: int) -> list[Decision]:
    """Open decisions that wait for this agent, by one of its roles: those it may answer, oldest first."""
    page = bus.store.table.query(Query(keys.decisions_partition(project.id), index=1, limit=limit))
    found = read_many(bus, project.id, [row["sk"].removeprefix(keys.DECISION_PREFIX) for row in page.items])
    named = [
        each for each in found if each.state == OPEN and each.names(actor) and not each.asked_by_actor(actor)
    ]
    heads = load.job_heads(bus, project.id, [each.job for each in named])
    return [each for each in named if each.job in heads and not heads[each.job].held_by(actor.id)]


def expire_due(bus: Bus, job: Job, body: Mapping[str, Any], receives: int) -> bool:
    """A decision's time is over (a message of the lease queue). False when the job changed meanwhile."""
    item = bus.store.table.get(
        Key(keys.partition(job.project, "job", job.id), f"{keys.DECISION_PREFIX}{body['decision']}")
    )
    if item is None:
        return True
    found, now = stored.read(item), bus.clock()
    if found.state != OPEN or found.expires_at != body["at"] or found.id not in (job.asked or {}):
        return True
    if now < body["at"]:
        _next_hop(bus, found, body, receives)
        return True
    change, closed = rules.expire(job, found, now)
    try:
        write.change(bus, job, SYSTEM, now, change, parts=[closing(closed)])
    except write.Lost:
        return False
    return True


def _next_hop(bus: Bus, found: Decision, body: Mapping[str, Any], receives: int) -> None:
    """Arm the next hop, if this chain is the one that counts. The first message does not know its number."""
    hop, key = body.get("hop", found.hop), stored.key(found)
    moved = write.marked(bus, key, {"hop": hop + 1}, (), conditions.timer_hop("hop", hop))
    if not moved and receives > 1:
        item = bus.store.table.get(key)
        moved = item is not None and item["hop"] == hop + 1
    if moved:
        messages.send(bus, [Message("lease", {**body, "hop": hop + 1}, body["at"])])


def close_moot(bus: Bus, job: Job) -> bool:
    """Withdraw the decisions that were open when the claim ended under which they were asked (a message of the lease
    queue). False when the job changed meanwhile."""
    if not job.moot:
        return True
    now = bus.clock()
    parts: list[Put] = []
    for found in read_many(bus, job.project, job.moot):
        if found.state == OPEN:
            gone = replace(
                found,
                state=rules.WITHDRAWN,
                note="the claim has ended",
                closed_by=SYSTEM.as_event(),
                closed_at=now,
            )
            parts.append(closing(gone))
    if parts:
        bus.store.table.write_each(parts)
    return write.quietly(bus, job, {"moot": None}, conditions.unchanged(job.version))
