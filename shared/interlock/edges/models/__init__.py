"""Models of bodies and queries, by area: what a caller may send. OpenAPI's schemas are made from them.

Types are strict and unknown fields are refused. Free JSON (context, data, metadata) is kept as it was sent; text
fields have lone surrogates replaced. The operations table names models of this package.
"""

from interlock.edges.models.artifacts import Artifact, ArtifactAttach, Verify
from interlock.edges.models.claims import (
    Block,
    Claim,
    ClaimNext,
    Complete,
    Fail,
    Heartbeat,
    HeldJob,
    Reject,
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
from interlock.edges.models.jobs import (
    Cancel,
    CustomEvent,
    Guard,
    JobCreate,
    JobEdit,
    JobFields,
    Link,
    Retry,
    Rule,
    Stop,
)
from interlock.edges.models.plans import Plan, PlannedJob
from interlock.edges.models.projects import Pause, ProjectCreate, ProjectEdit, Redrive, Repair, Settings
from interlock.edges.models.queries import (
    CursorQuery,
    ExplainQuery,
    FeedQuery,
    GraphQuery,
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
    "GraphQuery",
    "Guard",
    "Heartbeat",
    "HeldJob",
    "JobCreate",
    "JobEdit",
    "JobFields",
    "JobQuery",
    "Link",
    "Model",
    "OwnerCreate",
    "PageQuery",
    "Pause",
    "Plan",
    "PlannedJob",
    "ProjectCreate",
    "ProjectEdit",
    "Redrive",
    "Reject",
    "Release",
    "Repair",
    "Restart",
    "Result",
    "Resume",
    "Retry",
    "RoleCreate",
    "RoleEdit",
    "Rule",
    "Settings",
    "Stop",
    "TimelineQuery",
    "TokenCreate",
    "TokenRotate",
    "Unblock",
    "Verify",
    "too_large",
]
