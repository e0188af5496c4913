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
    when: Annotated[Guard | None, Field(description="Only if this holds of the result.")] = None
    context: Context = Field(default_factory=dict)
    constraints: Constraints = []
    priority: Priority = 20
    artifacts: Annotated[list[Artifact], Field(max_length=limits.ARTIFACTS)] = []
    max_retries: Retries = limits.DEFAULT_RETRIES


class JobFields(Model):
    """What a job says, whether it is published alone or in a plan."""

    summary: Summary
    role: Annotated[Key, Field(description="The role that is to do it.")]
    external_id: ExternalId | None = None
    priority: Annotated[Priority, Field(description="10 low, 20 normal, 30 high, 40 urgent.")] = 20
    constraints: Constraints = []
    context: Context = Field(default_factory=dict)
    artifacts: Annotated[
        list[Artifact],
        Field(max_length=limits.ARTIFACTS),
        Field(description="References that its holder needs."),
    ] = []
    parent: Annotated[Id | None, Field(description="The job that it comes from.")] = None
    max_retries: Retries = limits.DEFAULT_RETRIES
    lease_seconds: Annotated[
        Lease | None, Field(description="How long a claim on it lasts without a sign of life.")
    ] = None
    on_expire: Annotated[
        OnExpire | None,
        Field(
            description="What becomes of it when a claim lapses: back to the board, failed, or a decision is asked."
        ),
    ] = None
    requires: Requires = []
    capabilities: Annotated[
        Capabilities | None,
        Field(description="What an agent must be able to do; absent: what the role asks for."),
    ] = None
    not_before: Annotated[Moment | None, Field(description="RFC 3339; not claimable before.")] = None
    deadline: Annotated[Moment | None, Field(description="RFC 3339; it is overdue from then on.")] = None
    on_upstream_failure: Annotated[
        Literal["match", "continue"],
        Field(description="match: it fails or is cancelled with what it waits for; continue: it goes on."),
    ] = "match"
    independent: Annotated[
        bool | None, Field(description="Nobody takes it who worked on what it waits for.")
    ] = None
    routing: Annotated[
        list[Rule],
        Field(max_length=limits.RULES),
        Field(description="Jobs to make when it ends, by its result."),
    ] = []
    budget: Annotated[Budget | None, Field(description="What it and its retries may use.")] = None

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

    blocked_by: Annotated[
        list[Id],
        Field(max_length=limits.UPSTREAMS),
        AfterValidator(distinct),
        Field(description="Ids of jobs that must be completed first."),
    ] = []


class Link(Model):
    """An upstream that the job is to wait for."""

    type: Literal["blocks"] = "blocks"
    upstream: Annotated[Id, Field(description="The job to wait for.")]


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

    reason: Annotated[Reason, Field(description="Why it is not wanted any more.")]
    fence: Fence | None = None


class Retry(Model):
    """A new retry budget, if it is to change."""

    max_retries: Retries | None = None


class Stop(Model):
    """Why a job is taken from its holder, and where it goes."""

    reason: Reason
    then: Literal["publish", "fail", "cancel"] = "publish"
    role: Key | None = None
