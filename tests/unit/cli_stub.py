"""A stub bus for tests of the command line: scripted answers over real HTTP, and every request written down."""

import contextlib
import functools
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import typer

from interlock.cli.main import build

AGENT, OWNER = "il_agt_default.agt_1.secret", "il_own_default.own_1.secret"


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


def problem(status: int, code: str, **more: Any) -> tuple[int, dict[str, Any]]:
    detail = {
        "type": f"urn:interlock:error:{code}",
        "title": "T",
        "status": status,
        "code": code,
        "detail": f"said {code}",
        "hint": "do that",
        "errors": [],
        "request_id": "r1",
    }
    return status, {**detail, **more}


@dataclass
class Stub:
    """``answer(asked)`` gives (status, value) or (status, value, headers)."""

    answer: Callable[[Asked], tuple[Any, ...]] = lambda asked: (200, {})
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def of(self, path_end: str) -> list[Asked]:
        return [one for one in self.asked if one.path.endswith(path_end)]


@contextlib.contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            parts = urlsplit(self.path)
            asked = Asked(
                self.command,
                parts.path,
                parse_qs(parts.query),
                {name.lower(): value for name, value in self.headers.items()},
                raw if self.command == "PUT" else json.loads(raw) if raw else None,
            )
            stub.asked.append(asked)
            answer = stub.answer(asked)
            if answer is None:  # no answer at all
                self.connection.close()
                return
            status, value, *rest = answer
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            with contextlib.suppress(OSError):
                self.send_response_only(status)
                for name, text in (rest[0] if rest else {}).items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

        def log_message(self, *args: object) -> None:
            pass

        def finish(self) -> None:
            with contextlib.suppress(OSError, ValueError):
                super().finish()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


@functools.cache
def _program() -> Any:
    """The whole program, put together once: it keeps nothing of a call."""
    return typer.main.get_command(build())


def cli(
    *args: str, url: str | None = None, token: str | None = OWNER, stdin: str = "", **environment: str
) -> Ended:
    """Run the command line in this process with a clean environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    if url:
        clean["INTERLOCK_URL"] = url
    if token:
        clean["INTERLOCK_TOKEN"] = token
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.dict(os.environ, {**clean, **environment}, clear=True),
        mock.patch("sys.stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            _program()(list(args))
        except SystemExit as end:
            code = end.code or 0
    return Ended(int(code), out.getvalue(), err.getvalue())
