"""What follows from every change of a job, whichever operation makes it: time is metered, what was reported under a
claim that ends is recorded, and decisions that nobody needs any more are left to the bus to close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.domain import usage
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import HELD, IN_PROGRESS


def follow(job: Job, change: Change, now: int) -> Change:
    """The change with what follows from it: further attributes, further facts."""
    status, fence = change.set.get("status", job.status), change.set.get("fence", job.fence)
    ended = job.status in HELD and (status not in HELD or fence != job.fence)
    attributes = {**change.set, **_metered(job, change.set, now, ended=ended)}
    facts = change.facts
    over = _over(job, attributes, now)
    if (bool(over) or None) != job.spent:
        attributes["spent"] = bool(over) or None
    if ended and (told := usage.told(job, attributes)):
        told |= {"over_budget": over} if over else {}
        facts = (*facts, Fact("job.usage_reported", data=told))
    if ended and (moot := _moot(job, attributes)):
        attributes |= moot
        withdrawn = {"decisions": moot["moot"][len(job.moot) :], "reason": "the claim has ended"}
        facts = (*facts, Fact("job.decision_withdrawn", status, status, withdrawn))
    return Change(attributes, facts, change.work, change.remembers)


def _metered(job: Job, values: Mapping[str, Any], now: int, *, ended: bool) -> dict[str, Any]:
    """Time in progress: counted when a stretch of it ends; ``running`` where it did not begin with the claim."""
    found: dict[str, Any] = {}
    status = values.get("status", job.status)
    runs_on = job.status == status == IN_PROGRESS and not ended
    if job.status == IN_PROGRESS and not runs_on:
        since = job.running if job.running is not None else job.started_at
        found["metered"] = job.metered + max(0, now - (now if since is None else since))
    if not runs_on and (status == IN_PROGRESS or job.running is not None):
        resumed = status == IN_PROGRESS and values.get("started_at", job.started_at) != now
        found["running"] = now if resumed else None
    return found


def _over(job: Job, values: Mapping[str, Any], now: int) -> str | None:
    """What the job has used beyond its budget once the change is made."""
    if values.get("budget", job.budget) is None:
        return None
    fields = ("status", "budget", "usage", "metered", "running", "started_at")
    return usage.over(replace(job, **{name: values[name] for name in fields if name in values}), now)


def _moot(job: Job, values: Mapping[str, Any]) -> dict[str, Any]:
    """Decisions that were open under the claim that has ended; those that the change itself asks stay."""
    asked = values.get("asked", job.asked) or {}
    over = [name for name in (job.asked or {}) if name in asked]
    if not over:
        return {}
    left = {name: entry for name, entry in asked.items() if name not in over}
    return {"asked": left or None, "moot": (*job.moot, *over)}
