"""References inside bodies and queries: what they name must be there, else 422 and the way out."""

from __future__ import annotations

from interlock.app.call import Bus
from interlock.domain.identity import Agent, Project
from interlock.errors import FieldError, InterlockError
from interlock.store import items, keys


def require_role(project: Project, role: str, field: str = "role") -> None:
    """Raise ``unknown_role``, naming the roles there are, unless the role is live."""
    if role not in project.roles:
        raise unknown_role(project, role, field)


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
