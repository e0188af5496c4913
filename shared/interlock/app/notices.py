"""Notices: what the caller should know now. Derived from what is true, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job


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
