"""Models of bodies and queries, by area: what a caller may send. OpenAPI's schemas are made from them.

Types are strict and unknown fields are refused. Free JSON (context, data, metadata) is kept as it was sent; text
fields have lone surrogates replaced. The operations table names models of this package.
"""

from interlock.edges.models.artifacts import Artifact, ArtifactAttach
from interlock.edges.models.claims import (
    Block,
    Claim,
    ClaimNext,
    Complete,
    Fail,
    Heartbeat,
    HeldJob,
    Release,
    Restart,
    Result,
    Resume,
    Unblock,
)
from interlock.edges.models.fields import Model, too_large
from interlock.edges.models.identity import (
    AgentCreate,
    AgentEdit,
    OwnerCreate,
    RoleCreate,
    RoleEdit,
    TokenCreate,
    TokenRotate,
)
from interlock.edges.models.jobs import Cancel, CustomEvent, JobCreate, JobEdit, Retry, Stop
from interlock.edges.models.projects import Pause, ProjectCreate, ProjectEdit, Redrive, Repair, Settings
from interlock.edges.models.queries import (
    CursorQuery,
    ExplainQuery,
    FeedQuery,
    JobQuery,
    PageQuery,
    TimelineQuery,
)

__all__ = [
    "AgentCreate",
    "AgentEdit",
    "Artifact",
    "ArtifactAttach",
    "Block",
    "Cancel",
    "Claim",
    "ClaimNext",
    "Complete",
    "CursorQuery",
    "CustomEvent",
    "ExplainQuery",
    "Fail",
    "FeedQuery",
    "Heartbeat",
    "HeldJob",
    "JobCreate",
    "JobEdit",
    "JobQuery",
    "Model",
    "OwnerCreate",
    "PageQuery",
    "Pause",
    "ProjectCreate",
    "ProjectEdit",
    "Redrive",
    "Release",
    "Repair",
    "Restart",
    "Result",
    "Resume",
    "Retry",
    "RoleCreate",
    "RoleEdit",
    "Settings",
    "Stop",
    "TimelineQuery",
    "TokenCreate",
    "TokenRotate",
    "Unblock",
    "too_large",
]
