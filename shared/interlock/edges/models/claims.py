"""What a caller may send under a claim, or to get one."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from interlock.domain import limits
from interlock.edges import jsonio
from interlock.edges.models.artifacts import Artifact
from interlock.edges.models.fields import (
    Beat,
    Data,
    Fence,
    Id,
    Key,
    Lease,
    Model,
    Reason,
    ResultData,
    Session,
    Text,
    too_large,
)
from interlock.edges.models.usage import Usage


class Claim(Model):
    """How to hold the job. `heartbeat_seconds` asks for a lease of three beats."""

    heartbeat_seconds: Beat | None = None
    lease_seconds: Lease | None = None
    session: Session | None = None


class ClaimNext(Claim):
    """Which roles to look at; none means all of the caller's."""

    roles: Annotated[
        list[Key],
        Field(max_length=limits.AGENT_ROLES),
        Field(description="Of your roles, those to look at; none means all."),
    ] = []


class Result(Model):
    """What came out of the work."""

    summary: Annotated[Reason | None, Field(description="What came of it, for whoever works on it next.")] = (
        None
    )
    data: Annotated[ResultData, Field(description="What the next job computes with; rules read it.")] = None
    artifacts: Annotated[
        list[Artifact],
        Field(max_length=limits.ARTIFACTS_PER_CALL),
        Field(description="References to attach with it."),
    ] = []

    @model_validator(mode="after")
    def _parts(self) -> Result:
        if jsonio.size([item.model_dump() for item in self.artifacts]) > limits.PARTS_BYTES:
            raise too_large("result.artifacts", limits.PARTS_BYTES)
        return self


class Complete(Model):
    """The fence, and the result."""

    fence: Fence
    result: Result | None = None
    usage: Usage | None = None


class Fail(Model):
    """The fence, and why."""

    fence: Fence
    reason: Annotated[Reason, Field(description="What is in the way, or why it cannot be done.")]
    data: Data = None
    usage: Usage | None = None


class Reject(Model):
    """The reviewer's fence, the reviewed job, and why it must be done again."""

    fence: Fence
    target: Annotated[Id, Field(description="The completed job that is sent back.")]
    reason: Annotated[
        str,
        Text(limits.REJECTION_SENT_CHARACTERS),
        Field(description="Which constraint does not hold, where, what you saw, what would satisfy it."),
    ]


class Block(Fail):
    """The fence, and what is in the way."""


class Unblock(Model):
    """Why the job may go on; the holder sends its fence."""

    reason: Annotated[Reason, Field(description="Why it may go on.")]
    fence: Fence | None = None


class Resume(Model):
    """The fence."""

    fence: Fence


class Release(Model):
    """The fence, and perhaps why."""

    fence: Fence
    reason: Reason | None = None
    usage: Usage | None = None


class Restart(Model):
    """Nothing to say."""


class HeldJob(Model):
    """A job that the caller believes it holds, and what was used for it so far under this claim."""

    id: Id
    fence: Fence | None = None
    usage: Usage | None = None


class Heartbeat(Model):
    """Which leases to renew: all of the caller's, or those of one session; `jobs` asks about these by name too."""

    session: Annotated[
        Session | None, Field(description="Only the claims of this process; absent: all of them.")
    ] = None
    jobs: Annotated[
        list[HeldJob],
        Field(max_length=limits.CLAIMS_PAGE),
        Field(description="Jobs to ask about by name, with what was used for each so far."),
    ] = []
