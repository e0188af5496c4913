"""Artifacts: references and uploads, given at creation (references only), attached later, or with the result.

They are never removed. An upload begins as a slot that awaits its bytes; uploads.py verifies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import documents, load, objects, views
from interlock.app.call import Answer, Bus, Call, the_job
from interlock.app.settle import settle
from interlock.domain import ids, limits, moves
from interlock.domain.files import safe_name
from interlock.domain.identity import Actor
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import ENDED
from interlock.domain.times import parse_rfc3339
from interlock.errors import FieldError, InterlockError, StoreError
from interlock.store import conditions, keys
from interlock.store.ports import Put, TransactionPart

REVIEW = "review"
"""In ``requires``: somebody else has approved the work."""
EVIDENCE = frozenset({"referenced", objects.VERIFIED})
"""States of artifacts that count as evidence."""


def initial(actor: Actor, now: int, job_id: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The artifacts of creation; their ids are derived, so that a repeat stores the same document."""
    return [
        views.artifact(ids.derived("art", job_id, str(number)), artifact, actor, now)
        for number, artifact in enumerate(given)
    ]


def later(
    call: Call, job: Job, given: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[TransactionPart]]:
    """References to add to a job, as shown and as parts of the transaction around the head's write."""
    _require_room(call.bus, job, len(given))
    first = int.from_bytes(call.bus.entropy(10), "big") >> 1
    # ids of one call grow, so that its artifacts keep their order
    names = [ids.ulid("art", call.now, (first + number).to_bytes(10, "big")) for number in range(len(given))]
    shown = [views.artifact(name, one, call.actor, call.now) for name, one in zip(names, given, strict=True)]
    return shown, [_put(call.bus, job, made) for made in shown]


def _put(bus: Bus, job: Job, made: Mapping[str, Any]) -> Put:
    key = keys.artifact(keys.partition(job.project, "job", job.id), made["id"])
    return Put(key, documents.item(bus, key, made), conditions.absent())


def _require_room(bus: Bus, job: Job, more: int) -> None:
    """Raise ``limit_reached`` when the job would have too many; what the system attached is not counted."""
    count = job.artifacts + job.later_artifacts + more
    if count > limits.ARTIFACTS:
        count -= sum(made["author"]["kind"] == "system" for made in load.later_artifacts(bus, job))
    if count > limits.ARTIFACTS:
        raise InterlockError(
            "limit_reached", f"a job has at most {limits.ARTIFACTS} artifacts; this would be the {count}th"
        )


def fact_data(shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Artifacts as events name them."""
    return [
        {
            name: made[name]
            for name in ("id", "type", "uri", "checksum", "state", "name", "size")
            if name in made
        }
        for made in shown
    ]


def added(job: Job, made: Mapping[str, Any]) -> tuple[Fact, ...]:
    """That one artifact was attached, or that it was verified: its state says which."""
    return (Fact("job.artifact_added", job.status, job.status, {"artifacts": fact_data([made])}),)


def require_right(call: Call, job: Job, doing: str) -> None:
    """Raise unless the caller is the job's source before its end, its holder with the fence, or an owner."""
    moves.require_source_or_claim(job, call.actor, call.body["fence"], f"{doing} artifacts")
    if call.actor.kind != "owner" and job.status in ENDED:
        raise moves.wrong_state(job, doing)


def attach(call: Call) -> Answer:
    """Attach a reference, or make a slot for an upload and say how to fill it.

    A repeat with the same Idempotency-Key answers the artifact as it is now; an upload that is still awaited can be
    sent for as long as the slot lasts.
    """
    bus, body, first = call.bus, call.body, the_job(call)
    if call.key:
        artifact_id = ids.derived("art", first.id, call.key.hex())
    else:
        artifact_id = ids.ulid("art", call.now, bus.entropy(10))
    view = views.artifact if body["sha256"] is None else views.awaited
    made = view(artifact_id, body, call.actor, call.now)
    turns, known = 0, False

    def decision(job: Job) -> Change | None:
        nonlocal turns, known
        turns += 1
        # A repeat so late that the head has forgotten it loses its first write to the artifact that is there.
        known = turns > 1 and load.later_artifact(bus, job, artifact_id) is not None
        if known:
            return None
        _require_room(bus, job, 1)
        return Change({"later_artifacts": job.later_artifacts + 1}, added(job, made))

    job, repeat = settle(
        call,
        first,
        decision,
        check=lambda job: require_right(call, job, "attach"),
        parts=lambda job: [_put(bus, job, made)],
    )
    if not repeat and not known:
        return Answer({"artifact": made, **_upload(call, job, made)}, created=True, version=job.version)
    found = load.later_artifact(bus, job, artifact_id)
    if found is None:
        raise StoreError(detail="a stored document is missing")
    return Answer({"artifact": found, **_upload(call, job, found)}, replayed=True, version=job.version)


def _upload(call: Call, job: Job, made: Mapping[str, Any]) -> dict[str, Any]:
    """How to upload what is awaited, while its slot lasts."""
    if made["state"] != objects.AWAITING:
        return {}
    seconds = (parse_rfc3339(made["expires_at"]) - call.now) // limits.SECOND
    if seconds < 1:
        return {}
    request = call.bus.store.blobs.upload(
        objects.key(job, made), size=made["size"], sha256=made["sha256"], seconds=seconds, base=call.base
    )
    return {"upload": views.upload(request, seconds)}


def the_artifact(bus: Bus, job: Job, artifact_id: str) -> dict[str, Any]:
    """An artifact as it is found now. Raises ``not_found``."""
    found = load.later_artifact(bus, job, artifact_id)
    if found is None:
        initial_ones = load.work(bus, job)["artifacts"] if job.artifacts else []
        found = next((made for made in initial_ones if made["id"] == artifact_id), None)
    if found is None:
        raise InterlockError("not_found", "the job has no such artifact")
    return dict(found)


def get(call: Call) -> Answer:
    """Read one artifact; a verified upload comes with an address from which it can be downloaded."""
    bus, job = call.bus, the_job(call)
    artifact = the_artifact(bus, job, call.params["artifact"])
    value: dict[str, Any] = {"artifact": artifact}
    if artifact["state"] == objects.VERIFIED:
        seconds = limits.DOWNLOAD_SECONDS
        name = safe_name(artifact["name"], artifact["id"])
        url = bus.store.blobs.download(objects.key(job, artifact), name=name, seconds=seconds, base=call.base)
        value["download"] = {"url": url, "expires_in": seconds}
    return Answer(value)


def types(bus: Bus, job: Job) -> dict[str, set[str]]:
    """The types of a job's artifacts, and the states in which it has each; see :data:`EVIDENCE`."""
    found: dict[str, set[str]] = {}
    for artifact in (*load.work(bus, job)["artifacts"], *load.later_artifacts(bus, job)):
        found.setdefault(str(artifact["type"]), set()).add(str(artifact["state"]))
    return found


def require_evidence(bus: Bus, job: Job, given: set[str]) -> None:
    """Raise ``evidence_missing`` unless the job has all that it requires, or it is ``given`` now.

    ``review`` is no artifact: it is a decision that approved the work as it is.
    """
    missing = [name for name in job.requires if name not in given and name != REVIEW]
    there = types(bus, job) if missing else {}
    missing = [name for name in missing if EVIDENCE.isdisjoint(there.get(name, ()))]
    errors = [FieldError("result/artifacts", _lacking(name, there.get(name))) for name in missing]
    if REVIEW in job.requires and (job.approved is None or job.approved["rev"] != job.rev):
        missing.append(REVIEW)
        errors.append(FieldError(REVIEW, _unreviewed(job)))
    if missing:
        hint = (
            "Ask for a decision of kind review; complete when it is approved."
            if missing == [REVIEW]
            else None
        )
        raise InterlockError("evidence_missing", f"missing: {', '.join(missing)}", hint=hint, errors=errors)


def _unreviewed(job: Job) -> str:
    if job.approved is None:
        return f"no decision of kind review has approved rev {job.rev} yet: ask for one"
    return f"rev {job.approved['rev']} was approved, and the work has changed since: it is at rev {job.rev}"


def _lacking(name: str, states: set[str] | None) -> str:
    if not states:
        return f"an artifact of type {name!r} is missing"
    return f"the upload of type {name!r} is {' or '.join(sorted(states))}: only a verified one is evidence"
