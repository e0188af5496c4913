"""What stands behind uploads: where it is kept, and whether it still is what was announced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app.call import Bus
from interlock.domain.job import Job
from interlock.store import keys
from interlock.store.ports import Stored

AWAITING, VERIFIED, ALTERED = "awaiting_upload", "verified", "altered"
"""States of an upload: nothing is known yet; it was compared and is there; it was, and is not there like that any more."""


def key(job: Job, artifact: Mapping[str, Any]) -> str:
    """Where an upload's object is."""
    return keys.upload(job.project, job.id, artifact["id"])


def is_upload(artifact: Mapping[str, Any]) -> bool:
    """Whether the artifact is an upload and no reference."""
    return "sha256" in artifact


def equals(stored: Stored | None, artifact: Mapping[str, Any]) -> bool:
    """Whether what is stored is what the artifact says."""
    return stored == Stored(artifact["size"], artifact["sha256"])


def judged(bus: Bus, job: Job, artifacts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The artifacts, their verified uploads looked at again: those that were altered or deleted since say so."""
    verified = [key(job, artifact) for artifact in artifacts if artifact["state"] == VERIFIED]
    if not verified:
        return list(artifacts)
    stored = bus.store.blobs.stat(verified)
    return [
        {**artifact, "state": ALTERED}
        if artifact["state"] == VERIFIED and not equals(stored.get(key(job, artifact)), artifact)
        else artifact
        for artifact in artifacts
    ]
