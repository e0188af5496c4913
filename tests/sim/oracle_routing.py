"""What must be true of the jobs that follow from others: judged from the rules, the ledgers and the heads.

Which jobs there must be is computed again from the rules and from what the ended job's ledger tells of its endings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.domain import ids
from interlock.domain.job import Job
from interlock.domain.lifecycle import ENDED
from interlock.store import items, keys
from interlock.store.ports import Key

Events = Sequence[Mapping[str, Any]]


def of(state: Any, *, complete: bool) -> Iterator[str]:
    """Everything that is wrong with routing; with ``complete`` no ending may be left unrouted."""
    children: dict[str, list[Job]] = {}
    for job in state.jobs:
        if job.routed_from:
            children.setdefault(job.routed_from, []).append(job)
    jobs = {job.id: job for job in state.jobs}
    yield from (f"{job} routed others, and is not there" for job in children.keys() - jobs.keys())
    for job in jobs.values():
        for wrong in _of_job(job, children.get(job.id, []), state, complete=complete):
            yield f"{job.id}: {wrong}"


def _of_job(job: Job, children: Sequence[Job], state: Any, *, complete: bool) -> Iterator[str]:
    pk = keys.partition(job.project, "job", job.id)
    events, rules = state.events[pk], _rules(state, pk)
    if rules is None:
        return
    if {rule["on"] for rule in rules} != set(job.routing):
        yield f"it has rules for {job.routing}, which are {rules}"
    told = [event["data"] for event in events if event["type"] == "job.routed"]
    endings = _endings(events, rules)
    left = job.unrouted or {}
    if len(told) + len(left) != len(endings):
        yield f"{len(endings)} endings {endings}, {len(told)} events of routing, {left} left"
    if complete and left:
        yield f"{left} were never routed"
    routed = [(seq, status) for seq, status in endings if str(seq) not in left]
    named: list[str] = []
    for (seq, status), data in zip(routed, told, strict=False):
        skipped = {entry["rule"] for entry in data["skipped"]}
        listed = [number for number, rule in enumerate(rules) if rule["on"] == status]
        wanted = [
            ids.derived("job", job.id, "route", str(number), str(seq))
            for number in listed
            if number not in skipped
        ]
        if data["created"] != wanted or not skipped <= set(listed):
            yield f"its ending {status} at {seq} was routed as {data}, which should be {wanted}"
        named += wanted
    if sorted(named) != sorted(child.id for child in children):
        yield f"it tells of {named}, there are {[child.id for child in children]}"
    yield from (
        f"{child.id} says {child.parent}, {child.source}"
        for child in children
        if (child.parent, child.source) != (job.id, job.source)
    )


def _rules(state: Any, pk: str) -> list[dict[str, Any]] | None:
    """The rules of a job; None where they stand in a blob."""
    body = state.items.get(Key(pk, keys.BODY), {})
    return list(items.unpack(body["doc"]).get("routing", ())) if "doc" in body else None


def _endings(events: Events, rules: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """(event, status) of every ending for which there are rules."""
    ends = {rule["on"] for rule in rules} & set(ENDED)
    return [(e["seq"], e["to"]) for e in events if e["to"] in ends and e["from"] != e["to"]]
