"""Uploads and downloads by signed addresses, on the bus's own port: what S3 does for a bus on AWS.

An upload is checked and written to disk while it comes in, in the thread that reads it; a download is sent from its
file. Neither is ever in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from interlock.domain.files import disposition
from interlock.errors import InterlockError, StoreError
from interlock.store.embedded.tickets import PATH
from interlock.store.embedded.uploads import Intake, Served

_METHODS = "GET, HEAD, PUT"
_EMPTY: Mapping[str, Any] = {"statusCode": 200, "headers": {"cache-control": "no-store"}}
_AS_A_FILE = {
    "content-type": "application/octet-stream",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, no-store",
}
"""Whatever somebody uploaded, no browser shows it or runs it."""


class File(NamedTuple):
    """A body that is a file. Whoever sends it closes it."""

    file: BinaryIO
    size: int


class Arriving:
    """An upload on its way in: a buffer as waitress's receivers fill them, or what was refused before it came.

    ``refusal`` is why the upload will not be taken; what still comes of it is dropped.
    """

    def __init__(self, intake: Intake | None, refusal: InterlockError | None = None) -> None:
        self._intake = intake
        self.refusal = refusal

    def append(self, data: bytes) -> None:
        """The next bytes."""
        if self._intake is None or self.refusal is not None:
            return
        try:
            self._intake.write(data)
        except OSError as problem:
            self.refusal = StoreError(detail=f"the upload cannot be written: {problem.strerror}")
            self._intake.drop()

    def finish(self) -> None:
        """All is there: make it visible. Raises what is wrong with it."""
        if self.refusal is not None:
            raise self.refusal
        assert self._intake is not None
        self._intake.finish()

    def close(self) -> None:
        """Forget what was not finished."""
        if self._intake is not None:
            self._intake.drop()

    def __len__(self) -> int:
        return 0 if self._intake is None else self._intake.received


class Door:
    """Answers the addresses that a store of this process has signed."""

    def __init__(self, blobs: Served) -> None:
        self._blobs = blobs

    def takes(self, target: str) -> bool:
        """Whether a request's target (path and query) is one of them."""
        return target.startswith(PATH)

    def begin(self, target: str, length: int | None) -> Arriving:
        """An upload whose head was read: judged by all that can be known before its bytes."""
        try:
            return Arriving(self._blobs.intake(self._blobs.read("PUT", target), length))
        except InterlockError as refusal:
            return Arriving(None, refusal)

    def end(self, upload: Arriving) -> Mapping[str, Any]:
        """The answer to an upload that is all there."""
        upload.finish()
        return _EMPTY

    def answer(self, method: str, target: str) -> dict[str, Any]:
        """The answer to a download: as from a handler, its ``body`` a :class:`File`."""
        if method not in ("GET", "HEAD"):
            detail = f"allowed here: {_METHODS}"
            raise InterlockError("method_not_allowed", detail, headers={"Allow": _METHODS})
        ticket = self._blobs.read(method, target)
        file = File(*self._blobs.open(ticket.key))
        headers = {**_AS_A_FILE, "content-disposition": disposition(ticket.name)}
        return {"statusCode": 200, "headers": headers, "body": file}


def close(body: object) -> None:
    """Let go of a body that is not sent after all."""
    if isinstance(body, File):
        with suppress(OSError):
            body.file.close()
