"""Artifacts by reference: given at creation, attached later, or with the result. They are never removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import documents, load, views
from interlock.app.call import Answer, Bus, Call, the_job
from interlock.app.settle import settle
from interlock.domain import ids, limits, moves
from interlock.domain.job import Change, Job
from interlock.domain.ledger import Fact
from interlock.domain.lifecycle import ENDED
from interlock.errors import InterlockError
from interlock.store import conditions, keys
from interlock.store.ports import Put, TransactionPart


def initial(call: Call, job_id: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The artifacts of creation; their ids are derived, so that a repeat stores the same document."""
    return [
        views.artifact(ids.derived("art", job_id, str(number)), artifact, call.actor, call.now)
        for number, artifact in enumerate(given)
    ]


def later(
    call: Call, job: Job, given: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[TransactionPart]]:
    """Artifacts to add to a job, as shown and as parts of the transaction around the head's write."""
    count = job.artifacts + job.later_artifacts + len(given)
    if count > limits.ARTIFACTS:
        raise InterlockError(
            "limit_reached", f"a job has at most {limits.ARTIFACTS} artifacts; this would be the {count}th"
        )
    pk = keys.partition(job.project, "job", job.id)
    shown, parts = [], []
    first = int.from_bytes(call.bus.entropy(10), "big") >> 1
    for number, artifact in enumerate(given):
        # ids of one call grow, so that its artifacts keep their order
        artifact_id = ids.ulid("art", call.now, (first + number).to_bytes(10, "big"))
        made = views.artifact(artifact_id, artifact, call.actor, call.now)
        key = keys.artifact(pk, made["id"])
        shown.append(made)
        parts.append(Put(key, documents.item(call.bus, key, made), conditions.absent()))
    return shown, list(parts)


def fact_data(shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Artifacts as events name them."""
    return [
        {"id": made["id"], "type": made["type"], "uri": made["uri"], "checksum": made["checksum"]}
        for made in shown
    ]


def attach(call: Call) -> Answer:
    """Attach an artifact: the source while the job has not ended, the holder with its fence, an owner."""
    fence = call.body["fence"]
    shown: list[dict[str, Any]] = []
    parts: list[TransactionPart] = []

    def check(job: Job) -> None:
        moves.require_source_or_claim(job, call.actor, fence, "attach artifacts")
        if call.actor.kind != "owner" and job.status in ENDED:
            raise moves.wrong_state(job, "attach")

    def decision(job: Job) -> Change:
        shown[:], parts[:] = later(call, job, [call.body])
        facts = (Fact("job.artifact_added", job.status, job.status, {"artifacts": fact_data(shown)}),)
        return Change({"later_artifacts": job.later_artifacts + 1}, facts)

    job, repeat = settle(call, the_job(call), decision, check=check, parts=lambda _: parts)
    if not repeat:
        return Answer({"artifact": shown[0]}, created=True, version=job.version)
    same = [
        a
        for a in load.later_artifacts(call.bus, job)
        if a["type"] == call.body["type"] and a["uri"] == call.body["uri"]
    ]
    return Answer({"artifact": same[-1]}, replayed=True, version=job.version)


def get(call: Call) -> Answer:
    """Read one artifact."""
    bus, job, wanted = call.bus, call.target, call.params["artifact"]
    assert isinstance(job, Job)
    for artifact in (*load.work(bus, job)["artifacts"], *load.later_artifacts(bus, job)):
        if artifact["id"] == wanted:
            return Answer({"artifact": artifact})
    raise InterlockError("not_found", "the job has no such artifact")


def types(bus: Bus, job: Job) -> set[str]:
    """The types of all artifacts of a job. Artifacts are never removed, so what was seen stays true."""
    return {
        str(artifact["type"])
        for artifact in (*load.work(bus, job)["artifacts"], *load.later_artifacts(bus, job))
    }
