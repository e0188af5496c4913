"""Lists of jobs: one walk per order, filters on the heads, pages that may be short and still carry a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from interlock.app import cursors, load, views
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.references import unknown_role
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import FAILED, HELD, PENDING, PUBLISHED
from interlock.errors import FieldError, InterlockError
from interlock.store import keys
from interlock.store.ports import Query

SCANNED = 500
"""Heads that one page looks at, so that a page costs the same however large the project is."""
GATHERED = 2_000
BATCH = 100
INDEXED = frozenset({PENDING, PUBLISHED, *HELD, FAILED})

Row = tuple[str, str]
"""(position in the walk, job id)."""


def jobs(call: Call) -> Answer:
    """List jobs. The order is by priority when only published jobs are asked for, else newest first."""
    project, wanted = the_project(call), _filters(call)
    # a list of one external id's jobs is short and newest first, whatever else is asked
    board = wanted["status"] == [PUBLISHED] and wanted["external_id"] is None
    order = wanted["order"] or ("priority" if board else "newest")
    if order == "priority" and wanted["status"] != [PUBLISHED]:
        raise InterlockError("invalid", errors=[FieldError("order", "priority needs status=published")])
    wanted["order"] = order
    position = cursors.read("jobs", wanted, call.query["cursor"])
    walk = _walk(call.bus, project, wanted, position)
    limit, found, last, scanned = call.query["limit"], list[Job](), position, 0
    exhausted = False
    while len(found) < limit and scanned < SCANNED and not exhausted:
        rows = _take(walk, min(BATCH, SCANNED - scanned, max(limit - len(found), 10)))
        exhausted = not rows
        heads = load.job_heads(call.bus, project.id, [job_id for _, job_id in rows])
        for at, job_id in rows:
            scanned += 1
            last = at
            job = heads.get(job_id)
            if job is not None and _matches(job, wanted, at) and load.visible(job, call.actor, project):
                found.append(job)
                if len(found) == limit:
                    break
    cursor = None if exhausted or last is None else cursors.write("jobs", wanted, last)
    return Answer({"items": [views.summary(job) for job in found], "next_cursor": cursor})


def _take(walk: Iterator[Row], count: int) -> list[Row]:
    rows = []
    for row in walk:
        rows.append(row)
        if len(rows) == count:
            break
    return rows


def _filters(call: Call) -> dict[str, Any]:
    """The filters with `mine` and `me` replaced by what they mean for the caller."""
    query, actor, project = call.query, call.actor, the_project(call)
    roles = list(query["role"])
    if "mine" in roles:
        if actor.kind != "agent":
            raise InterlockError("invalid", errors=[FieldError("role", "only an agent has roles of its own")])
        roles = sorted({*(role for role in roles if role != "mine"), *actor.roles})
    unknown = [role for role in roles if role not in project.roles and role not in project.former_roles]
    if unknown:
        raise unknown_role(project, unknown[0])
    names = ("parent", "external_id", "q", "source", "order")
    assignee = actor.id if query["assignee"] == "me" else query["assignee"]
    source = actor.id if query["source"] == "me" else query["source"]
    return {
        "project": project.id,
        **{name: query[name] for name in names},
        "status": sorted(set(query["status"])),
        "role": roles,
        "none": "mine" in query["role"] and not roles,
        "assignee": assignee,
        "source": source,
    }


def _matches(job: Job, wanted: Mapping[str, Any], position: str) -> bool:
    if wanted["none"]:
        return False
    if wanted["order"] == "updated" and int(position.rpartition("#")[2]) != job.version:
        return False  # an older event of a job that the walk has met, or will meet, at its latest
    if wanted["order"] == "priority" and (job.status != PUBLISHED or _ready_position(job) != position):
        return False  # the index lags
    return (
        (not wanted["status"] or job.status in wanted["status"])
        and (not wanted["role"] or job.role in wanted["role"])
        and (wanted["assignee"] is None or job.assignee == wanted["assignee"])
        and (wanted["source"] is None or job.source.partition(":")[2] == wanted["source"])
        and (wanted["parent"] is None or job.parent == wanted["parent"])
        and (wanted["external_id"] is None or job.external_id == wanted["external_id"])
        and (wanted["q"] is None or wanted["q"].casefold() in job.summary.casefold())
    )


def _ready_position(job: Job) -> str:
    return keys.ready_sort(job.priority, job.published_at or 0, job.id)


def _walk(bus: Bus, project: Project, wanted: Mapping[str, Any], after: str | None) -> Iterator[Row]:
    """The cheapest walk that meets every match in the wanted order."""
    forward = wanted["order"] == "oldest"
    if wanted["order"] == "priority":
        return _by_priority(bus, project, wanted["role"], after)
    if wanted["order"] == "updated":
        return _by_update(bus, project, after)
    if wanted["external_id"] is not None:
        pk = keys.external_live(project.id, wanted["external_id"]).pk
        return _range(bus, Query(pk, prefix="JOB#", after=after, forward=forward), "sk")
    if wanted["parent"] is not None:
        return _range(
            bus,
            Query(
                keys.children_partition(project.id, wanted["parent"]), index=2, after=after, forward=forward
            ),
            "g2sk",
        )
    if wanted["status"] and INDEXED.issuperset(wanted["status"]):
        gathered = _gather(bus, project, wanted)
        if gathered is not None:
            ordered = sorted(gathered, reverse=not forward)
            return iter(
                [row for row in ordered if after is None or (row[0] > after if forward else row[0] < after)]
            )
    return _range(bus, Query(keys.jobs_partition(project.id), index=2, after=after, forward=forward), "g2sk")


def _range(bus: Bus, query: Query, attribute: str) -> Iterator[Row]:
    """Rows of one partition; the position is the sort key, which ends in the job's id."""
    after = query.after
    while True:
        page = bus.store.table.query(
            Query(query.pk, query.index, query.prefix, after=after, limit=BATCH, forward=query.forward)
        )
        for item in page.items:
            yield item[attribute], item[attribute].rpartition("#")[2]
        if not page.more or not page.items:
            return
        after = page.items[-1][attribute]


def _by_priority(bus: Bus, project: Project, roles: list[str], after: str | None) -> Iterator[Row]:
    """Published jobs of the roles, best first: a merge of their partitions, whose sort keys compare."""
    walks = [
        _range(bus, Query(keys.ready_partition(project.id, role), index=1, after=after), "g1sk")
        for role in roles or _all_roles(project)
    ]
    heads = {number: row for number, walk in enumerate(walks) if (row := next(walk, None)) is not None}
    while heads:
        best = min(heads, key=lambda number: heads[number])
        yield heads[best]
        row = next(walks[best], None)
        if row is None:
            del heads[best]
        else:
            heads[best] = row


def _by_update(bus: Bus, project: Project, after: str | None) -> Iterator[Row]:
    """Jobs by their latest event: the feed backwards."""
    while True:
        page = bus.store.table.query(
            Query(keys.feed_partition(project.id), index=2, after=after, limit=BATCH, forward=False)
        )
        for item in page.items:
            _, kind, job_id = keys.entity_of(item["pk"])
            if kind == "job":
                yield item["g2sk"], job_id
        if not page.more or not page.items:
            return
        after = page.items[-1]["g2sk"]


def _all_roles(project: Project) -> list[str]:
    return [*project.roles, *project.former_roles]


def _gather(bus: Bus, project: Project, wanted: Mapping[str, Any]) -> list[Row] | None:
    """All rows of the board's partitions for these statuses by creation, or None when there are too many."""
    partitions: list[tuple[str, str]] = []
    statuses = set(wanted["status"])
    if PUBLISHED in statuses:
        partitions += [
            (keys.ready_partition(project.id, role), "") for role in wanted["role"] or _all_roles(project)
        ]
    if statuses & {*HELD}:
        partitions.append(
            (keys.live_partition(project.id), f"{wanted['assignee']}#" if wanted["assignee"] else "")
        )
    if PENDING in statuses:
        partitions.append((keys.waiting_partition(project.id), ""))
    if FAILED in statuses:
        partitions.append((keys.failed_partition(project.id), ""))
    rows: list[Row] = []
    for pk, prefix in partitions:
        after: str | None = None
        while True:
            page = bus.store.table.query(Query(pk, index=1, prefix=prefix, after=after, limit=1_000))
            for item in page.items:
                job_id = keys.entity_of(item["pk"])[2]
                rows.append((keys.time_sort(int(item["created_at"]), job_id), job_id))
            if len(rows) > GATHERED:
                return None
            if not page.more or not page.items:
                break
            after = page.items[-1]["g1sk"]
    return rows
