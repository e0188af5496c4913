"""Models of bodies and queries: what a caller may send. OpenAPI's schemas are made from them.

Types are strict and unknown fields are refused. Free JSON (context, data, metadata) is kept as it was sent; text
fields have lone surrogates replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import GroupedMetadata
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from interlock.domain import limits
from interlock.domain.identity import RESERVED_PROJECTS, RESERVED_ROLES
from interlock.domain.job import PRIORITIES
from interlock.domain.lifecycle import STATUSES
from interlock.domain.times import parse_rfc3339
from interlock.edges import jsonio
from interlock.errors import InterlockError


class Model(BaseModel):
    """Strict, closed, built on first use."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


# ---- kinds of fields


def _clean(value: Any) -> Any:
    return jsonio.clean(value) if isinstance(value, str) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


@dataclass(frozen=True)
class Text(GroupedMetadata):
    """Text of 1 to ``longest`` characters that is not blank."""

    longest: int
    pattern: str | None = None

    def __iter__(self) -> Iterator[object]:
        yield Field(min_length=1, max_length=self.longest, pattern=self.pattern)
        yield BeforeValidator(_clean)
        yield AfterValidator(_not_blank)


def too_large(part: str, limit: int, unit: str = "bytes") -> InterlockError:
    """The refusal of a part that is larger than it may be."""
    return InterlockError("too_large", f"{part}: more than {limit:,} {unit}")


@dataclass(frozen=True)
class Free(GroupedMetadata):
    """Free JSON of at most ``limit`` bytes, kept as it was sent; only an object where ``is_object``."""

    part: str
    limit: int
    is_object: bool = True

    def _check(self, value: Any) -> Any:
        if self.is_object and not isinstance(value, dict):
            raise ValueError("must be a JSON object")
        if jsonio.size(value) > self.limit:
            raise too_large(self.part, self.limit)
        return value

    def __iter__(self) -> Iterator[object]:
        yield AfterValidator(self._check)
        yield WithJsonSchema({"type": "object", "additionalProperties": True} if self.is_object else {})


def _moment(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 time as text")
    try:
        return parse_rfc3339(value)
    except (ValueError, OverflowError):
        raise ValueError(
            "must be an RFC 3339 time with an offset, for example 2026-11-30T12:00:00Z"
        ) from None


def _priority(value: Any) -> Any:
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    return value


def _one_of_priorities(value: int) -> int:
    if value not in PRIORITIES.values():
        raise ValueError("must be 10 (low), 20 (normal), 30 (high) or 40 (urgent)")
    return value


def _digits(value: Any) -> Any:
    """Query parameters arrive as text."""
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        else value
    )


def _not_review(value: list[str]) -> list[str]:
    if "review" in value:
        raise ValueError("review cannot be required here")
    return list(dict.fromkeys(value))


def _only_true(value: Any) -> Any:
    if value is not True:
        raise ValueError("must be true")
    return value


def _a_status(value: str) -> str:
    if value not in STATUSES:
        raise ValueError(f"must be one of {', '.join(STATUSES)}")
    return value


def _unreserved(names: frozenset[str]) -> Any:
    def check(value: str) -> str:
        if value in names:
            raise ValueError("is a reserved word")
        return value

    return AfterValidator(check)


Id = Annotated[str, Field(min_length=1, max_length=limits.ID_CHARACTERS, pattern=r"^[a-z0-9_-]+$")]
Key = Annotated[str, Field(max_length=limits.ROLE_CHARACTERS, pattern=r"^[a-z][a-z0-9_-]*$")]
RoleKey = Annotated[Key, _unreserved(RESERVED_ROLES)]
ProjectId = Annotated[Key, _unreserved(RESERVED_PROJECTS)]
Label = Annotated[str, Text(limits.LABEL_CHARACTERS)]
Reason = Annotated[str, Text(limits.REASON_CHARACTERS)]
Moment = Annotated[int, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Priority = Annotated[
    int,
    BeforeValidator(_priority),
    AfterValidator(_one_of_priorities),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "integer", "enum": [10, 20, 30, 40]},
                {"type": "string", "enum": list(PRIORITIES)},
            ]
        }
    ),
]
Fence = Annotated[int, Field(ge=1, le=2**53)]
Lease = Annotated[int, Field(ge=limits.LEASE_SECONDS[0], le=limits.LEASE_SECONDS[1])]
Beat = Annotated[int, Field(ge=limits.HEARTBEAT_SECONDS[0], le=limits.HEARTBEAT_SECONDS[1])]
OnExpire = Literal["publish", "fail"]
Capability = Annotated[str, Text(limits.CAPABILITY_CHARACTERS)]
Capabilities = Annotated[
    list[Capability], Field(max_length=limits.CAPABILITIES), AfterValidator(lambda v: list(dict.fromkeys(v)))
]
ArtifactType = Annotated[str, Text(limits.ARTIFACT_TYPE_CHARACTERS)]
Requires = Annotated[list[ArtifactType], Field(max_length=limits.REQUIRES), AfterValidator(_not_review)]
Retries = Annotated[int, Field(ge=0, le=limits.MAX_RETRIES)]
Summary = Annotated[str, Text(limits.SUMMARY_CHARACTERS)]
ExternalId = Annotated[str, Text(limits.EXTERNAL_ID_CHARACTERS)]
Uri = Annotated[str, Text(limits.URI_CHARACTERS)]
Checksum = Annotated[str, Text(limits.CHECKSUM_CHARACTERS)]
ResultData = Annotated[Any, Free("result.data", limits.RESULT_BYTES, is_object=False)]
EventData = Annotated[Any, Free("data", limits.EVENT_DATA_BYTES)]
Constraint = Annotated[str, Text(limits.CONSTRAINT_CHARACTERS)]
Constraints = Annotated[list[Constraint], Field(max_length=limits.CONSTRAINTS)]
Context = Annotated[Any, Free("context", limits.CONTEXT_BYTES)]
Data = Annotated[Any, Free("data", limits.EVENT_DATA_BYTES, is_object=False)]
Metadata = Annotated[Any, Free("metadata", limits.METADATA_BYTES)]
Session = Annotated[str, Text(limits.LABEL_CHARACTERS)]
CustomType = Annotated[str, Text(limits.LABEL_CHARACTERS, r"^custom\.[A-Za-z0-9_.:-]+$")]


# ---- jobs


class Artifact(Model):
    """A reference to evidence."""

    type: ArtifactType
    uri: Uri
    checksum: Checksum | None = None
    metadata: Metadata | None = None


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


class ArtifactAttach(Artifact):
    """An artifact to attach; the holder sends its fence."""

    fence: Fence | None = None


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


# ---- claims


class Claim(Model):
    """How to hold the job. `heartbeat_seconds` asks for a lease of three beats."""

    heartbeat_seconds: Beat | None = None
    lease_seconds: Lease | None = None
    session: Session | None = None


class ClaimNext(Claim):
    """Which roles to look at; none means all of the caller's."""

    roles: Annotated[list[Key], Field(max_length=limits.AGENT_ROLES)] = []


class Result(Model):
    """What came out of the work."""

    summary: Reason | None = None
    data: ResultData = None
    artifacts: Annotated[list[Artifact], Field(max_length=limits.ARTIFACTS_PER_CALL)] = []

    @model_validator(mode="after")
    def _parts(self) -> Result:
        if jsonio.size([item.model_dump() for item in self.artifacts]) > limits.PARTS_BYTES:
            raise too_large("result.artifacts", limits.PARTS_BYTES)
        return self


class Complete(Model):
    """The fence, and the result."""

    fence: Fence
    result: Result | None = None


class Fail(Model):
    """The fence, and why."""

    fence: Fence
    reason: Reason
    data: Data = None


class Block(Fail):
    """The fence, and what is in the way."""


class Unblock(Model):
    """Why the job may go on; the holder sends its fence."""

    reason: Reason
    fence: Fence | None = None


class Resume(Model):
    """The fence."""

    fence: Fence


class Release(Model):
    """The fence, and perhaps why."""

    fence: Fence
    reason: Reason | None = None


class Restart(Model):
    """Nothing to say."""


class HeldJob(Model):
    """A job that the caller believes it holds."""

    id: Id
    fence: Fence | None = None


class Heartbeat(Model):
    """Which leases to renew: all of the caller's, or those of one session; `jobs` asks about these by name too."""

    session: Session | None = None
    jobs: Annotated[list[HeldJob], Field(max_length=limits.CLAIMS_PAGE)] = []


# ---- identity and projects


class RoleCreate(Model):
    """A role."""

    key: RoleKey
    label: Label
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities = []


class RoleEdit(Model):
    """Fields to change; what is not sent stays."""

    label: Label = ""
    lease_seconds: Lease | None = None
    on_expire: OnExpire | None = None
    capabilities: Capabilities | None = None


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


class Settings(Model):
    """A project's settings; what is not sent stays."""

    visibility: Literal["project", "roles"] = "project"
    lease_seconds: Lease = limits.DEFAULT_LEASE_SECONDS
    cancel_overdue: bool = False

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


class Repair(Model):
    """The entity, as the ledger names it: `job/<id>`, `agent/<id>`, `owner/<id>`, `project/<id>`."""

    entity: Annotated[
        str, Field(pattern=rf"^(job|agent|owner|project)/[a-z0-9_-]{{1,{limits.ID_CHARACTERS}}}$")
    ]


class Redrive(Model):
    """Which dead letters."""

    queue: Literal["lease-dead", "dispatch-dead"]


# ---- queries

Status = Annotated[str, AfterValidator(_a_status), WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
Count = Annotated[int, BeforeValidator(_digits), Field(ge=limits.PAGE[0], le=limits.PAGE[1])]
FeedCount = Annotated[int, BeforeValidator(_digits), Field(ge=limits.FEED_PAGE[0], le=limits.FEED_PAGE[1])]
Cursor = Annotated[str, Field(min_length=1, max_length=limits.CURSOR_CHARACTERS)]


class CursorQuery(Model):
    """Where to go on."""

    cursor: Cursor | None = None


class PageQuery(CursorQuery):
    """A page of a list."""

    limit: Count = limits.DEFAULT_PAGE


class JobQuery(PageQuery):
    """Filters and order of a list of jobs."""

    status: list[Status] = []
    role: list[Key] = []
    assignee: Id | None = None
    source: Id | None = None
    parent: Id | None = None
    external_id: ExternalId | None = None
    q: Summary | None = None
    order: Literal["priority", "newest", "oldest", "updated"] | None = None


class TimelineQuery(Model):
    """A page of a timeline."""

    limit: FeedCount = limits.DEFAULT_FEED_PAGE
    cursor: Cursor | None = None


class FeedQuery(Model):
    """The last N events (100 when nothing is sent), or a page of those after a cursor; `limit` alone begins at the
    oldest."""

    last: FeedCount | None = None
    after: Cursor | None = None
    limit: FeedCount | None = None

    @model_validator(mode="after")
    def _one(self) -> FeedQuery:
        if self.last is not None and self.after is not None:
            raise ValueError("send last or after, not both")
        return self


class ExplainQuery(Model):
    """For an owner: as which agent."""

    agent: Id | None = None
