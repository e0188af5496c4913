"""What a caller may send of roles, agents, owners and tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from interlock.domain import limits
from interlock.edges.models.fields import Capabilities, Key, Label, Lease, Model, OnExpire, RoleKey


class RoleCreate(Model):
    """A role."""

    key: RoleKey
    label: Label
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities = []
    independent: bool = False


class RoleEdit(Model):
    """Fields to change; what is not sent stays."""

    label: Label = ""
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities | None = None
    independent: bool = False


class AgentCreate(Model):
    """An agent to enrol."""

    label: Label
    roles: Annotated[list[Key], Field(min_length=1, max_length=limits.AGENT_ROLES)]
    tool_family: Label | None = None
    capabilities: Capabilities = []


class AgentEdit(Model):
    """Fields to change; what is not sent stays."""

    label: Label = ""
    roles: Annotated[list[Key], Field(max_length=limits.AGENT_ROLES)] = []
    tool_family: Label | None = None
    capabilities: Capabilities = []


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
