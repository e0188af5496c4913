"""Usage and budgets: what agents report, what the bus meters, and what may be used.

Inside, amounts are integers: tokens, micro-dollars, milliseconds. A report is cumulative under one fence: of each
amount the larger of what is known and what is sent counts, so that reports may come twice, late and out of order.

``job.usage`` is ``{fence, now, past, carried, carried_metered, model}``: the amounts reported under ``fence``, under
earlier fences, and by the jobs that this one is a retry of; for how long those were in progress; the latest model named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.domain import limits
from interlock.domain.job import Job
from interlock.domain.lifecycle import IN_PROGRESS
from interlock.errors import FieldError, InterlockError

AMOUNTS = ("input_tokens", "output_tokens", "usd", "seconds")
BUDGETED = ("tokens", "usd", "seconds")
METERED = "metered"


def _sum(*amounts: Mapping[str, int]) -> dict[str, int]:
    found = {name: sum(each.get(name, 0) for each in amounts) for name in AMOUNTS}
    return {name: value for name, value in found.items() if value}


def merged(job: Job, report: Mapping[str, Any]) -> dict[str, Any]:
    """``job.usage`` with a report under the job's fence."""
    known = job.usage or {}
    current = dict(known.get("now", {})) if known.get("fence") == job.fence else {}
    past = (
        known.get("past", {})
        if known.get("fence") == job.fence
        else _sum(known.get("past", {}), known.get("now", {}))
    )
    for name in AMOUNTS:
        sent = report.get(name)
        if sent is not None and sent > current.get(name, 0):
            current[name] = sent
    found: dict[str, Any] = {**known, "fence": job.fence, "now": current}
    changed = {"past": past, "model": report.get("model")}
    return found | {name: value for name, value in changed.items() if value}


def gained(before: Job, after: Mapping[str, Any]) -> dict[str, int]:
    """What a report adds to all that was reported: what a day's counter gains."""
    known = before.usage or {}
    old = known.get("now", {}) if known.get("fence") == after["fence"] else {}
    return {name: more for name in AMOUNTS if (more := after["now"].get(name, 0) - old.get(name, 0)) > 0}


def told(job: Job, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an event says of the amounts reported under a claim that ends; None where nothing was."""
    known = values.get("usage", job.usage) or {}
    if known.get("fence") != job.fence or not known.get("now"):
        return None
    model = {"model": known["model"]} if "model" in known else {}
    return {"fence": job.fence, **plain(known["now"]), **model}


def plain(amounts: Mapping[str, int]) -> dict[str, Any]:
    """Amounts as callers see them: tokens, dollars, seconds."""
    return {
        "input_tokens": amounts.get("input_tokens", 0),
        "output_tokens": amounts.get("output_tokens", 0),
        "usd": amounts.get("usd", 0) / 1_000_000,
        "seconds": amounts.get("seconds", 0) / limits.SECOND,
    }


def budget(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A budget as it is kept: the amounts that it limits, and what is counted."""
    return None if given is None else {name: value for name, value in given.items() if value is not None}


def counted(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts as budgets count them: all tokens together."""
    tokens = amounts.get("input_tokens", 0) + amounts.get("output_tokens", 0)
    return {"tokens": tokens, "usd": amounts.get("usd", 0), "seconds": amounts.get("seconds", 0)}


def reported(job: Job) -> dict[str, int]:
    """All that was reported of this job."""
    known = job.usage or {}
    return _sum(known.get("past", {}), known.get("now", {}))


def carried(job: Job) -> dict[str, int]:
    """What the jobs before it in its lineage used."""
    return dict((job.usage or {}).get("carried", {}))


def handed_on(job: Job) -> dict[str, Any] | None:
    """The usage with which a retry of this job begins; metered time is carried as ``metered``."""
    amounts = _sum(reported(job), carried(job))
    time = job.metered + int((job.usage or {}).get("carried_metered", 0))
    found = {"carried": amounts, "carried_metered": time}
    return (
        {"fence": 0, "now": {}, **{name: value for name, value in found.items() if value}}
        if amounts or time
        else None
    )


def metered(job: Job, now: int) -> int:
    """Milliseconds in progress so far, as the bus has metered them."""
    since = job.running if job.running is not None else job.started_at
    return job.metered + (max(0, now - since) if job.status == IN_PROGRESS and since is not None else 0)


def spent(job: Job, now: int) -> dict[str, int]:
    """What counts against the job's budget: over its lineage, reported or metered."""
    if (job.budget or {}).get("count") == METERED:
        return {"seconds": metered(job, now) + int((job.usage or {}).get("carried_metered", 0))}
    return counted(_sum(reported(job), carried(job)))


def beyond(budget: Mapping[str, Any] | None, amounts: Mapping[str, int]) -> list[str]:
    """The amounts that are over the budget."""
    return [
        name
        for name in BUDGETED
        if budget is not None and budget.get(name) is not None and amounts.get(name, 0) > budget[name]
    ]


def over(job: Job, now: int) -> str | None:
    """What the job used beyond its budget, in words; None when it is within it."""
    amounts = spent(job, now)
    names = beyond(job.budget, amounts)
    if not names or job.budget is None:
        return None
    return ", ".join(f"{shown(name, amounts[name])} of {shown(name, job.budget[name])}" for name in names)


def exceeded(job: Job, now: int) -> dict[str, Any]:
    """What an event says of a job that is beyond its budget: which amounts are, all that is spent, and the budget."""
    amounts, budget = spent(job, now), job.budget or {}
    return {
        "fence": job.fence,
        "what": beyond(job.budget, amounts),
        "spent": {name: as_sent(name, amount) for name, amount in amounts.items()},
        "budget": {name: as_sent(name, budget[name]) for name in BUDGETED if budget.get(name) is not None},
    }


_UNITS = {"tokens": (1, "tokens"), "usd": (1_000_000, "USD"), "seconds": (limits.SECOND, "s")}


def as_sent(name: str, amount: int) -> float:
    """An amount as callers write it: tokens, dollars, seconds."""
    unit, _ = _UNITS[name]
    return amount if unit == 1 else amount / unit


def shown(name: str, amount: int) -> str:
    """An amount in words."""
    unit, word = _UNITS[name]
    return f"{amount / unit:,.6f}".rstrip("0").rstrip(".") + f" {word}"


_MOST = {"tokens": limits.USAGE_TOKENS, "usd": limits.USAGE_USD, "seconds": limits.USAGE_SECONDS}


def raised(job: Job, data: Any, now: int) -> dict[str, Any]:
    """The budget that an owner gives: ``data`` names amounts as callers write them. Raises ``invalid`` unless each is a
    number above what is spent, and none that is spent is left as it is."""
    budget = dict(job.budget or {})
    given = data if isinstance(data, Mapping) else {}
    unknown = [name for name in given if name not in BUDGETED]
    if unknown or not given:
        raise _wrong("data", "names the new amounts: tokens, usd, seconds")
    if budget.get("count") == METERED and given.keys() != {"seconds"}:
        raise _wrong("data", "names seconds only: the budget counts what the bus meters")
    for name, value in given.items():
        sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST[name]
        if not sound or (name == "tokens" and not isinstance(value, int)):
            raise _wrong(f"data/{name}", f"is a number from 0 to {_MOST[name]:,}")
        budget[name] = round(value * _UNITS[name][0])
    amounts = spent(job, now)
    for name in BUDGETED:
        if budget.get(name) is not None and amounts.get(name, 0) >= budget[name]:
            raise _wrong(f"data/{name}", f"must be above what is spent: {shown(name, amounts.get(name, 0))}")
    return budget


def _wrong(path: str, message: str) -> InterlockError:
    return InterlockError("invalid", f"{path} {message}", errors=[FieldError(path, message)])
