"""Verification of uploads: what is stored is compared with what was announced. Until then it is no evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from interlock.app import artifacts, documents, objects, write
from interlock.app.call import Answer, Call, the_job
from interlock.app.settle import settle
from interlock.domain import limits
from interlock.domain.job import Change, Job
from interlock.domain.times import parse_rfc3339, rfc3339
from interlock.errors import FieldError, InterlockError
from interlock.store import conditions, keys
from interlock.store.ports import Put, Stored

_ANEW = "Attach the artifact anew and upload it again."


def verify(call: Call) -> Answer:
    """Compare what was uploaded with what was announced; an upload that is verified already is answered as it is."""
    bus, first, wanted = call.bus, the_job(call), call.params["artifact"]
    found: dict[str, Any] | None = artifacts.the_artifact(bus, first, wanted)
    done = False
    verified: dict[str, Any] = {}
    verification: list[Put] = []

    def decision(job: Job) -> Change | None:
        nonlocal found, done
        artifact, found = found or artifacts.the_artifact(bus, job, wanted), None
        verified.clear()
        if artifact["state"] == objects.VERIFIED:
            if call.key and not done:
                done = True
                raise write.Lost  # the head may be older than what stands beside it, and this call a repeat
            return None
        _require_unaltered(artifact)
        place = objects.key(job, artifact)
        _require_equal(artifact, bus.store.blobs.stat([place]).get(place), call.now)
        bus.store.blobs.keep(place)  # first: what a head calls verified must never go away by itself
        more = {"state": objects.VERIFIED, "verified_at": rfc3339(call.now)}
        verified.update(artifact, **more)
        key = keys.verification(keys.partition(job.project, "job", job.id), wanted)
        verification[:] = [Put(key, documents.item(bus, key, more), conditions.absent())]
        return Change({}, artifacts.added(job, verified))

    job, repeat = settle(
        call,
        first,
        decision,
        check=lambda job: artifacts.require_right(call, job, "verify"),
        parts=lambda _: verification,
    )
    mine = bool(verified) and not repeat
    answer = verified if mine else artifacts.the_artifact(bus, job, wanted)
    return Answer({"artifact": answer}, replayed=repeat, version=job.version)


def _require_unaltered(artifact: Mapping[str, Any]) -> None:
    if not objects.is_upload(artifact):
        _refuse("the artifact is a reference: there is nothing to verify", "References need no verification.")
    if artifact["state"] == objects.ALTERED:
        _refuse(
            f"what was verified at {artifact['verified_at']} is not there any more, or is something else now",
            _ANEW,
        )


def _require_equal(artifact: Mapping[str, Any], stored: Stored | None, now: int) -> None:
    expires = parse_rfc3339(artifact["expires_at"])
    if now >= expires + limits.VERIFY_SECONDS * limits.SECOND:
        _refuse(f"the slot expired at {artifact['expires_at']} and was not verified in time", _ANEW)
    if stored is None and now >= expires:
        _refuse(f"nothing was uploaded until the slot expired at {artifact['expires_at']}", _ANEW)
    if stored is None:
        _refuse(
            "nothing has been uploaded yet",
            f"Send the bytes to `upload.url` until {artifact['expires_at']}, then verify again. "
            "The same attach with the same Idempotency-Key answers the address again.",
        )
    if not objects.equals(stored, artifact):
        announced = Stored(artifact["size"], artifact["sha256"])
        errors = [
            FieldError(name, f"is {getattr(stored, name)}, {getattr(announced, name)} was announced")
            for name in ("size", "sha256")
            if getattr(stored, name) != getattr(announced, name)
        ]
        _refuse("what was uploaded is not what was announced", _ANEW, errors)


def _refuse(detail: str, hint: str, errors: list[FieldError] | None = None) -> NoReturn:
    raise InterlockError("wrong_state", detail, hint=hint, errors=errors or ())
