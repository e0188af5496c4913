"""What must be true of usage, whatever happened: reports, metered time and the day's counters, re-computed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.domain import usage
from interlock.domain.job import Job
from interlock.domain.lifecycle import HELD, IN_PROGRESS, OPEN
from interlock.domain.times import parse_rfc3339

Event = Mapping[str, Any]


def of(state: Any) -> list[str]:
    """Everything that is wrong."""
    slept = any(
        event["type"] == "project.bus_resumed" for events in state.events.values() for event in events
    )
    found = []
    for pk, job in state.heads.items():
        if isinstance(job, Job) and job.archived is None:
            wrong = [*_of_reports(job, state.events[pk]), *_of_budget(job)]
            wrong += [] if slept else _of_time(job, state.events[pk])
            found += [f"{job.id}: {each}" for each in wrong]
    for project, counted in day_counters(state).items():
        said = reported(state, project)
        if any(counted[name] > said[name] for name in usage.BUDGETED):
            found.append(f"{project}: counted {dict(counted)}, and its jobs say {said}")
    return found


def reported(state: Any, project: str = "default") -> dict[str, int]:
    """All that the heads of a project's jobs say was reported of them, as budgets count it."""
    total: Counter[str] = Counter()
    for job in state.jobs:
        if job.project == project:
            total.update(usage.counted(usage.reported(job)))
    return {name: total[name] for name in usage.BUDGETED}


def day_counters(state: Any) -> dict[str, Counter[str]]:
    """What was counted for all days together, by project."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for key, row in state.items.items():
        project, kind, *_ = key.pk.split("#")
        if kind == "spend":
            found[project].update({name: row[name] for name in usage.BUDGETED})
    return found


def _sent(data: Mapping[str, Any]) -> dict[str, int]:
    units = {"input_tokens": 1, "output_tokens": 1, "usd": 1_000_000, "seconds": 1_000}
    return {name: round(data[name] * unit) for name, unit in units.items()}


def _of_reports(job: Job, events: Sequence[Event]) -> Iterable[str]:
    """Each claim under which something was reported is told once, when it has ended; nothing is lost or doubled."""
    told: Counter[int] = Counter()
    total: Counter[str] = Counter()
    for event in events:
        if event["type"] == "job.usage_reported":
            told[event["data"]["fence"]] += 1
            total.update(_sent(event["data"]))
    if any(count > 1 for count in told.values()):
        yield f"usage of one claim is told twice: {dict(told)}"
    known = job.usage or {}
    if job.status in HELD and known.get("fence") == job.fence:
        total.update(known["now"])
    said = usage.reported(job)
    if any(total[name] != said.get(name, 0) for name in usage.AMOUNTS):
        yield f"its events tell {dict(total)}, its head says {said}"


def _of_budget(job: Job) -> Iterable[str]:
    if job.status in OPEN and bool(job.spent) != bool(usage.over(job, 0)):
        yield f"spent is {job.spent}, and what is over is {usage.over(job, 0)}"


def _of_time(job: Job, events: Sequence[Event]) -> list[str]:
    """Metered is the time between the events that brought the job in progress and out of it."""
    time, since = 0, None
    for event in events:
        at = parse_rfc3339(event["at"])
        if event["from"] == IN_PROGRESS and event["to"] != IN_PROGRESS and since is not None:
            time, since = time + max(0, at - since), None
        elif event["to"] == IN_PROGRESS and event["from"] != IN_PROGRESS:
            since = at
    return [] if job.metered == time else [f"metered {job.metered} ms, and its events say {time}"]
