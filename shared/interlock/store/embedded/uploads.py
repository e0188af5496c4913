"""Uploads that the bus takes in itself: signed addresses, and the bytes on their way in.

The address says everything about its object, so nothing is remembered until an object is complete. It is checked
while it comes in, never held in memory, and becomes visible in one step.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, Protocol

from interlock.errors import InterlockError
from interlock.store.embedded.tickets import Ticket, Tickets
from interlock.store.ports import Stored, Upload

_CHUNK = 1 << 20


class Sink(Protocol):
    """Where the bytes of one upload go until it is complete."""

    def write(self, data: bytes, /) -> object:
        """Append."""

    def commit(self, ticket: Ticket) -> None:
        """Make it the object of the ticket's key, durably; raises :func:`taken` when there is one already."""

    def drop(self) -> None:
        """Forget it. Does nothing after a commit."""


class Intake:
    """One upload on its way in: :meth:`write` until all is there, then :meth:`finish`; :meth:`drop` at any time."""

    def __init__(self, ticket: Ticket, sink: Sink) -> None:
        self._ticket = ticket
        self._sink = sink
        self._hash = hashlib.sha256()
        self.received = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises OSError where the disk does."""
        self.received += len(data)
        if self.received <= self._ticket.size:
            self._hash.update(data)
            self._sink.write(data)

    def finish(self) -> None:
        """Make the object visible. Raises ``malformed_request`` unless these are the bytes that were announced."""
        try:
            require_size(self._ticket, self.received)
            if self._hash.hexdigest() != self._ticket.sha256:
                raise InterlockError(
                    "malformed_request",
                    f"the bytes have the SHA-256 {self._hash.hexdigest()}, not {self._ticket.sha256}",
                    hint="Nothing was stored. Send the bytes that were announced, to the same address.",
                )
            self._sink.commit(self._ticket)
        finally:
            self.drop()

    def drop(self) -> None:
        """Forget what came in, unless it was finished."""
        self._sink.drop()


def require_size(ticket: Ticket, size: int | None) -> None:
    """Raise ``malformed_request`` unless this is the length that the ticket allows."""
    if size != ticket.size:
        length = "no length" if size is None else f"{size} bytes"
        raise InterlockError(
            "malformed_request",
            f"the upload has {length}; {ticket.size} bytes were announced",
            hint="Nothing was stored. Send Content-Length and exactly the bytes that were announced.",
        )


def taken() -> InterlockError:
    """The refusal of a second object under a key."""
    return InterlockError(
        "version_mismatch",
        "there is an object here already; it is not replaced",
        hint="If it is yours, verify it. For other bytes attach another artifact.",
    )


class Served(ABC):
    """Uploads and downloads by signed addresses; the base of the embedded engine's blobs.

    What a server needs: :meth:`read`, then :meth:`intake` or :meth:`open`.
    """

    def __init__(self, secret: Callable[[], bytes], clock: Callable[[], int]) -> None:
        self._tickets = Tickets(secret, clock)

    def upload(self, key: str, *, size: int, sha256: str, seconds: int, base: str) -> Upload:
        """See :class:`interlock.store.ports.Blobs`."""
        ticket = Ticket("PUT", key, self._tickets.expiry(seconds), size=size, sha256=sha256)
        return Upload("PUT", self._tickets.url(base, ticket), {"content-length": str(size)})

    def download(self, key: str, *, name: str, seconds: int, base: str) -> str:
        """See :class:`interlock.store.ports.Blobs`."""
        return self._tickets.url(base, Ticket("GET", key, self._tickets.expiry(seconds), name=name))

    def read(self, method: str, target: str) -> Ticket:
        """What the address of a request (its path and query) allows. Raises ``forbidden``."""
        return self._tickets.read(method, target)

    def intake(self, ticket: Ticket, size: int | None) -> Intake:
        """Begin to take in an upload that says to have ``size`` bytes. Raises what can be known beforehand."""
        require_size(ticket, size)
        if self.stat([ticket.key]):
            raise taken()
        return Intake(ticket, self._sink())

    def put_at(self, url: str, chunks: Iterable[bytes]) -> None:
        """Upload to an address of :meth:`upload` without a server."""
        ticket = self.read("PUT", "/" + url.split("/", 3)[3])
        data = list(chunks)
        intake = self.intake(ticket, sum(map(len, data)))
        for chunk in data:
            intake.write(chunk)
        intake.finish()

    @abstractmethod
    def open(self, key: str) -> tuple[BinaryIO, int]:
        """An object's bytes and their number. Raises ``not_found``."""

    @abstractmethod
    def stat(self, keys: Sequence[str]) -> dict[str, Stored]:
        """See :class:`interlock.store.ports.Blobs`."""

    @abstractmethod
    def keep(self, key: str) -> None:
        """See :class:`interlock.store.ports.Blobs`."""

    @abstractmethod
    def sweep(self) -> int:
        """Remove what was uploaded ``limits.UNVERIFIED_DAYS`` ago and not kept; answers how many."""

    @abstractmethod
    def _sink(self) -> Sink:
        """Where the bytes of a new upload go."""


def hashed(file: BinaryIO) -> str:
    """The SHA-256 of what a file holds."""
    found = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        found.update(chunk)
    return found.hexdigest()


def gone() -> InterlockError:
    """The refusal of an address whose object is not there."""
    return InterlockError("not_found", "the object is not there any more")
