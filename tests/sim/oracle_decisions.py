"""What must be true of decisions, whatever happened: the part of oracle.py that reads them beside the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.domain import limits
from interlock.domain.decision import (
    ANSWERED,
    ASKED,
    BUDGET,
    EXPIRED,
    LAPSE,
    OPEN,
    WITHDRAWN,
    Decision,
)
from interlock.domain.job import Job
from interlock.domain.lifecycle import BLOCKED, HELD
from interlock.store import decisions as stored
from interlock.store import keys
from interlock.store.ports import Item

Event = Mapping[str, Any]
_ASKS = {"job.decision_requested": ASKED, "job.lease_expired": LAPSE, "job.budget_exceeded": BUDGET}
"""Events that ask a decision, and why it is asked."""
_CLOSES = {
    "job.decision_answered": ANSWERED,
    "job.decision_withdrawn": WITHDRAWN,
    "job.decision_expired": EXPIRED,
}


def of(state: Any, *, complete: bool) -> list[str]:
    """Everything that is wrong; ``complete``: nothing is under way any more."""
    rows: dict[str, dict[str, Item]] = defaultdict(dict)
    for key, item in state.items.items():
        if key.sk.startswith(keys.DECISION_PREFIX):
            rows[key.pk][key.sk.removeprefix(keys.DECISION_PREFIX)] = item
    found = []
    for pk, head in state.heads.items():
        if isinstance(head, Job):
            told = _Told(state.events[pk])
            wrong = [
                *_of_rows(head, rows.pop(pk, {}), told, complete=complete),
                *_of_head(head, told, complete=complete),
            ]
            found += [f"{head.id}: {each}" for each in wrong]
    found += [f"{pk}: decisions without a job: {list(left)}" for pk, left in rows.items() if left]
    return found


def overdue(state: Any, now: int) -> Iterable[str]:
    """Decisions that stayed open beyond their time, after everything was carried out."""
    for job in state.jobs:
        for name, entry in (job.asked or {}).items():
            if entry.get("until", now) < now:
                yield f"{name} is open beyond its time"


class _Told:
    """What a job's ledger tells of its decisions: which event asked each, which closed it, and who held the job."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.asked: dict[str, Event] = {}
        self.closed: dict[str, list[Event]] = defaultdict(list)
        self.holder_at: dict[int, str | None] = {}
        holder = None
        for event in events:
            self.holder_at[event["seq"]] = holder
            kind, data = event["type"], event["data"]
            if kind in _ASKS and data.get("decision"):
                self.asked[data["decision"]] = event
            if kind in _CLOSES:
                for name in data["decisions"] if "decisions" in data else [data["decision"]]:
                    self.closed[name].append(event)
            if kind in ("job.claimed", "job.restarted"):
                holder = event["actor"]["id"]
            elif (event["to"] is not None and event["to"] not in HELD) or kind == "job.lease_expired":
                holder = None

    def state(self, name: str) -> str:
        """How the ledger says that a decision stands."""
        ends = self.closed.get(name)
        return _CLOSES[ends[0]["type"]] if ends else OPEN


def _of_rows(job: Job, rows: Mapping[str, Item], told: _Told, *, complete: bool) -> Iterable[str]:
    if rows.keys() != told.asked.keys():
        yield f"decisions {sorted(rows)}, its ledger asked {sorted(told.asked)}"
    for name, ends in told.closed.items():
        if len(ends) > 1:
            yield f"{name} was closed {len(ends)} times: {[end['type'] for end in ends]}"
        if name not in told.asked:
            yield f"{name} was closed and never asked"
    for name, item in rows.items():
        found = stored.read(item)
        for wrong in [*_of_row(job, found, item, complete=complete), *_of_ledger(found, told)]:
            yield f"{name}: {wrong}"


def _of_row(job: Job, found: Decision, item: Item, *, complete: bool) -> Iterable[str]:
    if found.id != item["sk"].removeprefix(keys.DECISION_PREFIX) or found.job != job.id:
        yield f"it says that it is {found.id} of {found.job}"
    if ("g1pk" in item) != (found.state == OPEN) or "g2pk" not in item:
        yield f"{found.state}, and its index keys are {[name for name in item if name.startswith('g')]}"
    named = found.id in (job.asked or {})
    if found.state == OPEN and not named and found.id not in job.moot:
        yield "open, and its job does not know it"
    if found.state == OPEN and found.id in job.moot and complete:
        yield "open, though its claim has ended"
    if found.state != OPEN and named:
        yield f"{found.state}, and its job holds it for open"
    if (found.closed_at is None) != (found.state == OPEN) or (found.closed_by is None) != (
        found.state == OPEN
    ):
        yield f"{found.state}, closed by {found.closed_by} at {found.closed_at}"
    if found.state != ANSWERED and (found.answer is not None or found.findings or found.data is not None):
        yield f"{found.state}, and it has an answer"
    if named:
        entry = (job.asked or {})[found.id]
        if tuple(entry["roles"]) != found.roles or entry.get("until") != found.expires_at:
            yield f"its job says {entry}"


def _of_ledger(found: Decision, told: _Told) -> Iterable[str]:
    if told.state(found.id) != found.state and found.state != OPEN:
        yield f"{found.state}; the ledger says {told.state(found.id)}"
    asked = told.asked.get(found.id)
    if asked is None:
        return
    if found.id.rpartition("_")[2] != str(asked["seq"]) or _ASKS[asked["type"]] != found.cause:
        yield f"of cause {found.cause}, asked by {asked['type']} at {asked['seq']}"
    who = told.holder_at[asked["seq"]] if found.cause == ASKED else None
    if found.cause == ASKED and (
        asked["actor"]["id"] != who
        or asked["actor"] != dict(found.asked_by)
        or asked["data"]["rev"] != found.rev
    ):
        yield f"asked by {found.asked_by} about {found.rev}, the ledger says {asked}; {who} held the job"
    for end in told.closed.get(found.id, ())[:1]:
        by = found.closed_by
        if by is not None and by["kind"] != "system" and end["actor"] != dict(by):
            yield f"closed by {by}, the ledger says {end['actor']}"
        if end["type"] == "job.decision_answered" and end["actor"]["id"] in (
            found.asked_by["id"],
            told.holder_at[end["seq"]],
        ):
            yield f"answered by {end['actor']}, who asked it or held the job"
        if end["seq"] <= asked["seq"]:
            yield f"closed at {end['seq']}, asked at {asked['seq']}"


def _of_head(job: Job, told: _Told, *, complete: bool) -> Iterable[str]:
    still = {name for name in told.asked if told.state(name) == OPEN}
    if still != set(job.asked or {}):
        yield f"asked {sorted(job.asked or {})}, its ledger left {sorted(still)} open"
    if job.asked and job.status not in HELD:
        yield f"{job.status} with open decisions"
    by_holder = [name for name in still if told.asked[name]["type"] == "job.decision_requested"]
    if len(by_holder) > limits.DECISIONS:
        yield f"{len(by_holder)} open decisions"
    if complete and job.moot:
        yield f"decisions that nobody has closed: {job.moot}"
    if set(job.moot) - {name for name in told.asked if told.state(name) == WITHDRAWN}:
        yield f"moot {job.moot} and not withdrawn"
    if job.decision is not None and (
        job.status != BLOCKED
        or told.state(job.decision) not in (OPEN, EXPIRED)
        or job.decision not in told.asked
    ):
        yield f"{job.status} by decision {job.decision}, which is {told.state(job.decision)}"
    if job.status == BLOCKED and job.assignee is None:
        asked = told.asked.get(job.decision or "")
        if asked is None or asked["type"] != "job.lease_expired" or told.state(job.decision or "") != OPEN:
            yield f"held by nobody, and blocked by {job.decision}"
    if len(job.answered) > limits.ANSWERS_REMEMBERED or set(job.answered) - told.closed.keys():
        yield f"told of answers {job.answered}"
    if job.answered and job.assignee is None:
        yield "answers, and nobody to tell"
    if job.approved is not None:
        ends = told.closed.get(job.approved["decision"], [])
        if [(end["type"], end["data"].get("answer")) for end in ends] != [
            ("job.decision_answered", "approve")
        ]:
            yield f"approved by {job.approved}, and the ledger says {ends}"


def named(state: Any, job: str) -> Sequence[Decision]:
    """A job's decisions as they are stored, oldest first."""
    rows = [
        stored.read(item)
        for key, item in state.items.items()
        if key.sk.startswith(keys.DECISION_PREFIX) and key.pk.endswith(f"#job#{job}")
    ]
    return sorted(rows, key=lambda each: int(each.id.rpartition("_")[2]))
