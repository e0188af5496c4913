"""Kinds of fields: types with their limits, from which models and OpenAPI's schemas are made."""

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
)

from interlock.domain import limits
from interlock.domain.files import is_name
from interlock.domain.identity import RESERVED_PROJECTS, RESERVED_ROLES
from interlock.domain.job import PRIORITIES
from interlock.domain.lifecycle import STATUSES
from interlock.domain.times import parse_rfc3339
from interlock.edges import jsonio
from interlock.errors import InterlockError


class Model(BaseModel):
    """Strict, closed, built on first use."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


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


def digits(value: Any) -> Any:
    """Query parameters arrive as text."""
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12
        else value
    )


def distinct(value: list[str]) -> list[str]:
    """The list without repeats, in order."""
    return list(dict.fromkeys(value))


def _a_status(value: str) -> str:
    if value not in STATUSES:
        raise ValueError(f"must be one of {', '.join(STATUSES)}")
    return value


def _a_file_name(value: str) -> str:
    if not is_name(value):
        raise ValueError("must be the name of a file, without a folder and without control characters")
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
Fence = Annotated[int, Field(ge=1, le=2**53, description="The fence of your claim.")]
Lease = Annotated[
    int,
    Field(
        ge=limits.LEASE_SECONDS[0],
        le=limits.LEASE_SECONDS[1],
        description="How long a claim lasts without a sign of life, in seconds.",
    ),
]
Beat = Annotated[
    int,
    Field(
        ge=limits.HEARTBEAT_SECONDS[0],
        le=limits.HEARTBEAT_SECONDS[1],
        description="How often you will call, in seconds; the lease lasts three beats.",
    ),
]
OnExpire = Literal["publish", "fail", "ask"]
Cap = Annotated[int, Field(ge=limits.CLAIM_CAP[0], le=limits.CLAIM_CAP[1])]
Capability = Annotated[str, Text(limits.CAPABILITY_CHARACTERS)]
Capabilities = Annotated[
    list[Capability],
    Field(max_length=limits.CAPABILITIES),
    AfterValidator(lambda v: list(dict.fromkeys(v))),
]
ArtifactType = Annotated[str, Text(limits.ARTIFACT_TYPE_CHARACTERS)]
Requires = Annotated[
    list[ArtifactType],
    Field(max_length=limits.REQUIRES),
    AfterValidator(distinct),
    Field(
        description="Types of artifacts without which it cannot be completed; review asks for an approval."
    ),
]
Retries = Annotated[int, Field(ge=0, le=limits.MAX_RETRIES, description="How often it may be tried again.")]
Summary = Annotated[
    str, Text(limits.SUMMARY_CHARACTERS), Field(description="What is to be true afterwards, in one line.")
]
ExternalId = Annotated[
    str,
    Text(limits.EXTERNAL_ID_CHARACTERS),
    Field(description="Its id elsewhere; unique among the jobs that have not ended."),
]
Uri = Annotated[str, Text(limits.URI_CHARACTERS), Field(description="Where it is; it must exist.")]
Checksum = Annotated[
    str, Text(limits.CHECKSUM_CHARACTERS), Field(description="As you computed it, sha256:….")
]
FileName = Annotated[str, Text(limits.FILE_NAME_CHARACTERS), AfterValidator(_a_file_name)]
UploadSize = Annotated[int, Field(ge=1, le=limits.UPLOAD_BYTES, description="Bytes.")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ResultData = Annotated[Any, Free("result.data", limits.RESULT_BYTES, is_object=False)]
EventData = Annotated[Any, Free("data", limits.EVENT_DATA_BYTES)]
Constraint = Annotated[str, Text(limits.CONSTRAINT_CHARACTERS)]
Constraints = Annotated[
    list[Constraint],
    Field(max_length=limits.CONSTRAINTS, description="What the result is measured by; each can be checked."),
]
Context = Annotated[
    Any, Free("context", limits.CONTEXT_BYTES), Field(description="All that its holder needs to know.")
]
Data = Annotated[Any, Free("data", limits.EVENT_DATA_BYTES, is_object=False)]
Metadata = Annotated[Any, Free("metadata", limits.METADATA_BYTES)]
Session = Annotated[str, Text(limits.LABEL_CHARACTERS), Field(description="Which of your processes this is.")]
CustomType = Annotated[
    str,
    Text(limits.LABEL_CHARACTERS, r"^custom\.[A-Za-z0-9_.:-]+$"),
    Field(description="custom.… and a word of your own."),
]
Status = Annotated[str, AfterValidator(_a_status), WithJsonSchema({"type": "string", "enum": list(STATUSES)})]
Count = Annotated[int, BeforeValidator(digits), Field(ge=limits.PAGE[0], le=limits.PAGE[1])]
FeedCount = Annotated[int, BeforeValidator(digits), Field(ge=limits.FEED_PAGE[0], le=limits.FEED_PAGE[1])]
Cursor = Annotated[str, Field(min_length=1, max_length=limits.CURSOR_CHARACTERS)]
