"""Query strings: pages, filters, orders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from interlock.domain import limits
from interlock.edges.models.fields import (
    Count,
    Cursor,
    ExternalId,
    FeedCount,
    Id,
    Key,
    Model,
    Status,
    Summary,
    digits,
)


class CursorQuery(Model):
    """Where to go on."""

    cursor: Annotated[Cursor | None, Field(description="Where to go on: next_cursor of the page before.")] = (
        None
    )


class PageQuery(CursorQuery):
    """A page of a list."""

    limit: Count = limits.DEFAULT_PAGE


class ClaimsQuery(CursorQuery):
    """A page of the caller's claims."""

    limit: Count = limits.CLAIMS_PAGE


class JobQuery(PageQuery):
    """Filters and order of a list of jobs."""

    status: list[Status] = []
    role: list[Key] = []
    assignee: Annotated[Id | None, Field(description="Who holds it: me, or an id.")] = None
    source: Annotated[Id | None, Field(description="Who published it: me, or an id.")] = None
    parent: Id | None = None
    external_id: ExternalId | None = None
    q: Annotated[Summary | None, Field(description="Part of the summary.")] = None
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


class GraphQuery(Model):
    """How many links away from the job the graph goes."""

    depth: Annotated[
        int, BeforeValidator(digits), Field(ge=limits.GRAPH_DEPTH[0], le=limits.GRAPH_DEPTH[1])
    ] = limits.DEFAULT_GRAPH_DEPTH


class ExplainQuery(Model):
    """For an owner: as which agent."""

    agent: Id | None = None


class DecisionQuery(PageQuery):
    """Which decisions: the open ones, oldest first, when nothing is sent; those of a job; or those in a state, newest
    first. `role` keeps those that this role may answer."""

    state: Literal["open", "answered", "withdrawn", "expired", "all"] = "open"
    job: Id | None = None
    role: Annotated[Key | None, Field(description="Those that this role may answer.")] = None
