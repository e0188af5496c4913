"""References inside bodies and queries: what they name must be there, else 422 and the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import load, neighbours
from interlock.app.call import Bus, Call, the_project
from interlock.domain import limits
from interlock.domain.identity import Agent, Project
from interlock.domain.job import Job
from interlock.errors import FieldError, InterlockError
from interlock.store import items, keys

FOLLOWED = 20
"""References of one body that may be to jobs which the caller sees by a link only."""


def require_role(project: Project, role: str, field: str = "role") -> None:
    """Raise ``unknown_role``, naming the roles there are, unless the role is live."""
    if role not in project.roles:
        raise unknown_role(project, role, field)


def require_each_role(project: Project, roles: Sequence[str]) -> None:
    """The live roles that the field ``roles`` lists."""
    for number, role in enumerate(roles):
        require_role(project, role, f"roles/{number}")


def require_roles(project: Project, fields: Mapping[str, Any], at: str = "") -> None:
    """The role of a job that is to be made, and those of its routing rules. ``at``: where the job stands in the body."""
    require_role(project, fields["role"], f"{at}role")
    for number, rule in enumerate(fields["routing"]):
        require_role(project, rule["role"], f"{at}routing/{number}/role")


def unknown_role(project: Project, role: str, field: str = "role") -> InterlockError:
    """The refusal of a role that is not there; ``field`` is where it was named."""
    there = ", ".join(sorted(project.roles)) or "none yet"
    detail = f"there is no role {role!r}; roles: {there}"
    return InterlockError("unknown_role", detail, errors=[FieldError(field, f"unknown role {role!r}")])


def the_named_agent(bus: Bus, project: Project, agent: str) -> Agent:
    """The agent that the field ``agent`` names. Raises ``unknown_agent``."""
    item = bus.store.table.get(keys.head(project.id, "agent", agent))
    if item is None:
        errors = [FieldError("agent", "unknown agent")]
        raise InterlockError("unknown_agent", f"there is no agent {agent}", errors=errors)
    return items.agent(item)


def require_jobs(call: Call, named: Mapping[str, str]) -> dict[str, Job]:
    """The visible jobs that a body names (id → the field that names it). Raises ``unknown_job`` with all that are not."""
    heads = load.job_heads(call.bus, the_project(call).id, list(named))
    found = {job_id: job for job_id, job in heads.items() if load.visible(job, call.actor, the_project(call))}
    unseen = [job for job_id, job in heads.items() if job_id not in found][:FOLLOWED]
    found |= {
        job.id: job for job in unseen if neighbours.sees_by_link(call.bus, job, call.actor, the_project(call))
    }
    missing = [FieldError(field, f"unknown job {name}") for name, field in named.items() if name not in found]
    if missing:
        shown = ", ".join(name for name in list(named) if name not in found)[: limits.QUOTED_CHARACTERS]
        rest = len(missing) - limits.ERRORS_NAMED
        more = f"; and {rest} more" if rest > 0 else ""
        raise InterlockError(
            "unknown_job", f"there is no job {shown}{more}", errors=missing[: limits.ERRORS_NAMED]
        )
    return found
