"""One command run to its end: fed, streamed, logged, and ended with all its children when need be."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TAIL = 256 * 1024
"""Bytes kept of each stream: enough for a result of the largest size the bus takes, written with spaces."""
CHUNK = 65_536
"""Bytes read at once, and the longest line that the log takes in one piece."""
LEFTOVERS = 2.0
"""Seconds that output may go on after the command's end, where a child of it still holds the stream."""


class Running:
    """A started command. Its output goes to standard error as it comes, and to ``log`` line by line: a line of one
    stream is never torn by the other's.

    ``payload`` is its standard input. Raises OSError when it cannot be started.
    """

    def __init__(
        self, command: Sequence[str], payload: bytes, environment: Mapping[str, str], log: Path
    ) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.log = log
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._size = 0
        self._open_line: str | None = None
        """The stream whose last logged piece did not end its line."""
        self._closed = False
        self._file = log.open("wb")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the caller's own command
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                **_own_group(),
            )
        except OSError:
            self._file.close()
            raise
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._unlogged = {"stdout": bytearray(), "stderr": bytearray()}
        self._readers = [
            self._thread(self._read, self._process.stdout, self.stdout, "stdout"),
            self._thread(self._read, self._process.stderr, self.stderr, "stderr"),
        ]
        self._thread(self._feed, self._process.stdin, payload)

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after ``seconds``. Negative: the signal that ended it."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace: float) -> None:
        """Ask the command and its children to end; after ``grace`` seconds make them."""
        _signal_tree(self._process, force=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)

    def close(self) -> tuple[str, int]:
        """Collect what is left of the output, end what the command left running, close the log.

        Answers the log's SHA-256 (hex) and its bytes.
        """
        until = time.monotonic() + LEFTOVERS
        if self._process.poll() is not None:
            for reader in self._readers:
                reader.join(max(0.0, until - time.monotonic()))
        _signal_tree(self._process, force=True)
        self._process.wait()
        for reader in self._readers:
            reader.join(LEFTOVERS)
        with self._lock:
            self._closed = True
            for name, rest in self._unlogged.items():
                self._log(name, rest)
            self._file.close()
        return self._digest.hexdigest(), self._size

    @staticmethod
    def _thread(run: Any, *args: Any) -> threading.Thread:
        thread = threading.Thread(target=run, args=args, daemon=True)
        thread.start()
        return thread

    @staticmethod
    def _feed(stdin: IO[bytes], payload: bytes) -> None:
        # A command that never reads its input is no error.
        with contextlib.suppress(OSError):
            stdin.write(payload)
        with contextlib.suppress(OSError):
            stdin.close()

    def _read(self, stream: IO[bytes], tail: bytearray, name: str) -> None:
        unlogged = self._unlogged[name]
        with contextlib.suppress(OSError, ValueError), stream:
            while chunk := os.read(stream.fileno(), CHUNK):
                with self._lock:
                    if self._closed:
                        return
                    tail += chunk
                    del tail[:-TAIL]
                    unlogged += chunk
                    # a line that does not end is no reason to keep everything in memory
                    whole = unlogged.rfind(b"\n") + 1 or (len(unlogged) > CHUNK and len(unlogged))
                    self._log(name, unlogged[:whole])
                    del unlogged[:whole]
                    _echo(chunk)

    def _log(self, name: str, text: bytes | bytearray) -> None:
        """Append to the log; a line that one stream left open does not run into the other's."""
        if not text:
            return
        if self._open_line not in (None, name):
            text = b"\n" + text
        self._open_line = None if text.endswith(b"\n") else name
        self._file.write(text)
        self._digest.update(text)
        self._size += len(text)


def _echo(chunk: bytes) -> None:
    stream = getattr(sys.stderr, "buffer", None)
    if stream is None:
        sys.stderr.write(chunk.decode("utf-8", "replace"))
    else:
        stream.write(chunk)
    sys.stderr.flush()


def _own_group() -> dict[str, Any]:
    """Options that put a command and its children where they can be ended together."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _signal_tree(process: subprocess.Popen[bytes], *, force: bool) -> None:
    """Signal a command and its children; no error when they are gone."""
    with contextlib.suppress(OSError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL if force else signal.SIGTERM)
        elif process.poll() is None:
            tool = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32" / "taskkill.exe"
            subprocess.run([tool, "/T", "/F", "/PID", str(process.pid)], check=False, capture_output=True)  # noqa: S603 - a fixed program
