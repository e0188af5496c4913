"""MCP on standard input and output: lines in, lines out, several requests at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from interlock.cli.relay import Json, Relay
from interlock.edges import jsonio
from interlock.edges.mcp import rpc
from interlock.errors import InterlockError

LINE_BYTES = 16 * 1024 * 1024
"""A longer line is skipped; of those that fit the bus judges itself."""
CHUNK = 65_536
"""Bytes read at once."""
AT_ONCE = 16
"""Requests that are under way at the same time; the next line is read when one of them is answered."""


def serve(
    relay: Relay,
    read: Callable[[int], bytes],
    write: Callable[[bytes], int],
    stop: threading.Event,
) -> None:
    """Answer what is read, until ``stop`` is set; it is set when the input has ended and everything is answered, and
    when nobody reads the output any more. ``read`` and ``write`` are those of files: they block, and may do less.
    """
    output = Output(write, stop)
    # a thread that stands in a read of the system's, and not one of Python's, does not hold up the process's end
    threading.Thread(target=_take, args=(relay, read, output, stop), daemon=True).start()
    while not stop.wait(1.0):  # Windows looks at signals between waits only
        pass


@dataclass(slots=True)
class Output:
    """Writes messages, each in one piece, one line each."""

    write: Callable[[bytes], int]
    stop: threading.Event
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def say(self, messages: Sequence[Json]) -> None:
        """Write messages; when nobody reads them, it is time to stop."""
        lines = (json.dumps(message, separators=(",", ":")) + "\n" for message in messages)
        left = memoryview("".join(lines).encode("ascii"))
        with self._lock:
            try:
                while left:
                    left = left[self.write(left.tobytes()) :]
            except OSError:
                self.stop.set()


def _take(relay: Relay, read: Callable[[int], bytes], output: Output, stop: threading.Event) -> None:
    """Read lines to the end; begin each request in a thread of its own."""
    room = threading.Semaphore(AT_ONCE)
    under_way: dict[rpc.Id, threading.Event] = {}

    def carry_out(request: rpc.Request, cancelled: threading.Event) -> None:
        try:
            output.say(relay.answer(request, cancelled))
        finally:
            under_way.pop(request.id, None)
            room.release()

    try:
        for line in lines(read):
            request = _request(line, under_way, output)
            if request is not None:
                room.acquire()
                cancelled = under_way[request.id] = threading.Event()
                threading.Thread(target=carry_out, args=(request, cancelled), daemon=True).start()
        for _ in range(AT_ONCE):
            room.acquire()
    finally:
        stop.set()


def _request(
    line: bytes | None, under_way: Mapping[rpc.Id, threading.Event], output: Output
) -> rpc.Request | None:
    """The request in a line; what is none is dealt with here. ``under_way`` has what can be cancelled."""
    message = None
    try:
        if line is None:
            raise rpc.RpcError(rpc.INVALID_REQUEST, f"a message is longer than {LINE_BYTES:,} bytes")
        if not line.strip():
            return None
        try:
            message = jsonio.read(line)
        except InterlockError as error:
            raise rpc.RpcError(rpc.PARSE_ERROR, error.detail) from None
        request = rpc.read(message)
    except rpc.RpcError as error:
        output.say([rpc.failure(rpc.id_of(message), error)])
        return None
    if request is None and message.get("method") == "notifications/cancelled":
        params = message.get("params")
        named = params.get("requestId") if isinstance(params, dict) else None
        cancelled = under_way.get(named) if isinstance(named, str | int | float) else None
        if cancelled is not None:
            cancelled.set()
    return request


def lines(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """The lines of an input, without their ends; None for each that is too long. What follows the last end of a line is
    a line too."""
    line, too_long = bytearray(), False
    while chunk := _some(read):
        *ended, begun = chunk.split(b"\n")
        for piece in ended:
            line += piece
            yield None if too_long or len(line) > LINE_BYTES else bytes(line)
            line, too_long = bytearray(), False
        line += begun
        if len(line) > LINE_BYTES:
            line, too_long = bytearray(), True
    if line or too_long:
        yield None if too_long else bytes(line)


def _some(read: Callable[[int], bytes]) -> bytes:
    """What comes next; nothing at the end, and when the input cannot be read."""
    try:
        return read(CHUNK)
    except OSError:
        return b""
