"""Blobs as files of a folder, or in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from interlock.errors import StoreError


class FolderBlobs:
    """One file per key, named by the key's hash: any key is a safe name on any file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, data: bytes) -> None:
        """Write beside, sync, rename: a reader sees the whole blob or none, also after a crash."""
        path = self._path(key)
        try:
            if path.exists():
                return
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
        except OSError as error:
            raise StoreError(
                "store_unavailable", f"The bus's blob folder failed: {error.strerror}"
            ) from error

    def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                "store_unavailable", f"The bus's blob folder failed: {error.strerror}"
            ) from error

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / name[:2] / name


class MemoryBlobs:
    """Blobs that end with the process."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        """Store."""
        self._blobs[key] = bytes(data)

    def get(self, key: str) -> bytes | None:
        """The bytes, or None."""
        return self._blobs.get(key)


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
