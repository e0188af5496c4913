"""Blobs as files of a folder, or in memory.

| In the folder | What |
|---|---|
| ``<2 digits>/<name>`` | a payload of the bus; ``name`` is the hash of its key |
| ``uploads/<name>``, ``uploads/<name>.sha256`` | what a caller uploaded, and its hash, good for as long as the file is not touched |
| ``unverified/<name>`` | that this upload goes away at the time that stands in the file |
| ``incoming/`` | uploads that are not complete; emptied at every start |
| ``key`` | what signs addresses (mode 0600) |
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from interlock.domain import limits
from interlock.errors import StoreError
from interlock.store.embedded.tickets import Ticket
from interlock.store.embedded.uploads import Served, Sink, gone, hashed, taken
from interlock.store.ports import Stored

_KEY_BYTES = 32


class FolderBlobs(Served):
    """One file per key, named by the key's hash: any key is a safe name on any file system."""

    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        super().__init__(self._secret, clock)
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._key = b""

    def put(self, key: str, data: bytes) -> None:
        """Write beside, sync, rename: a reader sees the whole blob or none, also after a crash."""
        name = _name(key)
        path = self._folder / name[:2] / name
        with _failing():
            if not path.exists():
                _write(path, data)

    def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        name = _name(key)
        with _failing():
            try:
                return (self._folder / name[:2] / name).read_bytes()
            except FileNotFoundError:
                return None

    def stat(self, keys: Sequence[str]) -> dict[str, Stored]:
        """See :class:`interlock.store.ports.Blobs`."""
        found = {}
        for key in keys:
            with _failing(), contextlib.suppress(FileNotFoundError):
                found[key] = _stat(self._object(key))
        return found

    def keep(self, key: str) -> None:
        """See :class:`interlock.store.ports.Blobs`."""
        marker = self._marker(key)
        with _failing(), contextlib.suppress(FileNotFoundError):
            marker.unlink()
            _sync_folder(marker.parent)

    def open(self, key: str) -> tuple[BinaryIO, int]:
        """An object's bytes and their number. Raises ``not_found``."""
        with _failing():
            try:
                file = self._object(key).open("rb")
            except FileNotFoundError:
                raise gone() from None
            return file, os.fstat(file.fileno()).st_size

    def sweep(self) -> int:
        """Remove what was uploaded ``limits.UNVERIFIED_DAYS`` ago and not kept; answers how many."""
        now, removed = self._clock(), 0
        with _failing(), contextlib.suppress(FileNotFoundError):
            for marker in list((self._folder / "unverified").glob("[!.]*")):
                if int(marker.read_text("ascii")) > now:
                    continue
                path = self._folder / "uploads" / marker.name
                for file in (path, _record(path), marker):
                    file.unlink(missing_ok=True)
                removed += 1
        return removed

    def begin(self) -> None:
        """Forget the uploads that an earlier process had not finished."""
        shutil.rmtree(self._folder / "incoming", ignore_errors=True)

    def _object(self, key: str) -> Path:
        return self._folder / "uploads" / _name(key)

    def _marker(self, key: str) -> Path:
        return self._folder / "unverified" / _name(key)

    def _sink(self) -> Sink:
        with _failing():
            return _FileSink(self._folder / "incoming", self._commit)

    def _commit(self, file: Path, ticket: Ticket) -> None:
        """The mark goes first: an object without one is never swept."""
        path, until = self._object(ticket.key), self._clock() + limits.UNVERIFIED_DAYS * limits.DAY
        with self._lock:
            if path.exists():
                raise taken()
            _write(self._marker(ticket.key), str(until).encode())
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, path)
            _sync_folder(path.parent)
        with path.open("rb") as written:
            _remember(path, written, ticket.sha256)

    def _secret(self) -> bytes:
        with self._lock, _failing():
            path = self._folder / "key"
            if not self._key and path.exists():
                self._key = path.read_bytes()
            if len(self._key) != _KEY_BYTES:
                self._key = secrets.token_bytes(_KEY_BYTES)
                _write(path, self._key)
            return self._key


class _FileSink:
    """A file that nobody sees until it is complete."""

    def __init__(self, folder: Path, commit: Callable[[Path, Ticket], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        self._path = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._commit = commit
        self._committed = False
        self.write = self._file.write

    def commit(self, ticket: Ticket) -> None:
        """See :class:`interlock.store.embedded.uploads.Sink`."""
        with _failing():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._commit(self._path, ticket)
            self._committed = True

    def drop(self) -> None:
        """See :class:`interlock.store.embedded.uploads.Sink`."""
        if self._committed:
            return
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class MemoryBlobs(Served):
    """Blobs that end with the process."""

    def __init__(self, clock: Callable[[], int]) -> None:
        key = secrets.token_bytes(_KEY_BYTES)
        super().__init__(lambda: key, clock)
        self._clock = clock
        self._blobs: dict[str, bytes] = {}
        self._uploads: dict[str, bytes] = {}
        self._until: dict[str, int] = {}

    def put(self, key: str, data: bytes) -> None:
        """Store."""
        self._blobs[key] = bytes(data)

    def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        return self._blobs.get(key)

    def stat(self, keys: Sequence[str]) -> dict[str, Stored]:
        """See :class:`interlock.store.ports.Blobs`."""
        there = {key: self._uploads[key] for key in keys if key in self._uploads}
        return {key: Stored(len(data), hashlib.sha256(data).hexdigest()) for key, data in there.items()}

    def keep(self, key: str) -> None:
        """See :class:`interlock.store.ports.Blobs`."""
        self._until.pop(key, None)

    def open(self, key: str) -> tuple[BinaryIO, int]:
        """An object's bytes and their number. Raises ``not_found``."""
        data = self._uploads.get(key)
        if data is None:
            raise gone()
        return io.BytesIO(data), len(data)

    def sweep(self) -> int:
        """Remove what was uploaded ``limits.UNVERIFIED_DAYS`` ago and not kept; answers how many."""
        late = [key for key, until in self._until.items() if until <= self._clock()]
        for key in late:
            del self._uploads[key], self._until[key]
        return len(late)

    def _sink(self) -> Sink:
        return _MemorySink(self._commit)

    def _commit(self, data: bytes, ticket: Ticket) -> None:
        if ticket.key in self._uploads:
            raise taken()
        self._uploads[ticket.key] = data
        self._until[ticket.key] = self._clock() + limits.UNVERIFIED_DAYS * limits.DAY


class _MemorySink:
    def __init__(self, commit: Callable[[bytes, Ticket], None]) -> None:
        self._data = io.BytesIO()
        self._commit = commit
        self.write = self._data.write

    def commit(self, ticket: Ticket) -> None:
        """See :class:`interlock.store.embedded.uploads.Sink`."""
        self._commit(self._data.getvalue(), ticket)

    def drop(self) -> None:
        """See :class:`interlock.store.embedded.uploads.Sink`."""


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _stat(path: Path) -> Stored:
    """A large file is hashed once, and again when something has touched it since."""
    with path.open("rb") as file:
        before = _fingerprint(file)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(_record(path).read_bytes())
            if known["file"] == before:
                return Stored(before["size"], str(known["sha256"]))
        sha256 = hashed(file)
        if _fingerprint(file) == before:
            _remember(path, file, sha256)
        return Stored(before["size"], sha256)


def _remember(path: Path, file: BinaryIO, sha256: str) -> None:
    """A note that saves work: where it cannot be written, or is torn, the file is hashed again."""
    with contextlib.suppress(OSError):
        _record(path).write_text(json.dumps({"file": _fingerprint(file), "sha256": sha256}), "ascii")


def _fingerprint(file: BinaryIO) -> dict[str, int]:
    found = os.fstat(file.fileno())
    return {
        "size": found.st_size,
        "modified": found.st_mtime_ns,
        "changed": found.st_ctime_ns,
        "file": found.st_ino,
    }


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError("store_unavailable", f"The bus's blob folder failed: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    """Write a new file, readable by its owner only, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable where the system can (Windows has no handle for a folder and needs none)."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    handle = os.open(folder, os.O_RDONLY | flag)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
