"""What a caller may send of a job outside a claim."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from interlock.domain import limits
from interlock.edges import jsonio
from interlock.edges.models.artifacts import Artifact
from interlock.edges.models.fields import (
    Capabilities,
    Constraints,
    Context,
    CustomType,
    EventData,
    ExternalId,
    Fence,
    Id,
    Key,
    Lease,
    Model,
    Moment,
    OnExpire,
    Priority,
    Reason,
    Requires,
    Retries,
    Summary,
    too_large,
)


class JobCreate(Model):
    """A job to publish."""

    summary: Summary
    role: Key
    external_id: ExternalId | None = None
    priority: Priority = 20
    constraints: Constraints = []
    context: Context = Field(default_factory=dict)
    artifacts: Annotated[list[Artifact], Field(max_length=limits.ARTIFACTS)] = []
    parent: Id | None = None
    max_retries: Retries = limits.DEFAULT_RETRIES
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    requires: Requires = []
    capabilities: Capabilities = []
    not_before: Moment | None = None
    deadline: Moment | None = None

    @model_validator(mode="after")
    def _parts(self) -> JobCreate:
        parts = {"constraints": self.constraints, "artifacts": [item.model_dump() for item in self.artifacts]}
        if jsonio.size(parts) > limits.PARTS_BYTES:
            raise too_large("constraints and artifacts together", limits.PARTS_BYTES)
        return self


class JobEdit(Model):
    """Fields to change; what is not sent stays."""

    summary: Summary = ""
    priority: Priority = 20
    constraints: Constraints = []
    context: Context = Field(default_factory=dict)
    deadline: Moment | None = None
    role: Key = ""
    max_retries: Retries = 0

    @model_validator(mode="after")
    def _something(self) -> JobEdit:
        if not self.model_fields_set:
            raise ValueError("send at least one field")
        if jsonio.size(self.constraints) > limits.PARTS_BYTES:
            raise too_large("constraints", limits.PARTS_BYTES)
        return self


class CustomEvent(Model):
    """An event of the caller's own kind."""

    type: CustomType
    data: EventData | None = None


class Cancel(Model):
    """Why, and the fence when the holder cancels."""

    reason: Reason
    fence: Fence | None = None


class Retry(Model):
    """A new retry budget, if it is to change."""

    max_retries: Retries | None = None


class Stop(Model):
    """Why a job is taken from its holder, and where it goes."""

    reason: Reason
    then: Literal["publish", "fail", "cancel"] = "publish"
    role: Key | None = None
