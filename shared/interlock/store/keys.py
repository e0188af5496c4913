"""Where every item lives: the one place that builds primary and index keys.

A job's items share a partition. Every key starts with the project (``installation`` for what stands above
projects); parts are ``[a-z0-9_-]`` and joined by ``#``. Free text (external ids, idempotency keys) enters a key
only as a hash.

| Item | pk | sk |
|---|---|---|
| head of any entity | ``<scope>#<kind>#<id>`` | ``HEAD`` |
| a job's first constraints, context, artifacts | same | ``BODY`` |
| a later context, named by the head | same | ``CTX#<hash>`` |
| a result above 256 bytes | same | ``RES#<version>`` |
| a later artifact | same | ``ART#<id>`` |
| that it was verified (an upload) | same | ``ART#<id>#VERIFIED`` |
| a decision that was asked on the job | same | ``DEC#<id>`` |
| an open hold: the job waits for ``<up>`` | same | ``W~<up>`` |
| a hold whose upstream failed or was cancelled | same | ``W!<up>`` |
| an upstream that was added or replaced later | same | ``UP#<up>`` |
| a job that waits for this one | same | ``DOWN#<job>`` |
| a job that comes from this one (child, retry, routed) | same | ``DOWN~<job>`` |
| an agent's latest sign of life | ``<project>#presence#<agent>`` | ``SEEN`` |
| where the last retention run ended | the project's | ``RETENTION`` |
| the guard of links that are added later | ``<project>#graph#links`` | ``LINKS`` |
| a plan's jobs, until they are all there | ``<project>#plan#<id>`` | ``PLAN#<request>#<n>`` |
| event data above 256 bytes | same | ``EVD#<seq>#<hash>`` |
| ledger row | same | ``LOG#<seq>`` |
| an external id's live job | ``<project>#ext#<hash>`` | ``LIVE`` |
| an external id's jobs | same | ``JOB#<created>#<job>`` |
| what an agent used on a day for a role's jobs | ``<project>#spend#<day>`` | ``<role>#<agent>`` |
| an answered claim-next call | ``<project>#idem#<hash>`` | ``CALL`` |
| the claim that took a slot under a cap last | ``<project>#slots#<scope>`` | ``SLOT#<number>`` |
"""

from __future__ import annotations

import hashlib
from typing import Any

from interlock.domain import ids
from interlock.store.ports import Item, Key

HEAD = "HEAD"
BODY = "BODY"
INSTALLATION = "installation"
"""The scope above projects; a reserved project id."""

LOG_PREFIX = "LOG#"
ARTIFACT_PREFIX = "ART#"
UPLOADS = "uploads/"


def partition(scope: str, kind: str, entity: str) -> str:
    """The partition of one entity's items."""
    return f"{scope}#{kind}#{entity}"


def head(scope: str, kind: str, entity: str) -> Key:
    """The head of an entity: kind is ``job``, ``plan``, ``agent``, ``presence``, ``owner``, ``project`` or ``installation``."""
    return Key(partition(scope, kind, entity), HEAD)


def project_head(project: str) -> Key:
    """The control item: a project's settings, roles and pauses, read consistently at each claim."""
    return head(project, "project", project)


def entity_of(pk: str) -> tuple[str, str, str]:
    """(scope, kind, id) of a partition that :func:`partition` made."""
    scope, kind, entity = pk.split("#", 2)
    return scope, kind, entity


def log(pk: str, seq: int) -> Key:
    """The ledger row of an event."""
    return Key(pk, f"{LOG_PREFIX}{seq:010d}")


def sequence(key: Key) -> int:
    """The event number of a ledger row's key."""
    return int(key.sk[len(LOG_PREFIX) :])


def event_data(pk: str, seq: int, content_hash: str) -> Key:
    """Staged event data; content-addressed, so that two racers never overwrite each other."""
    return Key(pk, f"EVD#{seq:010d}#{content_hash}")


def context(pk: str, content_hash: str) -> Key:
    """An immutable later version of a job's context."""
    return Key(pk, f"CTX#{content_hash}")


def result(pk: str, content_hash: str) -> Key:
    """A result too large for the head."""
    return Key(pk, f"RES#{content_hash}")


def artifact(pk: str, artifact_id: str) -> Key:
    """An artifact that was attached after creation."""
    return Key(pk, f"{ARTIFACT_PREFIX}{artifact_id}")


DECISION_PREFIX = "DEC#"


def decision(project: str, decision_id: str) -> Key | None:
    """A decision, in the partition of the job that its id names; None when the id has not the form of one."""
    job = ids.job_of_decision(decision_id)
    return None if job is None else Key(partition(project, "job", job), f"{DECISION_PREFIX}{decision_id}")


_VERIFIED = "#VERIFIED"


def verification(pk: str, artifact_id: str) -> Key:
    """When and by whom an upload was verified; it sorts behind its artifact, so that one query reads both."""
    return Key(pk, f"{ARTIFACT_PREFIX}{artifact_id}{_VERIFIED}")


def is_verification(key: Key) -> bool:
    """Whether a row below :data:`ARTIFACT_PREFIX` is no artifact but the verification of one."""
    return key.sk.endswith(_VERIFIED)


def upload(project: str, job: str, artifact_id: str) -> str:
    """Where the bytes of an upload are, among the blobs. The bucket's rules for uploads name the first part."""
    return f"{UPLOADS}{project}/{job}/{artifact_id}"


HOLDS = "W"
OPEN_HOLD = "W~"
BAD_HOLD = "W!"
"""A job's holds sort bad before open: one row says what the barrier decides."""
DOWN = "DOWN"
WAITING = "DOWN#"
DESCENDING = "DOWN~"
UPSTREAM = "UP#"


def hold(pk: str, upstream: str) -> Key:
    """What holds a job back until ``upstream`` is completed; it is there until then."""
    return Key(pk, f"{OPEN_HOLD}{upstream}")


def bad_hold(pk: str, upstream: str) -> Key:
    """There exactly while the hold's upstream is failed or cancelled."""
    return Key(pk, f"{BAD_HOLD}{upstream}")


def upstream(pk: str, job: str) -> Key:
    """A link that was added or replaced after creation."""
    return Key(pk, f"{UPSTREAM}{job}")


def waiting(pk: str, job: str) -> Key:
    """That ``job`` waits for this one."""
    return Key(pk, f"{WAITING}{job}")


def descending(pk: str, job: str) -> Key:
    """That ``job`` is a child of this one, its retry, or was routed from it."""
    return Key(pk, f"{DESCENDING}{job}")


def seen(project: str, agent: str) -> Key:
    """An agent's latest sign of life that was written down."""
    return Key(partition(project, "presence", agent), "SEEN")


def retention(project: str) -> Key:
    """Where the last retention run of a project ended."""
    return Key(partition(project, "project", project), "RETENTION")


def links(project: str) -> Key:
    """Counts the links that were added to existing jobs, so that two that are added at once see each other."""
    return Key(partition(project, "graph", "links"), "LINKS")


def plan_part(pk: str, request: bytes, number: int) -> Key:
    """A part of a plan's jobs as this request asked for them."""
    return Key(pk, f"PLAN#{request.hex()}#{number:03d}")


def spend_partition(project: str, day: str) -> str:
    """What was used on a day (``YYYYMMDD``, UTC), where a day's budget is set."""
    return f"{project}#spend#{day}"


def spend(project: str, day: str, role: str, agent: str) -> Key:
    """What an agent used on a day for jobs of a role."""
    return Key(spend_partition(project, day), f"{role}#{agent}")


def name_hash(text: str) -> str:
    """Free text as a key part."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def external_live(project: str, external_id: str) -> Key:
    """Which job that has not ended holds the external id."""
    return Key(f"{project}#ext#{name_hash(external_id)}", "LIVE")


def external_job(project: str, external_id: str, created_at: int, job: str) -> Key:
    """One of the jobs that ever carried the external id, in order of creation."""
    return Key(f"{project}#ext#{name_hash(external_id)}", f"JOB#{created_at:013d}#{job}")


def claim_call(project: str, call_hash: str) -> Key:
    """The memory of a claim-next call that had an Idempotency-Key and took a job."""
    return Key(f"{project}#idem#{call_hash}", "CALL")


def slots_partition(project: str, kind: str, entity: str) -> str:
    """The slots of a scope that has a cap: kind is ``agent``, ``role`` or ``project``."""
    return partition(project, "slots", f"{kind}-{entity}")


_SLOT = "SLOT#"


def slot(pk: str, number: int) -> Key:
    """One slot of a scope."""
    return Key(pk, f"{_SLOT}{number:03d}")


def slot_number(sk: str) -> int:
    """The number in a slot's sort key."""
    return int(sk.removeprefix(_SLOT))


# Index 1: what may still move, one sparse key per head at a time.


def ready_partition(project: str, role: str) -> str:
    """Published jobs of a role, best first."""
    return f"{project}#ready#{role}"


def ready_sort(priority: int, published_at: int, job: str) -> str:
    """Highest priority first, then oldest published."""
    return f"{99 - priority:02d}#{published_at:013d}#{job}"


def live_partition(project: str) -> str:
    """Held jobs (in progress, blocked, unblocked), grouped by holder."""
    return f"{project}#live"


def live_sort(agent: str, started_at: int, job: str) -> str:
    """A holder's jobs, oldest claim first."""
    return f"{agent}#{started_at:013d}#{job}"


def waiting_partition(project: str) -> str:
    """Pending jobs, by the time they may start (0 when only a barrier holds them)."""
    return f"{project}#waiting"


def failed_partition(project: str) -> str:
    """Failed jobs, oldest failure first: they may be restarted or retried."""
    return f"{project}#failed"


def reopened_partition(project: str) -> str:
    """Completed jobs that a review sent back when others had begun on them already, by the time of the review."""
    return f"{project}#reopened"


def time_sort(at: int, entity: str) -> str:
    """Order by a time in ms, made unique by the entity."""
    return f"{at:013d}#{entity}"


def decisions_partition(project: str) -> str:
    """Index 1: open decisions, oldest first. Index 2: all, by the time they were asked."""
    return f"{project}#decisions"


def members_partition(scope: str, kind: str) -> str:
    """All entities of a kind in a scope (agents, owners; projects of the installation), by id."""
    return f"{scope}#{kind}s"


# Index 2: time orders.


def jobs_partition(project: str) -> str:
    """All jobs by creation; the key sits on BODY, which is written once."""
    return f"{project}#jobs"


def children_partition(project: str, parent: str) -> str:
    """Jobs spawned by a job, by creation; the key sits on the KIN item of the child."""
    return f"{project}#kin#{parent}"


def feed_partition(scope: str) -> str:
    """Ledger rows of a scope by the time they were written."""
    return f"{scope}#feed"


def feed_sort(written_at: int, pk: str, seq: int) -> str:
    """Time of the ledger write, made unique by entity and number."""
    return f"{written_at:013d}#{pk}#{seq:010d}"


def is_change(key: Key, old: Item | None, new: dict[str, Any]) -> bool:
    """Whether a write belongs in the change feed: a head whose version moved. Renewals, beats and timers do not."""
    return key.sk == HEAD and (old is None or old.get("version") != new.get("version"))
