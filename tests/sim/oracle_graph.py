"""What must be true of the links between jobs: judged from the rows at both ends, the ledger, and the order of writes.

What a job waits for is taken from its events, not from the rows that the barrier itself works with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.domain.job import Job
from interlock.domain.lifecycle import CANCELLED, COMPLETED, ENDED, FAILED, HELD, PENDING, PUBLISHED
from interlock.domain.plan import Plan
from interlock.store import keys
from interlock.store.ports import Key

Events = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Written:
    """A write of a head, in the order in which heads were written: those of one transaction have one ``at``."""

    at: int
    pk: str
    version: int
    status: str | None


@dataclass
class Link:
    """A link to an upstream: by which events it came, and by which one it was replaced."""

    since: int
    until: int | None = None

    def stands(self, seq: int) -> bool:
        """Whether it was there when the event ``seq`` was made."""
        return self.since <= seq and (self.until is None or self.until > seq)


def links(events: Events) -> dict[str, Link]:
    """What a job waits, or waited, for, as its ledger tells it."""
    found: dict[str, Link] = {}
    for event in events:
        data, seq = event["data"], event["seq"]
        if event["type"] == "job.created":
            found |= {up: Link(seq) for up in data.get("blocked_by", ())}
        elif event["type"] == "job.linked":
            found[data["upstream"]] = Link(seq)
        elif event["type"] == "job.rejected":
            # both may be there already: the retry by a link of its own, the target through an earlier rejection
            found.setdefault(data["target"], Link(seq)).until = seq
            found[data["retry"]] = Link(seq)
    return found


@dataclass
class Graph:
    """The links of a bus's jobs."""

    state: Any
    jobs: dict[str, Job]
    links: dict[str, dict[str, Link]]

    def rows(self, job: Job, prefix: str) -> dict[str, Mapping[str, Any]]:
        """The rows of a job that begin so, by what they name."""
        pk = _pk(job)
        return {
            key.sk[len(prefix) :]: item
            for key, item in self.by_pk.get(pk, {}).items()
            if key.sk.startswith(prefix)
        }

    def __post_init__(self) -> None:
        self.by_pk: dict[str, dict[Key, Any]] = defaultdict(dict)
        for key, item in self.state.items.items():
            if key.sk.startswith(("W", "UP#", "DOWN")):
                self.by_pk[key.pk][key] = item

    def upstream(self, job: Job) -> list[str]:
        """What a job waits for now, or waited for last."""
        return [up for up, link in self.links[job.id].items() if link.until is None]


def graph(state: Any) -> Graph:
    """Read it from what a bus remembers."""
    jobs = {job.id: job for job in state.jobs}
    return Graph(state, jobs, {job.id: links(state.events[_pk(job)]) for job in jobs.values()})


def _pk(job: Job) -> str:
    return keys.partition(job.project, "job", job.id)


# ---- at rest


def at_rest(state: Any) -> Iterator[str]:
    """Everything that is wrong with the links of a bus that has done all it had to."""
    found = graph(state)
    for job in found.jobs.values():
        for wrong in (*_of_barrier(job, found), *_of_holds(job, found), *_of_lineage(job, found)):
            yield f"{job.id}: {wrong}"
        yield from (f"{job.id}: {wrong}" for wrong in _of_exclusion(job, found))
    yield from _circles(found)
    yield from _of_plans(state, found)


def _satisfied(job: Job, up: Job) -> bool:
    return up.status == COMPLETED or (job.on_upstream_failure == "continue" and up.status in ENDED)


def _of_barrier(job: Job, found: Graph) -> Iterator[str]:
    """The status that the upstream jobs call for."""
    ups = {name: found.jobs.get(name) for name in found.upstream(job)}
    yield from (f"its upstream {name} never came" for name, up in ups.items() if up is None)
    there = [up for up in ups.values() if up is not None]
    held = found.rows(job, keys.OPEN_HOLD)
    failed = [up.id for up in there if up.status in (FAILED, CANCELLED) and not _satisfied(job, up)]
    if job.status == PENDING:
        if failed:
            yield f"pending under {failed}, which have failed"
        # a date may have passed while its timer is on the way; that it comes is judged when all have come
        if not held and job.not_before is None:
            yield "pending, and nothing holds it"
    elif job.cascade is not None and job.status == FAILED:
        if not failed:
            yield f"failed by cascade, and none of its upstream jobs is: {[(up.id, up.status) for up in there]}"
        elif job.cascade["upstream"] not in ups:
            yield f"its cascade names {job.cascade['upstream']}, for which it does not wait"
    elif job.status in (PUBLISHED, *HELD, COMPLETED) and job.on_upstream_failure == "match":
        below = [(up.id, up.status) for up in there if up.status != COMPLETED]
        if below:
            yield f"{job.status} under {below}"


def _of_holds(job: Job, found: Graph) -> Iterator[str]:
    """Holds, their markers and the rows at the other end."""
    holds, bad = found.rows(job, keys.OPEN_HOLD), found.rows(job, keys.BAD_HOLD)
    if {up for up, row in holds.items() if row["state"] == "failed"} != set(bad):
        yield f"its failed holds are {holds}, its markers {bad}"
    named = found.links[job.id]
    current = set(found.upstream(job))
    if not set(holds) <= current:
        yield f"it is held by {set(holds) - current}, for which it does not wait"
    if job.status in (PUBLISHED, *HELD, COMPLETED) and holds:
        yield f"{job.status} with holds {holds}"
    for name in current:
        up = found.jobs.get(name)
        if up is None:
            continue
        if job.id not in found.rows(up, keys.WAITING):
            yield f"{name} does not know that it waits"
        if not job.waits:
            continue
        hold = holds.get(name)
        if job.on_upstream_failure == "match" and (hold is None) != (up.status == COMPLETED):
            yield f"{name} is {up.status}, its hold {hold}"
        if hold is not None and _satisfied(job, up):
            yield f"{name} is {up.status}, its hold {hold}"
        if hold is not None and (hold["state"] == "failed") != (up.status in ENDED):
            yield f"{name} is {up.status}, its hold {hold}"
        if name in bad:
            mark = bad[name]
            root = up.cascade["root"] if up.cascade else up.id
            if mark["status"] != up.status or mark["root"] != root:
                yield f"{name} is {up.status} (root {root}), its marker {mark}"
    for name, link in named.items():
        replaced = found.rows(job, keys.UPSTREAM).get(name, {}).get("replaced_by")
        if (link.until is not None) != (replaced is not None):
            yield f"its row of {name} says replaced by {replaced}, its ledger {link}"
    for name in found.rows(job, keys.WAITING):
        other = found.jobs.get(name)
        if other is not None and job.id not in found.upstream(other):
            yield f"{name} is said to wait for it, and does not"


def _of_lineage(job: Job, found: Graph) -> Iterator[str]:
    """Whom a job comes from knows it."""
    origins = {job.parent: "parent", job.routed_from: "routed_from", job.reopen_of: "reopen_of"}
    for origin, kind in origins.items():
        up = found.jobs.get(origin or "")
        if up is not None and job.id not in found.rows(up, keys.DESCENDING):
            yield f"its {kind} {origin} does not know it"
    if job.reopen_of and found.jobs[job.reopen_of].retry != job.id:
        yield f"it is the retry of {job.reopen_of}, whose retry is {found.jobs[job.reopen_of].retry}"
    if job.retry and found.jobs[job.retry].reopen_of != job.id:
        yield f"its retry is {job.retry}, which is one of {found.jobs[job.retry].reopen_of}"
    if job.retry and job.status != COMPLETED:
        yield f"{job.status}, and it was sent back"


def _of_exclusion(job: Job, found: Graph) -> Iterator[str]:
    """Whoever worked on what an independent job depends on does not get it."""
    if not job.independent or job.status not in (PUBLISHED, *HELD, COMPLETED):
        return
    workers: set[str] = set()
    for name in found.links[job.id]:
        up = found.jobs.get(name)
        while up is not None and (up.status == COMPLETED or up.reopen_of):
            workers |= set(up.workers) if up.status == COMPLETED else set()
            up = found.jobs.get(up.reopen_of or "")
    if not workers <= set(job.excluded):
        yield f"{workers - set(job.excluded)} worked on what it depends on, and may claim it"
    if job.assignee in workers:
        yield f"{job.assignee} holds it, and worked on what it depends on"


def _circles(found: Graph) -> Iterator[str]:
    """Jobs that wait for each other would wait for ever."""
    holds = {job.id: list(found.rows(job, keys.OPEN_HOLD)) for job in found.jobs.values() if job.waits}
    left = {name: [up for up in ups if up in holds] for name, ups in holds.items()}
    while free := [name for name, ups in left.items() if not ups]:
        for name in free:
            del left[name]
        left = {name: [up for up in ups if up in left] for name, ups in left.items()}
    if left:
        yield f"a circle: {left}"


def _of_plans(state: Any, found: Graph) -> Iterator[str]:
    """All of a plan's jobs, or none."""
    plans = {head.id: head for head in state.heads.values() if isinstance(head, Plan)}
    for plan in plans.values():
        missing = [job for job in plan.jobs.values() if job not in found.jobs]
        if missing or not plan.made:
            yield f"{plan.id}: made {plan.made}, missing {missing}"
    for job in found.jobs.values():
        plan_id = state.events[_pk(job)][0]["data"].get("plan") if state.events[_pk(job)] else None
        if plan_id and job.id not in (plans[plan_id].jobs.values() if plan_id in plans else ()):
            yield f"{job.id} belongs to {plan_id}, which does not have it"


# ---- the order of writes


def in_order(state: Any, history: Sequence[Written]) -> Iterator[str]:
    """What was wrong when it was written, whatever became of it since."""
    found = graph(state)
    moves: dict[str, list[Written]] = defaultdict(list)
    for written in history:
        moves[written.pk].append(written)
    for job in found.jobs.values():
        for wrong in _of_moves(job, found, moves):
            yield f"{job.id}: {wrong}"
    for head in state.heads.values():
        if isinstance(head, Plan):
            yield from _of_making(head, found, moves)


def _of_moves(job: Job, found: Graph, moves: Mapping[str, list[Written]]) -> Iterator[str]:
    mine = moves[_pk(job)]
    for event in found.state.events[_pk(job)]:
        kind, seq = event["type"], event["seq"]
        at = next((written.at for written in mine if written.version >= seq), None)
        if at is None:
            yield f"{kind} at {seq} was never written"
            continue
        if event["to"] == PUBLISHED and kind in ("job.created", "job.activated", "job.linked"):
            for name, link in found.links[job.id].items():
                if link.stands(seq) and not _was_satisfied(job, moves[_of(job, name)], at):
                    now = _status(moves[_of(job, name)], at)
                    yield f"published by {kind} at {seq} while its upstream {name} was {now}"
        cause = event["data"].get("caused_by")
        if cause:
            (up,) = cause["upstreams"]
            ends = {w.status for w in moves[_of(job, up)] if w.at <= at}
            if event["to"] not in ends or not found.links[job.id][up].stands(seq):
                yield f"{kind} at {seq} by {up}, which had only been {ends}"


def _of(job: Job, other: str) -> str:
    return keys.partition(job.project, "job", other)


def _status(moves: Iterable[Written], at: int) -> str | None:
    return next((w.status for w in reversed(list(moves)) if w.at <= at and w.status), None)


def _was_satisfied(job: Job, moves: Sequence[Written], at: int) -> bool:
    """A link that was satisfied once stays so; one that takes what its upstream comes to is by completion only."""
    if job.on_upstream_failure == "continue":
        return any(w.status in ENDED for w in moves if w.at <= at)
    return _status(moves, at) == COMPLETED


def _of_making(plan: Plan, found: Graph, moves: Mapping[str, list[Written]]) -> Iterator[str]:
    """Nothing is claimable before what waits for it is there."""
    made = {job: moves[keys.partition(plan.project, "job", job)] for job in plan.jobs.values()}
    for job, writes in made.items():
        for up in found.links.get(job, ()):
            if writes and made.get(up) and made[up][0].at < writes[0].at:
                yield f"{plan.id}: {up} was there before {job}, which waits for it"
