"""The data folder: who holds it, which format it has, the credentials that `interlock up` prints.

| File | What |
|---|---|
| ``bus.db``, ``blobs/`` | the embedded store |
| ``credentials.json`` | the same credentials at every start (mode 0600) |
| ``lock``, ``holder.json`` | an OS file lock, free after ``kill -9``, and who holds it |
| ``format`` | the folder's format; a newer one is refused, an older one backed up and migrated |
| ``.gitignore`` | keeps all of it out of repositories |
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from filelock import FileLock, Timeout

from interlock.domain.identity import read_token

FORMAT = 1
"""The format that this version reads and writes."""
MIGRATIONS: Mapping[int, Callable[[Path], None]] = {}
"""By format: what turns a folder of that format into the next one. May run again after a crash."""
_START_ANEW = "Move it away and start again: new credentials are made, the data stays."
_NOT_BACKED_UP = ("lock", "holder.json", "backups")


class FolderError(Exception):
    """The data folder cannot be used; the text names the way out, ``exit_code`` is the process's."""

    exit_code = 1


class FolderBusyError(FolderError):
    """Another process holds the data folder."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Credentials:
    """The local installation's owner and its first agent, with their tokens; ``url`` is where the bus serves."""

    url: str
    project: str
    owner: str
    owner_token: str
    agent: str
    agent_token: str


class Folder:
    """A data folder that this process holds until it closes it."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    def announce(self, url: str) -> None:
        """Tell whoever comes second who holds the folder, and where it serves."""
        _write(self.path / "holder.json", json.dumps({"pid": os.getpid(), "url": url}))

    def credentials(self, make: Callable[[], Credentials]) -> Credentials:
        """The credentials of this folder; ``make`` is called when there are none yet.

        They are on disk before anything is made from them, so that a crash in between loses nothing: the next
        start finds the same secrets and makes what is missing.
        """
        file = self.path / "credentials.json"
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            made = make()
            self.save(made)
            return made
        try:
            found = json.loads(text)
            credentials = Credentials(**{field.name: str(found[field.name]) for field in fields(Credentials)})
        except (ValueError, KeyError, TypeError) as problem:
            raise FolderError(f"{file} cannot be read ({problem!r}). {_START_ANEW}") from problem
        if read_token(credentials.owner_token) is None or read_token(credentials.agent_token) is None:
            raise FolderError(f"{file} holds a token that is none. {_START_ANEW}")
        return credentials

    def save(self, credentials: Credentials) -> None:
        """Write credentials.json, readable by its owner only."""
        _write(self.path / "credentials.json", json.dumps(asdict(credentials), indent=2) + "\n")

    def close(self) -> None:
        """Let the folder go."""
        with contextlib.suppress(OSError):
            (self.path / "holder.json").unlink(missing_ok=True)
        self._lock.release()


def hold(
    path: Path, *, migrations: Mapping[int, Callable[[Path], None]] = MIGRATIONS, current: int = FORMAT
) -> Folder:
    """Take the data folder, make it when it is not there, bring it to the current format.

    Raises FolderBusyError when another process has it, FolderError when it cannot be used.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (path / ".gitignore").exists():
            _write(path / ".gitignore", "*\n")
    except OSError as problem:
        raise FolderError(
            f"the data folder {path} cannot be made: {problem}. Choose another with --data."
        ) from problem
    lock = FileLock(path / "lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FolderBusyError(_busy(path)) from None
    folder = Folder(path, lock)
    try:
        folder.announce("")
        _bring_up_to_date(path, migrations, current)
    except BaseException:
        folder.close()
        raise
    return folder


def _busy(path: Path) -> str:
    try:
        holder = json.loads((path / "holder.json").read_text(encoding="utf-8"))
        who = f"process {holder['pid']}" + (f", {holder['url']}" if holder["url"] else "")
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process that is just starting"
    return f"the data folder {path} is held by {who}. Use that bus, stop it first, or choose another folder with --data."


def _bring_up_to_date(path: Path, migrations: Mapping[int, Callable[[Path], None]], current: int) -> None:
    file = path / "format"
    try:
        found = int(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (path / "bus.db").exists():
            raise FolderError(
                f"{path} holds a bus.db but no format file; it is not clear what wrote it."
            ) from None
        _write(file, f"{current}\n")
        return
    except ValueError as problem:
        raise FolderError(f"{file} cannot be read: {problem}") from problem
    if found > current:
        raise FolderError(
            f"{path} has format {found}, written by a newer Interlock; this one reads up to {current}. "
            "Install the newer version, or choose another folder with --data."
        )
    if found < current:
        saved = _back_up(path, found)
        for version in range(found, current):
            try:
                migrations[version](path)
            except Exception as problem:
                raise FolderError(
                    f"{path} could not be migrated from format {version}: {problem!r}. The folder as it was is in {saved}."
                ) from problem
            _write(file, f"{version + 1}\n")


def _back_up(path: Path, version: int) -> Path:
    target = path / "backups" / f"format-{version}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    partial = target.with_name(target.name + ".partial")
    shutil.copytree(path, partial, ignore=lambda folder, _: _NOT_BACKED_UP if Path(folder) == path else ())
    partial.rename(target)
    return target


def _write(file: Path, text: str) -> None:
    """Replace a file in one step: whoever reads it sees the old text or the new one, also after a crash."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(
        os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
    if os.name == "posix":
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
