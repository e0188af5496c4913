"""Notices: what the caller should know now. Derived from what is true, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.app import load
from interlock.app.call import Bus
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import FAILED, HELD
from interlock.store import keys
from interlock.store.ports import Query

LOOKED_AT = 50
"""Failed jobs, and held ones, that an owner's notices look at."""


def of_agent(actor: Actor, project: Project, held: Sequence[Job]) -> list[dict[str, Any]]:
    """Pauses that bind the agent's next claim, and held jobs past their deadline."""
    found: list[dict[str, Any]] = []
    if actor.kind == "agent":
        for target, pause in project.pauses.items():
            kind, _, name = target.partition(":")
            if (
                kind == "project"
                or (kind == "role" and name in actor.roles)
                or (kind == "agent" and name == actor.id)
            ):
                found.append(
                    {
                        "code": "paused",
                        "detail": f"claims of {target.replace(':', ' ')} are paused",
                        "reason": pause.get("reason"),
                    }
                )
    found.extend(
        {"code": "overdue", "job": job.id, "detail": "the job is past its deadline"}
        for job in held
        if job.overdue
    )
    return found


def of_owner(bus: Bus, project: Project) -> list[dict[str, Any]]:
    """What asks for an owner: the latest failures whose retries are spent, and held jobs past their deadline."""
    failed = Query(keys.failed_partition(project.id), index=1, limit=LOOKED_AT, forward=False)
    held = Query(keys.live_partition(project.id), index=1, limit=LOOKED_AT)
    rows = [*bus.store.table.query(failed).items, *bus.store.table.query(held).items]
    heads = load.job_heads(bus, project.id, [keys.entity_of(row["pk"])[2] for row in rows])
    found: list[dict[str, Any]] = []
    for job in heads.values():
        if job.status == FAILED and job.retry_count >= job.max_retries:
            detail = f"{job.failure_reason}; all {job.max_retries} retries are used"
            found.append({"code": "retries_spent", "job": job.id, "detail": detail})
        elif job.status in HELD and job.overdue:
            found.append({"code": "overdue", "job": job.id, "detail": "the job is past its deadline"})
    return found
