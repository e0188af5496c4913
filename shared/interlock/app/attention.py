"""Attention: what needs a person, and what may be done about it. Derived from what is true, never stored.

A walk over index 1, section by section: decisions that are open (oldest first), what somebody holds, what failed
(newest first), what a review sent back when others had begun on it, what is ready, what waits. The index's
rows say which jobs may need a person; only of these are the heads read, and the heads decide. What a page reads is
bounded, whatever the size of the project.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock import config
from interlock.app import cursors, decisions, load, views
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.staff import Staff
from interlock.domain import access, limits, moves, usage
from interlock.domain.decision import OPEN, Decision
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import BLOCKED, COMPLETED, ENDED, FAILED, HELD, PENDING, PUBLISHED
from interlock.domain.times import rfc3339
from interlock.store import keys
from interlock.store.ports import Item, Query

BATCH = 100
ROWS = 2_000
"""Rows of the index that one page looks at."""
HEADS = 300
"""Jobs and decisions that one page reads, about."""
QUOTED = 300
"""Characters of a prompt that an item quotes; the decision has all of it."""

ASKED_ROWS, HELD_ROWS, FAILED_ROWS, REOPENED_ROWS, READY_ROWS, WAITING_ROWS = (
    "0asked",
    "1held",
    "2failed",
    "3reopened",
    "4ready-",
    "5waiting",
)
"""Sections, in the order of the walk; a position begins with its section's name."""


@dataclass(frozen=True, slots=True)
class Need:
    """Why a job needs a person, and since when (ms). ``jobs`` are others that it is about, ``decision`` the one that
    waits for an answer, ``allowed`` what may be done where the job's status does not say it."""

    kind: str
    detail: str
    since: int | None
    jobs: tuple[str, ...] = ()
    decision: str | None = None
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs that need a person, and where to go on."""

    needs: list[tuple[Job, Need]]
    position: str | None


def read(call: Call) -> Answer:
    """A page of what needs a person. Whoever may redrive dead letters also sees, first of all, how many there are."""
    project, actor = the_project(call), call.actor
    binding = {"project": project.id}
    position = cursors.read("attention", binding, call.query["cursor"])
    relations = access.relations(actor.kind, actor.rights, actor.scope, live_role=False)
    shown: list[dict[str, Any]] = []
    if position is None and access.allowed("system.redrive", relations, actor.kind):
        shown += _dead_letters(call.bus)
    room = call.query["limit"] - len(shown)
    found = look(call.bus, project, call.now, room, position) if room > 0 else Found([], ASKED_ROWS)
    may_act = "owner" in relations
    shown += [_shown(job, need, may_act=may_act) for job, need in found.needs]
    cursor = cursors.write("attention", binding, found.position) if found.position else None
    return Answer({"items": shown, "next_cursor": cursor})


def look(
    bus: Bus, project: Project, now: int, limit: int, position: str | None = None, rows: int = ROWS
) -> Found:
    """Up to ``limit`` jobs that need a person, among the next ``rows`` rows of the walk."""
    judge = _Judge(bus, project, now)
    needs: list[tuple[Job, Need]] = []
    walk, seen, heads_read = _walk(bus, project, position), 0, 0
    while seen < rows and heads_read < HEADS:
        batch = list(itertools.islice(walk, min(BATCH, rows - seen)))
        if not batch:
            return Found(needs, None)
        seen += len(batch)
        doubtful = [(at, keys.entity_of(row["pk"])[2]) for at, row in batch if judge.doubts(at, row)]
        heads = load.job_heads(bus, project.id, list(dict.fromkeys(name for _, name in doubtful)))
        asked = _asked(bus, project.id, [at for at, _ in doubtful])
        heads_read += len(doubtful) + len(asked)
        for at, name in doubtful:
            job = heads.get(name)
            need = (
                None
                if job is None
                else judge.need(job)
                if at >= HELD_ROWS
                else _unanswered(job, asked.get(at))
            )
            if job and need:
                needs.append((job, need))
                if len(needs) == limit:
                    return Found(needs, at)
        position = batch[-1][0]
    return Found(needs, position)


def _asked(bus: Bus, project: str, positions: Sequence[str]) -> dict[str, Decision]:
    """The decisions at these positions of the walk."""
    names = {at.rpartition("#")[2]: at for at in positions if at < HELD_ROWS}
    return {names[found.id]: found for found in decisions.read_many(bus, project, list(names))}


def _unanswered(job: Job, found: Decision | None) -> Need | None:
    """What a decision asks; None when it is not open any more."""
    if found is None or found.state != OPEN or found.id not in (job.asked or {}):
        return None
    changed = not found.current(job)
    what = f"{found.asked_by['label']} asks ({found.kind}): {found.prompt[:QUOTED]}"
    return Need(
        "decision",
        what + ("; its subject has changed since: it can only be withdrawn" if changed else ""),
        found.asked_at,
        decision=found.id,
        allowed=("withdraw",) if changed else ("answer", "withdraw"),
    )


def _walk(bus: Bus, project: Project, position: str | None) -> Iterator[tuple[str, Item]]:
    """(position, row of index 1) of every job that may need a person."""
    sections = {
        ASKED_ROWS: keys.decisions_partition(project.id),
        HELD_ROWS: keys.live_partition(project.id),
        FAILED_ROWS: keys.failed_partition(project.id),
        REOPENED_ROWS: keys.reopened_partition(project.id),
        **{
            READY_ROWS + role: keys.ready_partition(project.id, role)
            for role in (*project.roles, *project.former_roles)
        },
        WAITING_ROWS: keys.waiting_partition(project.id),
    }
    begin, _, after = (position or "").partition("|")
    for section in sorted(name for name in sections if name >= begin):
        forward = section not in (FAILED_ROWS, REOPENED_ROWS)
        start = (after or None) if section == begin else None
        for row in _rows(bus, Query(sections[section], index=1, after=start, limit=BATCH, forward=forward)):
            yield f"{section}|{row['g1sk']}", row


def _rows(bus: Bus, query: Query) -> Iterator[Item]:
    while True:
        page = bus.store.table.query(query)
        yield from page.items
        if not page.more or not page.items:
            return
        query = Query(
            query.pk, query.index, after=page.items[-1]["g1sk"], limit=query.limit, forward=query.forward
        )


class _Judge:
    """Decides whether a job needs a person: a row of the index raises the doubt, the head settles it."""

    def __init__(self, bus: Bus, project: Project, now: int) -> None:
        self._bus, self._project, self._now = bus, project, now
        self._staff = Staff(bus, project, now)

    def doubts(self, position: str, row: Item) -> bool:
        """Whether the job of this row may need a person."""
        if position < HELD_ROWS:
            return True
        if position < FAILED_ROWS:
            # a renewed lease ends later than the first one did, never earlier
            over = 0 < row.get("lease_first", 0) < self._now - limits.LATE
            return over or row.get("status") == BLOCKED or "overdue" in row
        if position < REOPENED_ROWS:
            return "cascade" not in row
        return (
            position < READY_ROWS or "overdue" in row or "spent" in row or self._why_nobody(row) is not None
        )

    def _why_nobody(self, row: Item) -> str | None:
        return self._staff.why_nobody(row["role"], row.get("capabilities", ()), row.get("excluded", ()))

    def need(self, job: Job) -> Need | None:
        """Why the job needs a person; None when it goes on by itself, or by somebody else's hand."""
        if job.status == COMPLETED:
            return self._reopened(job)
        if job.stage == FAILED:
            return _failed(job)
        late = job.overdue is not None
        if job.status in HELD and (found := self._held(job)):
            return replace(found, detail=found.detail + ("; past its deadline" if late else ""))
        if job.status in (PENDING, PUBLISHED):
            spent = usage.over(job, self._now)
            if spent:
                detail = f"nobody may take it: its budget is spent, {spent}"
                return Need("budget_spent", detail, job.updated_at, allowed=("edit", "cancel"))
            why = self._staff.why_nobody(job.role, job.capabilities, job.excluded)
            if why:
                since = job.published_at if job.status == PUBLISHED else job.created_at
                return Need("nobody_can_take", why + ("; past its deadline" if late else ""), since)
        if late and job.status not in ENDED:
            return Need("overdue", f"its deadline was {rfc3339(job.overdue or 0)}", job.overdue)
        return None

    def _held(self, job: Job) -> Need | None:
        holder = job.assignee_label or job.assignee
        if job.waits_for_decision:
            return None  # the decision was named before
        if job.status == BLOCKED and job.decision:
            return Need(
                "decision_expired", f"{holder}: {job.blocked_reason}", job.blocked_at, decision=job.decision
            )
        if job.status == BLOCKED:
            return Need("blocked", f"{holder}: {job.blocked_reason}", job.blocked_at)
        if job.lapsed(self._now, limits.LATE):
            return Need(
                "stale_holder", f"the lease of {holder} is over, and nothing has ended it", job.lease_until
            )
        return None

    def _reopened(self, job: Job) -> Need | None:
        """Others that had begun on what is being done again: as long as they go on, or the new work does."""
        if job.begun is None:
            return None
        heads = load.job_heads(
            self._bus, job.project, [*job.begun["jobs"], *([job.retry] if job.retry else [])]
        )
        again = heads.pop(job.retry or "", None)
        while again and again.status == COMPLETED and again.retry:
            again = load.job_head(self._bus, job.project, again.retry)
        settled = again is None or again.status in ENDED
        left = [
            other.id
            for other in heads.values()
            if other.status not in ENDED or (other.status == COMPLETED and not settled)
        ]
        if not left:
            return None
        detail = f"a review sent it back after {len(left)} other(s) had begun on what came of it: {', '.join(left)}"
        return Need("reopened_upstream", detail, job.begun["at"], tuple(left))


def _failed(job: Job) -> Need:
    reason = job.failure_reason or "it failed"
    if job.retry_count >= job.max_retries:
        return Need("retries_spent", f"{reason}; all {job.max_retries} retries are used", job.failed_at)
    holder = job.assignee_label or job.assignee
    waits = f"it waits for {holder} to restart it, or for an owner" if holder else "it waits for an owner"
    return Need("failed", f"{reason}; {waits}", job.failed_at)


def _shown(job: Job, need: Need, *, may_act: bool) -> dict[str, Any]:
    return {
        "kind": need.kind,
        "detail": need.detail,
        "since": views.moment(need.since),
        "job": job.id,
        "summary": job.summary,
        "status": job.status,
        "role": job.role,
        **({"jobs": list(need.jobs)} if need.jobs else {}),
        **({"decision": need.decision} if need.decision else {}),
        "allowed": _allowed(job, need) if may_act else [],
    }


def _allowed(job: Job, need: Need) -> list[str]:
    if need.allowed is not None:
        return list(need.allowed)
    return moves.allowed(job, "owner")


def _dead_letters(bus: Bus) -> list[dict[str, Any]]:
    """One item that says how many there are, or none."""
    depths = {queue: bus.store.queues.depth(queue) for queue in config.QUEUES if queue.endswith("-dead")}
    there = ", ".join(f"{queue} about {count}" for queue, count in depths.items() if count)
    if not there:
        return []
    detail = f"what could not be handled: {there}"
    return [{"kind": "dead_letters", "detail": detail, "since": None, "allowed": ["redrive"]}]
