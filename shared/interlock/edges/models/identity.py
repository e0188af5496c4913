"""What a caller may send of roles, agents, owners and tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from interlock.domain import limits
from interlock.edges.models.fields import (
    Cap,
    Capabilities,
    Key,
    Label,
    Lease,
    Model,
    OnExpire,
    Reason,
    RoleKey,
)
from interlock.edges.models.usage import DailyBudget


class RoleCreate(Model):
    """A role."""

    key: RoleKey
    label: Label
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities = []
    independent: bool = False
    max_claims: Cap | None = None
    daily_budget: DailyBudget | None = None


class RoleEdit(Model):
    """Fields to change; what is not sent stays."""

    label: Label = ""
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities | None = None
    independent: bool = False
    max_claims: Cap | None = None
    daily_budget: DailyBudget | None = None


class AgentCreate(Model):
    """An agent to enrol."""

    label: Label
    roles: Annotated[list[Key], Field(min_length=1, max_length=limits.AGENT_ROLES)]
    tool_family: Label | None = None
    capabilities: Capabilities = []
    max_claims: Cap | None = None


class AgentEdit(Model):
    """Fields to change; what is not sent stays."""

    label: Label = ""
    roles: Annotated[list[Key], Field(max_length=limits.AGENT_ROLES)] = []
    tool_family: Label | None = None
    capabilities: Capabilities = []
    max_claims: Cap | None = None


class AgentStop(Model):
    """Why an agent is stopped, and where the jobs that it holds go."""

    reason: Reason
    then: Literal["publish", "fail", "cancel"] = "publish"


class OwnerCreate(Model):
    """An owner to enrol: a person with owner or viewer rights."""

    label: Label
    rights: Literal["owner", "viewer"] = "owner"


class TokenCreate(Model):
    """A further token; without `expires_in` (seconds) it lasts until it is revoked."""

    name: Label | None = None
    expires_in: Annotated[int, Field(ge=limits.TOKEN_SECONDS[0], le=limits.TOKEN_SECONDS[1])] | None = None


class TokenRotate(Model):
    """How long (seconds) the old token still works."""

    grace_seconds: Annotated[int, Field(ge=limits.GRACE_SECONDS[0], le=limits.GRACE_SECONDS[1])] = 3_600
