"""What a caller may send of projects and of the bus itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_serializer, model_validator

from interlock.domain import limits
from interlock.edges.models.fields import (
    Cap,
    Id,
    Key,
    Label,
    Lease,
    Model,
    ProjectId,
    Reason,
    Text,
    distinct,
)
from interlock.edges.models.usage import DailyBudget


def _only_true(value: Any) -> Any:
    if value is not True:
        raise ValueError("must be true")
    return value


class Settings(Model):
    """A project's settings; what is not sent stays."""

    visibility: Literal["project", "roles"] = "project"
    lease_seconds: Lease = limits.DEFAULT_LEASE_SECONDS
    cancel_overdue: bool = False
    max_claims: Cap | None = None
    daily_budget: DailyBudget | None = None
    retention_days: Annotated[int, Field(ge=limits.RETENTION_DAYS[0], le=limits.RETENTION_DAYS[1])] | None = (
        None
    )

    @model_serializer
    def _sent(self) -> dict[str, Any]:
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


class ProjectCreate(Model):
    """A project."""

    id: ProjectId
    title: Label
    settings: Settings | None = None


class ProjectEdit(Model):
    """Fields to change; what is not sent stays."""

    title: Label = ""
    settings: Settings | None = None


class Pause(Model):
    """Exactly one of project, role, agent."""

    project: Annotated[Literal[True], BeforeValidator(_only_true)] | None = None
    role: Key | None = None
    agent: Id | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _one(self) -> Pause:
        if sum(name is not None for name in (self.project, self.role, self.agent)) != 1:
            raise ValueError("name exactly one of project, role, agent")
        return self


class Broadcast(Model):
    """What owners tell the agents of the project, or those of some roles, and for how long (seconds)."""

    text: Annotated[str, Text(limits.BROADCAST_CHARACTERS)]
    roles: Annotated[list[Key], Field(max_length=limits.AGENT_ROLES), AfterValidator(distinct)] = []
    expires_in: Annotated[int, Field(ge=limits.BROADCAST_SECONDS[0], le=limits.BROADCAST_SECONDS[1])] = (
        limits.DEFAULT_BROADCAST_SECONDS
    )


class Repair(Model):
    """The entity, as the ledger names it: `job/<id>`, `plan/<id>`, `agent/<id>`, `presence/<agent>`, `owner/<id>`, `project/<id>`."""

    entity: Annotated[
        str,
        Field(pattern=rf"^(job|plan|agent|presence|owner|project)/[a-z0-9_-]{{1,{limits.ID_CHARACTERS}}}$"),
    ]


class Redrive(Model):
    """Which dead letters."""

    queue: Literal["lease-dead", "barrier-dead", "routing-dead", "dispatch-dead"]
