"""What was used: reports of holders, a job that is beyond its budget, and the budgets of a day.

A day's counter is written in one transaction with the head that the report changes, and only where somebody has set
a budget for the day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from interlock.app import decisions, load, write
from interlock.app.call import Bus, Call, the_project
from interlock.domain import decision as rules
from interlock.domain import limits, usage
from interlock.domain.claim import Reason
from interlock.domain.identity import SYSTEM, Project
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import IN_PROGRESS, LEASED
from interlock.store import conditions, items, keys
from interlock.store.ports import ConditionLost, Query, TransactionPart, Update

KEPT_DAYS = 40
"""How long a day's counters stay."""


def reported(call: Call, job: Job, change: Change) -> Change:
    """The holder's change with the usage that its call reports."""
    report = call.body.get("usage")
    if report is None:
        return change
    return replace(change, set={**change.set, "usage": usage.merged(job, report)})


def counting(call: Call, job: Job) -> list[TransactionPart]:
    """The part of the transaction that counts what the call reports, where a day's budget is set."""
    report = call.body.get("usage")
    return (
        []
        if report is None
        else _counters(call.bus, the_project(call), job, usage.merged(job, report), call.now)
    )


def _counters(
    bus: Bus, project: Project, job: Job, merged: Mapping[str, Any], now: int
) -> list[TransactionPart]:
    gained = usage.counted(usage.gained(job, merged))
    if job.assignee is None or not any(gained.values()) or not list(_budgets(project, [job.role])):
        return []
    key = keys.spend(project.id, _day(now), job.role, job.assignee)
    known = bus.store.table.get(key) or {}
    turn = known.get("turn")
    row = {
        **{name: known.get(name, 0) + amount for name, amount in gained.items()},
        "turn": (turn or 0) + 1,
        "expires": now // limits.SECOND + KEPT_DAYS * 86_400,
    }
    return [Update(key, row, (), conditions.counter_seen(turn))]


def _day(now: int) -> str:
    return f"{datetime.fromtimestamp(now / limits.SECOND, UTC):%Y%m%d}"


def _budgets(project: Project, roles: Sequence[str]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """(whose, the budget) of a day that count for jobs of these roles."""
    own = project.settings.get("daily_budget")
    if own:
        yield "", own
    for role in roles:
        found = project.roles.get(role)
        if found is not None and found.daily_budget:
            yield role, found.daily_budget


def spent_today(bus: Bus, project: Project, roles: Sequence[str], now: int) -> dict[str, Reason]:
    """The roles among these for whose jobs a day's budget is spent, and why. Reads nothing where none is set."""
    found: dict[str, Reason] = {}
    for whose, budget in _budgets(project, roles):
        amounts = _sum(bus, keys.spend_partition(project.id, _day(now)), f"{whose}#" if whose else "")
        beyond = [
            name for name in usage.BUDGETED if budget.get(name) is not None and amounts[name] >= budget[name]
        ]
        if not beyond:
            continue
        told = ", ".join(
            f"{usage.shown(name, amounts[name])} of {usage.shown(name, budget[name])}" for name in beyond
        )
        name = f"role {whose}" if whose else "the project"
        reason = Reason("budget_spent", f"the day's budget of {name} is spent: {told}", _midnight(now))
        for role in [whose] if whose else roles:
            found.setdefault(role, reason)
    return found


def _midnight(now: int) -> int:
    return (now // limits.DAY + 1) * limits.DAY


def _sum(bus: Bus, pk: str, prefix: str) -> dict[str, int]:
    total = dict.fromkeys(usage.BUDGETED, 0)
    after: str | None = None
    while True:
        page = bus.store.table.query(Query(pk, prefix=prefix, after=after, limit=1_000))
        for row in page.items:
            for name in total:
                total[name] += row.get(name, 0)
        if not page.more or not page.items:
            return total
        after = page.items[-1]["sk"]


def beat(call: Call, job: Job, report: Mapping[str, Any]) -> Job | None:
    """Take a report that comes with a heartbeat, and renew the lease in the same write; no event, no version.

    Of two reports at once both count. Answers the job as it is then; None when it is not the caller's any more.
    """
    bus, project, me = call.bus, the_project(call), call.actor.id
    for turn in range(write.TRIES):
        found = job if turn == 0 else load.job_head(bus, job.project, job.id)
        if found is None or not found.held_by(me) or found.fence != job.fence:
            return None
        merged = usage.merged(found, report)
        attributes: dict[str, Any] = {}
        if merged != found.usage:
            attributes |= {"usage": merged, "reports": found.reports + 1}
        if found.status in LEASED:
            until = call.now + found.running_lease() * limits.SECOND
            attributes |= {"lease_until": until} if until > (found.lease_until or 0) else {}
        if not attributes:
            return found
        condition = conditions.report_next(me, found.fence, found.version, found.reports)
        parts = _counters(bus, project, found, merged, call.now)
        if _quietly(bus, found, attributes, condition, parts):
            return replace(found, **attributes)
    raise write.Lost


def _quietly(
    bus: Bus,
    job: Job,
    attributes: Mapping[str, Any],
    condition: conditions.Condition,
    parts: Sequence[TransactionPart],
) -> bool:
    if not parts:
        return write.quietly(bus, job, attributes, condition)
    to_set, to_remove = items.encode(attributes)
    try:
        bus.store.table.transact([Update(items.head_key(job), to_set, to_remove, condition), *parts])
    except ConditionLost:
        return False  # one that took effect although its answer was lost finds its report there
    return True


def judge(bus: Bus, job: Job, now: int) -> Job:
    """Block the job, with a decision, when it is in progress beyond its budget; answers it as it is then."""
    if job.budget is None:
        return job
    for _ in range(write.TRIES):
        found = rules.exceed_budget(job, now)
        if found is None:
            return job
        change, asked = found
        held = conditions.held(job.assignee or "", job.fence, job.version, (IN_PROGRESS,))
        try:
            return write.change(
                bus, job, SYSTEM, now, change, condition=held, parts=[decisions.opening(asked)]
            )
        except write.Lost:
            job = write.reload(bus, job)
    raise write.Lost
