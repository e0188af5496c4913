"""Making jobs: one way for create, plans, routing and retries.

What a head will name is staged first, and means nothing without the head. The head's write is the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.app import barrier, documents, external, load
from interlock.app.call import Bus
from interlock.app.neighbours import waiting_rows
from interlock.domain import usage
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import ENDED, PENDING, PUBLISHED
from interlock.domain.times import rfc3339
from interlock.store import conditions, keys
from interlock.store.ports import Check, Key, Put, TransactionPart

PARTS = 80
"""Holds that join the head's transaction; what is beyond goes before it, as many at a time."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A job that is to be made: its head, the document that BODY will carry, the digest of the request, and those
    it will wait for (heads as they were read; ids of jobs that are still to come)."""

    head: Job
    document: Mapping[str, Any]
    request: bytes
    waits_for: Sequence[Job | str] = ()
    facts: tuple[Fact, ...] = ()
    descends: Mapping[str, str] = field(default_factory=dict)
    """Jobs that it comes from, and how: parent, routed_from, reopen_of."""


def resolved(project: Project, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request with the defaults of its role, which must be live, and of the project filled in."""
    role = project.roles[fields["role"]]
    return {
        **fields,
        "lease_seconds": fields["lease_seconds"] or role.lease_seconds or project.settings["lease_seconds"],
        "on_expire": fields["on_expire"] or role.on_expire or "publish",
        "capabilities": role.capabilities if fields["capabilities"] is None else fields["capabilities"],
        "independent": role.independent if fields["independent"] is None else fields["independent"],
    }


def head(
    project: str,
    fields: Mapping[str, Any],
    *,
    id: str,  # noqa: A002  the spec's word
    source: tuple[str, str],
    now: int,
    waits_for: Sequence[Job | str] = (),
    excluded: Sequence[str] = (),
    trace: str | None = None,
) -> Job:
    """The head as its creation wants it, from :func:`resolved` fields.

    ``source`` is the reference and the label of whoever asked for it.
    """
    continues = fields["on_upstream_failure"] == "continue"
    open_ups = [
        up for up in waits_for if isinstance(up, str) or not barrier.satisfies(up, continues=continues)
    ]
    later = fields["not_before"] is not None and fields["not_before"] > now
    waits = bool(open_ups) or later
    return Job(
        id=id,
        project=project,
        status=PENDING if waits else PUBLISHED,
        role=fields["role"],
        summary=fields["summary"],
        priority=fields["priority"],
        source=source[0],
        source_label=source[1],
        created_at=now,
        updated_at=now,
        published_at=None if waits else now,
        max_retries=fields["max_retries"],
        lease_seconds=fields["lease_seconds"],
        on_expire=fields["on_expire"],
        external_id=fields["external_id"],
        parent=fields["parent"],
        on_upstream_failure=fields["on_upstream_failure"],
        independent=fields["independent"],
        excluded=tuple(excluded) if fields["independent"] and not waits else (),
        routing=tuple(dict.fromkeys(rule["on"] for rule in fields["routing"])),
        requires=tuple(fields["requires"]),
        capabilities=tuple(fields["capabilities"]),
        upstreams=len(waits_for),
        not_before=fields["not_before"],
        deadline=fields["deadline"],
        budget=usage.budget(fields.get("budget")),
        trace=trace,
        artifacts=len(fields["artifacts"]),
        start_hop=1 if later else None,
        deadline_hop=1 if fields["deadline"] is not None else None,
    )


def document(fields: Mapping[str, Any], artifacts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What BODY carries of a new job; ``artifacts`` as they are shown."""
    always = {
        "constraints": fields["constraints"],
        "context": fields["context"],
        "artifacts": list(artifacts),
    }
    more = {name: fields[name] for name in ("blocked_by", "routing") if fields.get(name)}
    return {**always, **more}


def created(job: Job, waits_for: Sequence[Job | str] = (), **more: Any) -> Fact:
    """The first event of a job."""
    data: dict[str, Any] = {"role": job.role, "priority": job.priority, "summary": job.summary}
    if job.parent:
        data["parent"] = job.parent
    if waits_for:
        data["blocked_by"] = [up if isinstance(up, str) else up.id for up in waits_for]
    if job.not_before is not None and job.status == PENDING:
        data["not_before"] = rfc3339(job.not_before)
    return Fact("job.created", None, job.status, {**data, **more})


def staged(bus: Bus, draft: Draft) -> list[Put]:
    """The items that go before the head, BODY first. What may differ from one try to the next is only put where it is
    absent."""
    job = draft.head
    pk = keys.partition(job.project, "job", job.id)
    body = Key(pk, keys.BODY)
    item = {
        **documents.item(bus, body, draft.document),
        "request": draft.request,
        "g2pk": keys.jobs_partition(job.project),
        "g2sk": keys.time_sort(job.created_at, job.id),
    }
    puts = [Put(body, item, conditions.absent()), *external.listing(job)]
    if job.parent:
        kin = {
            "pk": pk,
            "sk": "KIN",
            "g2pk": keys.children_partition(job.project, job.parent),
            "g2sk": keys.time_sort(job.created_at, job.id),
        }
        puts.append(Put(Key(pk, "KIN"), kin, conditions.absent()))
    for origin, how in draft.descends.items():
        key = keys.descending(keys.partition(job.project, "job", origin), job.id)
        puts.append(Put(key, {"pk": key.pk, "sk": key.sk, "type": how}))
    ups = [up if isinstance(up, str) else up.id for up in draft.waits_for]
    return puts + waiting_rows(job.project, ups, job.id)


def holds(draft: Draft) -> list[Put]:
    """The rows that will hold the job back; none for an upstream that is satisfied for good."""
    job = draft.head
    pk, continues = keys.partition(job.project, "job", job.id), job.on_upstream_failure == "continue"
    return [
        barrier.hold(pk, up, continues=continues)
        for up in draft.waits_for
        if isinstance(up, str) or not barrier.satisfies(up, continues=continues)
    ]


def hold_before(bus: Bus, draft: Draft) -> list[TransactionPart]:
    """Write the holds that do not fit the head's transaction, each time only while there is no head; answers the rest.

    Once there is a head, holds may have been satisfied: a late twin must not put them back. Raises ConditionLost.
    """
    rows: list[TransactionPart] = list(holds(draft))
    nobody = Check(keys.head(draft.head.project, "job", draft.head.id), conditions.absent())
    while len(rows) > PARTS:
        bus.store.table.transact([nobody, *rows[:PARTS]])
        rows = rows[PARTS:]
    return rows


def look_again(bus: Bus, job: Job, waits_for: Sequence[Job | str]) -> Job:
    """A new job is there: what its upstream jobs did meanwhile counts now. Answers the head as it is then.

    A crash before this is no harm: the dispatcher's message makes the job look at all its holds.
    """
    if job.status != PENDING or not waits_for:
        return job
    # one that was still to come begins at version 1, open
    before = dict((up, 1) if isinstance(up, str) else (up.id, up.version) for up in waits_for)
    now = load.job_heads(bus, job.project, list(before))
    moved = [up.id for up in now.values() if up.version != before[up.id] or up.status in ENDED]
    return barrier.catch_up(bus, job, moved)
