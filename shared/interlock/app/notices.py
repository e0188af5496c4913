"""Notices: what the caller should know now. Derived from what is true, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.app import attention
from interlock.app.call import Bus
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job

OF_OWNER = 20
LOOKED_AT = 100
"""Notices of an owner, and what is looked at for them: the beginning of what `GET P/attention` answers."""


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


def of_owner(bus: Bus, project: Project, now: int) -> list[dict[str, Any]]:
    """What asks for an owner first: the beginning of what needs a person."""
    found = attention.look(bus, project, now, OF_OWNER, rows=LOOKED_AT)
    return [{"code": need.kind, "job": job.id, "detail": need.detail} for job, need in found.needs]
