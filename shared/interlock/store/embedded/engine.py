"""The embedded engine: one SQLite database in WAL mode, one writer with group commit, any number of readers.

Every submission (:data:`Work`) decides before it writes: it raises before its first write or not at all. The
writer takes all submissions that wait, carries them out in one ``BEGIN IMMEDIATE`` … ``COMMIT`` and answers them
after the commit, so that one sync of the disk serves many callers and an acknowledged write is durable. When the
database itself fails, or a submission breaks off half-way, the whole commit is undone and each submission is
carried out again in a transaction of its own: a neighbour's failure is never ours.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from interlock.config import QUEUES
from interlock.errors import StoreError
from interlock.store.embedded.schema import MEMORY, connect, prepare
from interlock.store.embedded.signal import Signal

T = TypeVar("T")

_BATCH = 256
"""Submissions of one commit, so that a flood cannot postpone every answer."""


class Session:
    """What a submission writes through: the writer's connection, and whom the commit should wake."""

    __slots__ = ("changed", "execute", "queued")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.changed = False
        self.queued: set[str] = set()


Work = Callable[[Session], T]
Read = Callable[[sqlite3.Connection], T]


class Engine(Protocol):
    """What the ports of the embedded store stand on."""

    changed: Signal
    """Rings after a commit that appended to the change log."""
    queued: Mapping[str, Signal]
    """By queue: rings after a commit that sent messages there."""

    def read(self, read: Read[T]) -> T:
        """Run a read on a consistent state that includes every answered write."""

    def write(self, work: Work[T]) -> T:
        """Run a submission and answer when it is durable. ``work`` may run more than once."""

    def close(self) -> None:
        """Finish what was submitted and let go of the database; later calls raise StoreError."""


class _Submission:
    __slots__ = ("answered", "error", "result", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.answered = threading.Lock()
        self.answered.acquire()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class _SpoiledError(Exception):
    """A submission raised after it had written: its transaction cannot be kept."""


class _Writer:
    """Carries out batches of submissions on one connection. Not thread-safe."""

    def __init__(self, connection: sqlite3.Connection, changed: Signal, queued: Mapping[str, Signal]) -> None:
        self._connection = connection
        self._session = Session(connection)
        self._changed = changed
        self._queued = queued

    def carry_out(self, batch: list[_Submission]) -> None:
        """Carry out submissions in one commit, or one by one if that fails; each has its outcome afterwards."""
        session = self._session
        session.changed = False
        session.queued.clear()
        try:
            self._commit(batch)
        except (sqlite3.Error, _SpoiledError) as error:
            self._undo()
            if len(batch) > 1:
                for submission in batch:
                    self.carry_out([submission])
                return
            cause = error.__cause__ if isinstance(error, _SpoiledError) else unavailable(error)
            batch[0].error = cause
        except BaseException:
            self._undo()
            raise
        for submission in batch:
            submission.answered.release()
        if session.changed:
            self._changed.ring()
        for queue in session.queued & self._queued.keys():
            self._queued[queue].ring()

    def _commit(self, batch: list[_Submission]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for submission in batch:
            before = connection.total_changes
            submission.error = None
            try:
                submission.result = submission.work(self._session)
            except sqlite3.Error:
                raise
            except Exception as error:
                if connection.total_changes != before:
                    raise _SpoiledError from error
                submission.error = error
        connection.execute("COMMIT")

    def _undo(self) -> None:
        self._session.changed = False
        self._session.queued.clear()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the connection is beyond help; the next BEGIN reports it


def unavailable(error: BaseException | str) -> StoreError:
    """The one error that callers see when SQLite fails."""
    return StoreError("store_unavailable", f"The bus's database failed: {error}")


class FileEngine:
    """A database file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.changed = Signal()
        self.queued: Mapping[str, Signal] = {queue: Signal() for queue in QUEUES}
        self._path = path
        self._closed = False
        self._gate = threading.Lock()
        self._idle: deque[sqlite3.Connection] = deque()
        self._inbox: SimpleQueue[_Submission | None] = SimpleQueue()
        try:
            path.touch(mode=0o600)  # what SQLite puts beside it takes its mode
            self._connection = connect(path, cache_kib=16 * 1024)
            prepare(self._connection, durable=True)
        except (sqlite3.Error, OSError) as error:
            raise unavailable(error) from error
        self._writer = _Writer(self._connection, self.changed, self.queued)
        self._thread = threading.Thread(target=self._run, name="interlock-writer", daemon=True)
        self._thread.start()

    def read(self, read: Read[T]) -> T:
        """Run a read on a connection of the pool, which grows to as many as read at the same time."""
        if self._closed:
            raise unavailable("it is closed")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open_reader()
        try:
            return read(connection)
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            self._idle.append(connection)
            if self._closed:
                self._close_idle()

    def write(self, work: Work[T]) -> T:
        """Hand a submission to the writer thread and wait for its commit."""
        submission = _Submission(work)
        with self._gate:
            if self._closed:
                raise unavailable("it is closed")
            self._inbox.put(submission)
        submission.answered.acquire()
        result: T = submission.outcome()
        return result

    def close(self) -> None:
        """Commit what was submitted, end the writer thread and close every connection."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._inbox.put(None)
        self._thread.join()
        self._close_idle()
        self._connection.close()

    def _run(self) -> None:
        closing = False
        while not closing:
            batch: list[_Submission] = []
            following = self._inbox.get()
            while following is not None:
                batch.append(following)
                if len(batch) == _BATCH:
                    break
                try:
                    following = self._inbox.get_nowait()
                except Empty:
                    break
            else:
                closing = True
            if batch:
                self._writer.carry_out(batch)

    def _open_reader(self) -> sqlite3.Connection:
        try:
            return connect(self._path, cache_kib=2 * 1024, query_only=True)
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class MemoryEngine:
    """A database in memory: every call is carried out at once in the calling thread, one at a time."""

    def __init__(self) -> None:
        self.changed = Signal()
        self.queued: Mapping[str, Signal] = {queue: Signal() for queue in QUEUES}
        self._closed = False
        self._lock = threading.RLock()
        self._connection = connect(MEMORY, cache_kib=2 * 1024)
        prepare(self._connection, durable=False)
        self._writer = _Writer(self._connection, self.changed, self.queued)

    def read(self, read: Read[T]) -> T:
        """Run a read."""
        with self._lock:
            if self._closed:
                raise unavailable("it is closed")
            try:
                return read(self._connection)
            except sqlite3.Error as error:
                raise unavailable(error) from error

    def write(self, work: Work[T]) -> T:
        """Run a submission in a transaction of its own."""
        submission = _Submission(work)
        with self._lock:
            if self._closed:
                raise unavailable("it is closed")
            self._writer.carry_out([submission])
        result: T = submission.outcome()
        return result

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def __del__(self) -> None:
        self._connection.close()
