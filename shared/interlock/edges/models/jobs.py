"""What a caller may send of a job outside a claim."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from interlock.domain import guard, limits
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
    Free,
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
    Text,
    distinct,
    too_large,
)
from interlock.edges.models.usage import Budget


class Guard(Model):
    """A test of the ended job's result: `field` is a dotted path, `op` compares what is there with `value`."""

    field: Annotated[str, Text(limits.GUARD_FIELD_CHARACTERS)]
    op: guard.Operator
    value: Annotated[Any, Free("value", limits.GUARD_VALUE_BYTES, is_object=False)] = None

    @model_validator(mode="after")
    def _fits(self) -> Guard:
        problem = guard.problem(self.op, self.value, sent="value" in self.model_fields_set)
        if problem:
            raise ValueError(problem)
        return self


class Rule(Model):
    """A job to create when the owning job ends so and the guard holds."""

    role: Key
    summary: Summary
    on: Literal["completed", "failed", "cancelled"] = "completed"
    when: Guard | None = None
    context: Context = Field(default_factory=dict)
    constraints: Constraints = []
    priority: Priority = 20
    artifacts: Annotated[list[Artifact], Field(max_length=limits.ARTIFACTS)] = []
    max_retries: Retries = limits.DEFAULT_RETRIES


class JobFields(Model):
    """What a job says, whether it is published alone or in a plan."""

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
    capabilities: Capabilities | None = None
    not_before: Moment | None = None
    deadline: Moment | None = None
    on_upstream_failure: Literal["match", "continue"] = "match"
    independent: bool | None = None
    routing: Annotated[list[Rule], Field(max_length=limits.RULES)] = []
    budget: Budget | None = None

    @model_validator(mode="after")
    def _parts(self) -> Self:
        parts = {
            "constraints": self.constraints,
            "artifacts": [item.model_dump() for item in self.artifacts],
            "routing": [rule.model_dump() for rule in self.routing],
        }
        if jsonio.size(parts) > limits.PARTS_BYTES:
            raise too_large("constraints, routing and artifacts together", limits.PARTS_BYTES)
        return self


class JobCreate(JobFields):
    """A job to publish. `blocked_by` names jobs of this project that must be completed first."""

    blocked_by: Annotated[list[Id], Field(max_length=limits.UPSTREAMS), AfterValidator(distinct)] = []


class Link(Model):
    """An upstream that the job is to wait for."""

    type: Literal["blocks"] = "blocks"
    upstream: Id


class JobEdit(Model):
    """Fields to change; what is not sent stays."""

    summary: Summary = ""
    priority: Priority = 20
    constraints: Constraints = []
    context: Context = Field(default_factory=dict)
    deadline: Moment | None = None
    role: Key = ""
    max_retries: Retries = 0
    budget: Budget | None = None

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
