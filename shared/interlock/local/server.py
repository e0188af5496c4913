"""HTTP in front of the handlers: waitress reads requests, handlers answer API Gateway events.

The WSGI step in between is left out: a request goes from waitress's parser straight into an event, and the
answer is written in one piece.
"""

from __future__ import annotations

import copy
import functools
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.buffers import ReadOnlyFileBasedBuffer
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.receiver import FixedStreamReceiver
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import RequestEntityTooLarge

from interlock.domain import limits
from interlock.local.door import Arriving, Door, close
from interlock.local.gateway import BODY_BYTES, HEADER_BYTES, Gateway, Target, origin_form
from interlock.local.routing import Router

SWALLOWED_BYTES = 16 * 1024 * 1024
"""Bodies up to this are read to their end before they are refused, so that the client reads the refusal."""
THREADS = 24
BACKLOG = 1024
CONNECTIONS = 500
DRAIN_SECONDS = 10.0
_READ_AHEAD = 1
"""Requests of one connection that are read while another of its requests is handled."""


class PortBusyError(Exception):
    """The address cannot be listened on; the text names the way out."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, not yet listening; port 0 takes a free one. Raises PortBusyError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(
            socket, "SO_EXCLUSIVEADDRUSE"
        ):  # Windows: SO_REUSEADDR there lets two servers share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except (OSError, OverflowError) as problem:
        sock.close()
        raise PortBusyError(_busy(f"{host} port {port}", problem)) from problem
    return sock


def _busy(where: str, problem: Exception) -> str:
    return (
        f"cannot listen on {where}: {problem}. Stop what listens there, "
        "or choose another port with --port N (--port 0 takes a free one)."
    )


class Server:
    """Serves routes on a bound socket from threads of its own until it is closed."""

    def __init__(
        self,
        sock: socket.socket,
        router: Router[Target],
        *,
        before: Callable[[], None],
        threads: int = THREADS,
        door: Door | None = None,
    ) -> None:
        """``before`` runs ahead of every request, in the request's thread, and may hold it back.

        ``door`` answers uploads and downloads, where this process serves them.
        """
        self._map: dict[int, Any] = {}
        self._closing = False
        self._tasks = ThreadedTaskDispatcher()
        self._tasks.set_thread_count(threads)
        self._server = _TcpServer(
            Gateway(router, before, door),
            self._map,
            False,
            sock,
            dispatcher=self._tasks,
            adj=_adjustments(threads),
            bind_socket=False,
            sockinfo=(sock.family, sock.type, sock.proto, sock.getsockname()),
        )
        self._server.door = door
        self.url = _url(*sock.getsockname()[:2])
        self._loop = threading.Thread(target=self._run, name="interlock-http", daemon=True)

    def start(self) -> None:
        """Listen and serve. Raises PortBusyError when another socket on the port listened first."""
        try:
            self._server.accept_connections()
        except OSError as problem:
            raise PortBusyError(_busy(self.url, problem)) from problem
        self._loop.start()

    def close(self) -> None:
        """Stop listening, finish the requests that have begun, end the threads."""
        if self._loop.is_alive():
            self._server.trigger.pull_trigger(self._drain)
            self._loop.join(DRAIN_SECONDS + 1)
        else:
            wasyncore.close_all(self._map, ignore_all=True)
        self._tasks.shutdown(timeout=1)

    def _drain(self) -> None:
        """In the I/O thread: no new connections, idle ones closed, busy ones end with their answer."""
        self._closing = True
        self._server.draining = True
        self._server.accepting = False
        self._server.del_channel()
        self._server.socket.close()

    def _run(self) -> None:
        deadline = None
        while True:
            wasyncore.loop(timeout=0.1 if self._closing else 30, map=self._map, use_poll=True, count=1)
            if not self._closing:
                continue
            deadline = deadline or time.monotonic() + DRAIN_SECONDS
            busy = [c for c in self._server.active_channels.values() if c.requests or c.total_outbufs_len]
            if not busy or time.monotonic() > deadline:
                break
        wasyncore.close_all(self._map, ignore_all=True)


def _url(host: str, port: int) -> str:
    """Where a client of this machine finds the server; one that listens everywhere is found at home."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  read, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@functools.cache
def _of_uploads(adj: Adjustments) -> Adjustments:
    """The same for requests that carry an upload."""
    larger = copy.copy(adj)
    larger.max_request_body_size = limits.UPLOAD_BYTES + 1
    return larger


def _adjustments(threads: int) -> Adjustments:
    return Adjustments(
        threads=threads,
        backlog=BACKLOG,
        connection_limit=CONNECTIONS,
        max_request_header_size=HEADER_BYTES,
        max_request_body_size=SWALLOWED_BYTES,
        clear_untrusted_proxy_headers=False,
        log_socket_errors=False,
        channel_request_lookahead=_READ_AHEAD,
        recv_bytes=65536,
    )


class _Parser(HTTPRequestParser):  # type: ignore[misc]  # waitress is untyped
    """A request on its way in. A client that asks before it sends what nobody wants is refused at once, instead of
    after sending it. The body of an upload goes where it belongs, instead of into a buffer."""

    error: Any
    adj: Any
    body_rcv: Any
    expect_continue: bool
    upload: Arriving | None = None

    def __init__(self, adj: Adjustments, door: Door | None) -> None:
        super().__init__(adj)
        self._door = door

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if self.error is None and self._unwanted():
            self.error = RequestEntityTooLarge(f"{self.content_length} bytes")
            self.completed = True
        if self.error is not None:
            self.expect_continue = False
        return consumed

    def _unwanted(self) -> bool:
        if self.upload is None:
            return self.expect_continue and self.content_length > BODY_BYTES
        if self.upload.refusal is None:
            return False
        left = 0 if self.chunked or self.completed else self.body_rcv.remain
        return self.expect_continue or left > SWALLOWED_BYTES

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        target = origin_form(self.request_uri)
        if self._door is None or self.command != "PUT" or not self._door.takes(target):
            return
        self.upload = self._door.begin(target, None if self.chunked else self.content_length)
        if self.body_rcv is not None and not self.chunked:
            self.body_rcv = FixedStreamReceiver(self.content_length, self.upload)
        if self.upload.refusal is None:
            self.adj = _of_uploads(self.adj)

    def close(self) -> None:
        super().close()
        if self.upload is not None:
            self.upload.close()


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress is untyped
    """A connection. Differs from waitress's in what it costs: the I/O thread watches it all the time, so that it
    need not be told after each answer to watch it again."""

    requests: list[Any]

    def parser_class(self, adj: Adjustments) -> _Parser:
        """The next request of the connection."""
        return _Parser(adj, self.server.door)

    def handle_close(self) -> None:
        """Also forgets an upload that the connection broke off."""
        super().handle_close()
        if self.request is not None:
            self.request.close()

    def readable(self) -> bool:
        """Unlike waitress's also while an answer is being written; how much is read ahead is bounded anyway."""
        return not (self.will_close or self.close_when_flushed or len(self.requests) > _READ_AHEAD)

    def service(self) -> None:
        """Answer the oldest request that was read; in a thread of the pool."""
        request = self.requests[0]
        ends = self._answer(request)
        request.close()
        with self.requests_lock:
            was_full = len(self.requests) > _READ_AHEAD
            if ends:
                self.close_when_flushed = True
                self.requests = []
            else:
                self.requests.pop(0)
                if self.requests:
                    self.server.add_task(self)
                elif self.request is not None and self.request.expect_continue and not self.sent_continue:
                    self.send_continue()
        if ends or was_full or self.total_outbufs_len:
            self.server.pull_trigger()
        self.last_activity = time.time()

    def _answer(self, request: Any) -> bool:
        """Write the answer; whether the connection ends with it."""

        def ends() -> bool:
            return bool(self.server.draining or request.error or request.connection_close)

        if not self.connected:
            return True
        head, file = self.server.application(request, self.addr[0], ends)
        try:
            self.write_soon(head)
            if file is not None:
                body = ReadOnlyFileBasedBuffer(file.file)
                body.prepare(file.size)
                self.write_soon(body)
        except (OSError, ClientDisconnected):
            close(file)
            return True
        return ends()


class _TcpServer(TcpWSGIServer):  # type: ignore[misc]  # waitress is untyped
    channel_class = _Channel
    draining = False
    door: Door | None = None
