"""Plans: many jobs that become real together, or not at all.

The head of the plan is the commit. What was asked for stands beside it until every job is there, so that whoever
finds the plan unfinished (the caller, its repeat, the dispatcher's message) can go on. Jobs are made from the end
of the plan to its beginning: nothing is claimable before what waits for it is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.app import external, load, making, neighbours, write
from interlock.app.artifacts import initial
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.references import require_jobs, require_roles
from interlock.domain import ids, limits
from interlock.domain import plan as rules
from interlock.domain.identity import SYSTEM, Actor
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import PUBLISHED
from interlock.domain.plan import Plan
from interlock.errors import FieldError, InterlockError, StoreError
from interlock.store import items, keys
from interlock.store.ports import ConditionLost, Put, TransactionPart

PART_BYTES = 300 * 1024
KEPT_SECONDS = 14 * 86_400
"""How long what was asked for stays; a plan whose making is stopped for longer than that is beyond help."""
TOGETHER = 90
"""Parts of one transaction that makes jobs."""

Fields = Mapping[str, Any]
"""A job as it was asked for, resolved, with ids in place of refs."""


def create(call: Call) -> Answer:
    """Publish a plan, or say with ``dry_run`` what would be claimable first."""
    bus, project = call.bus, the_project(call)
    entropy = call.key.hex() if call.key else bus.entropy(16).hex()
    plan_id = ids.derived("plan", project.id, entropy)
    if call.key and (known := _head(bus, project.id, plan_id)):
        return _repeat(call, known)
    wanted = _checked(call, plan_id)
    taken = _external_ids(call, wanted)
    if call.body["dry_run"]:
        return _rehearsed(call, wanted)
    plan = _plan(call, plan_id, wanted, _stage(call, plan_id, wanted))
    fact = Fact("plan.created", data={"jobs": len(wanted)})
    for _ in range(write.TRIES):
        try:
            write.create(bus, plan, call.actor, [fact], taken)
        except write.Lost:
            known = _head(bus, project.id, plan_id)
            if known is not None:
                return _repeat(call, known)
            taken = _external_ids(call, wanted)  # whose one of them is has changed
        else:
            make_real(bus, project.id, plan_id)
            return _answer(plan, created=True)
    raise write.Lost


def _plan(call: Call, plan_id: str, wanted: Mapping[str, Fields], parts: int) -> Plan:
    return Plan(
        id=plan_id,
        project=the_project(call).id,
        created_at=call.now,
        jobs={ref: fields["id"] for ref, fields in wanted.items()},
        parts=parts,
        source=call.actor.reference,
        source_label=call.actor.label,
        request=call.body_hash[:16],
    )


def _head(bus: Bus, project: str, plan_id: str) -> Plan | None:
    item = bus.store.table.get(keys.head(project, "plan", plan_id))
    return items.plan(item) if item else None


def _repeat(call: Call, known: Plan) -> Answer:
    if known.request != call.body_hash[:16]:
        raise InterlockError("idempotency_mismatch")
    make_real(call.bus, known.project, known.id)
    return _answer(known, created=False)


def _answer(plan: Plan, *, created: bool) -> Answer:
    return Answer({"plan": plan.id, "jobs": dict(plan.jobs)}, created, replayed=not created)


def _checked(call: Call, plan_id: str) -> dict[str, Fields]:
    """The jobs by ref, with ids in place of refs and defaults filled in. Raises for everything that is wrong."""
    project, jobs = the_project(call), call.body["jobs"]
    _require_refs([job["ref"] for job in jobs])
    if sum(len(job["blocked_by"]) for job in jobs) > limits.PLAN_LINKS:
        raise InterlockError("limit_reached", f"a plan has at most {limits.PLAN_LINKS:,} links")
    for number, job in enumerate(jobs):
        require_roles(project, job, f"jobs/{number}/")
    ids_of = {job["ref"]: ids.derived("job", plan_id, job["ref"]) for job in jobs}
    _require_order(jobs, "blocked_by", "waits for")
    _require_order(jobs, "parent", "comes from")
    named: dict[str, str] = {}
    for number, job in enumerate(jobs):
        for place, name in enumerate(job["blocked_by"]):
            if name not in ids_of:
                named.setdefault(name, f"jobs/{number}/blocked_by/{place}")
        if job["parent"] and job["parent"] not in ids_of:
            named.setdefault(job["parent"], f"jobs/{number}/parent")
    require_jobs(call, named)
    return {
        job["ref"]: {
            **making.resolved(project, job),
            "id": ids_of[job["ref"]],
            "parent": ids_of.get(job["parent"], job["parent"]),
            "blocked_by": [ids_of.get(name, name) for name in job["blocked_by"]],
        }
        for job in jobs
    }


def _require_order(jobs: Sequence[Fields], field: str, word: str) -> None:
    """Raise ``cycle``, naming the way round, when jobs name each other by this field."""
    named = {job["ref"]: job[field] if field == "blocked_by" else [job[field]] for job in jobs}
    _, circle = rules.order(named)
    if circle:
        shown = f" {word} ".join([*circle, circle[0]])
        at = [
            FieldError(f"jobs/{number}/{field}", "is part of a circle")
            for number, job in enumerate(jobs)
            if job["ref"] in circle
        ]
        raise InterlockError("cycle", f"these jobs would name each other: {shown}", errors=at)


def _require_refs(refs: Sequence[str]) -> None:
    wrong = [
        FieldError(f"jobs/{number}/ref", "is used twice")
        for number, ref in enumerate(refs)
        if ref in refs[:number]
    ]
    wrong += [
        FieldError(f"jobs/{number}/ref", "looks like the id of a job")
        for number, ref in enumerate(refs)
        if ids.is_id("job", ref)
    ]
    if wrong:
        raise InterlockError("invalid", errors=wrong)


def _drafts(bus: Bus, project: str, wanted: Mapping[str, Fields], plan: Plan) -> Iterator[making.Draft]:
    """The jobs of a plan as drafts, those that wait before those they wait for."""
    inside = {fields["id"]: fields for fields in wanted.values()}
    # a millisecond apart, so that what is equal otherwise is claimed in the order in which it was written down
    at = {name: plan.created_at - number for number, name in enumerate(reversed(inside))}
    outside = {name for fields in wanted.values() for name in fields["blocked_by"] if name not in inside}
    there = load.job_heads(bus, project, sorted(outside))
    kind, _, source = plan.source.partition(":")
    actor = Actor(kind, source, plan.source_label)
    last_first = reversed(rules.order({name: fields["blocked_by"] for name, fields in inside.items()})[0])
    for name in last_first:
        fields = inside[name]
        waits_for = [there.get(up, up) for up in fields["blocked_by"]]
        head = making.head(
            project,
            fields,
            id=name,
            source=(plan.source, plan.source_label),
            now=at[name],
            waits_for=waits_for,
            excluded=_excluded(bus, project, fields, waits_for),
            trace=fields.get("trace"),
        )
        yield making.Draft(
            head,
            making.document(fields, initial(actor, at[name], name, fields["artifacts"])),
            plan.request,
            waits_for,
            (making.created(head, waits_for, plan=plan.id),),
            {head.parent: "parent"} if head.parent else {},
        )


def _excluded(bus: Bus, project: str, fields: Fields, waits_for: Sequence[Job | str]) -> list[str]:
    """Who may not claim an independent job whose upstream jobs are all there; the barrier finds out about others."""
    if not fields["independent"]:
        return []
    return neighbours.workers(bus, project, [up for up in waits_for if isinstance(up, Job)])


def _rehearsed(call: Call, wanted: Mapping[str, Fields]) -> Answer:
    plan = _plan(call, "", wanted, 0)
    status = {draft.head.id: draft.head.status for draft in _drafts(call.bus, plan.project, wanted, plan)}
    claimable = [ref for ref, fields in wanted.items() if status[fields["id"]] == PUBLISHED]
    return Answer({"claimable": claimable, "pending": [ref for ref in wanted if ref not in claimable]})


def _external_ids(call: Call, wanted: Mapping[str, Fields]) -> list[TransactionPart]:
    """The plan takes the external ids of its jobs. Raises ``already_exists``."""
    taken = [(number, fields) for number, fields in enumerate(wanted.values()) if fields["external_id"]]
    names = [fields["external_id"] for _, fields in taken]
    twice = [
        FieldError(f"jobs/{number}/external_id", "is used twice")
        for number, fields in taken
        if names.count(fields["external_id"]) > 1
    ]
    if twice:
        raise InterlockError("invalid", errors=twice)
    if len(names) > limits.PLAN_EXTERNAL_IDS:
        raise InterlockError(
            "limit_reached", f"a plan has at most {limits.PLAN_EXTERNAL_IDS} jobs with an external_id"
        )
    parts: list[TransactionPart] = []
    for number, fields in taken:
        head = making.head(the_project(call).id, fields, id=fields["id"], source=("", ""), now=call.now)
        parts += external.parts(call.bus, head, f"jobs/{number}/external_id")
    return parts


def _stage(call: Call, plan_id: str, wanted: Mapping[str, Fields]) -> int:
    """Store what was asked for beside the plan's head-to-be; answers in how many parts."""
    packed = items.pack({ref: {**fields, "trace": call.trace} for ref, fields in wanted.items()})
    pk = keys.partition(the_project(call).id, "plan", plan_id)
    puts = []
    for number, start in enumerate(range(0, len(packed), PART_BYTES)):
        key = keys.plan_part(pk, call.body_hash[:16], number)
        expires = call.now // limits.SECOND + KEPT_SECONDS
        puts.append(
            Put(key, {"pk": pk, "sk": key.sk, "doc": packed[start : start + PART_BYTES], "expires": expires})
        )
    call.bus.store.table.write_each(puts)
    return len(puts)


def make_real(bus: Bus, project: str, plan_id: str) -> None:
    """Make the jobs of a plan that are not there yet. Any number of times, by any number of callers at once."""
    plan = _head(bus, project, plan_id)
    if plan is None or plan.made:
        return
    pk = keys.partition(project, "plan", plan_id)
    parts = [keys.plan_part(pk, plan.request, number) for number in range(plan.parts)]
    stored = bus.store.table.batch_get(parts)
    if len(stored) < plan.parts:
        raise StoreError(detail=f"what plan {plan_id} was to be is gone")
    wanted = items.unpack(b"".join(stored[part]["doc"] for part in parts))
    drafts = list(_drafts(bus, project, wanted, plan))
    there = load.job_heads(bus, project, [draft.head.id for draft in drafts])
    missing = [draft for draft in drafts if draft.head.id not in there]
    # what they consist of never differs from one try to the next, so that no condition is needed
    bus.store.table.write_each(
        [replace(put, condition=None) for d in missing for put in making.staged(bus, d)]
    )
    kind, _, source = plan.source.partition(":")
    for batch in _batches(bus, missing):
        _make(bus, batch, Actor(kind, source, plan.source_label))
    heads = load.job_heads(bus, project, [draft.head.id for draft in drafts])
    for draft in drafts:
        if draft.waits_for and (head := heads.get(draft.head.id)):
            making.look_again(bus, head, draft.waits_for)
    _mark_made(bus, plan)


def _batches(
    bus: Bus, drafts: Sequence[making.Draft]
) -> Iterator[list[tuple[making.Draft, list[TransactionPart]]]]:
    """Drafts with the holds that go with their heads, as many as one transaction takes."""
    batch: list[tuple[making.Draft, list[TransactionPart]]] = []
    size = 0
    for draft in drafts:
        try:
            held = making.hold_before(bus, draft)
        except ConditionLost:
            continue  # somebody has made it meanwhile
        if size + 1 + len(held) > TOGETHER:
            yield batch
            batch, size = [], 0
        batch.append((draft, held))
        size += 1 + len(held)
    if batch:
        yield batch


def _make(bus: Bus, batch: Sequence[tuple[making.Draft, list[TransactionPart]]], actor: Actor) -> None:
    parts: list[TransactionPart] = []
    for draft, held in batch:
        parts += [write.creating(bus, draft.head, actor, draft.facts)[0], *held]
    try:
        bus.store.table.transact(parts)
    except ConditionLost:
        for draft, held in batch:
            with contextlib.suppress(write.Lost):  # it is there already
                write.create(bus, draft.head, actor, draft.facts, held)


def _mark_made(bus: Bus, plan: Plan) -> None:
    made = Change({"made": True}, (Fact("plan.made", data={"jobs": len(plan.jobs)}),))
    with contextlib.suppress(write.Lost):  # somebody else has
        write.change(bus, plan, SYSTEM, bus.clock(), made)
