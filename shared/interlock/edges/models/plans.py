"""What a caller may send of plans."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from interlock.domain import limits
from interlock.edges.models.fields import Model, distinct
from interlock.edges.models.jobs import JobFields

Ref = Annotated[str, Field(max_length=limits.REF_CHARACTERS, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class PlannedJob(JobFields):
    """A job of a plan. `blocked_by` and `parent` name jobs by their `ref` in the plan, or existing jobs by id."""

    ref: Annotated[Ref, Field(description="Its name in the plan.")]
    parent: Annotated[Ref | None, Field(description="A ref of the plan, or the id of a job.")] = None
    blocked_by: Annotated[
        list[Ref],
        Field(max_length=limits.UPSTREAMS),
        AfterValidator(distinct),
        Field(description="Refs of the plan, or ids of jobs, that must be completed first."),
    ] = []


class Plan(Model):
    """Jobs that become real together; `dry_run` only says which would be claimable first."""

    jobs: Annotated[list[PlannedJob], Field(min_length=1, max_length=limits.PLAN_JOBS)]
    dry_run: Annotated[
        bool, Field(description="Publish nothing; say what would be claimable at once and what would wait.")
    ] = False
