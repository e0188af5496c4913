"""From a parsed request to a handler's answer and the bytes of the response.

The server's own refusals are problem+json like the handlers'.
"""

from __future__ import annotations

import base64
import logging
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from waitress.utilities import (
    InternalServerError,
    RequestEntityTooLarge,
    RequestHeaderFieldsTooLarge,
    build_http_date,
)

from interlock.domain import limits
from interlock.edges.problems import problem_response
from interlock.errors import InterlockError
from interlock.local.door import Arriving, Door, File
from interlock.local.events import LambdaContext, http_event, new_request_id
from interlock.local.routing import Router
from interlock.local.template import Function, Handler

log = logging.getLogger("interlock.http")

BODY_BYTES = limits.BODY_BYTES + 64 * 1024
"""Bodies above this never reach a handler; below it the handlers name the limit themselves."""
HEADER_BYTES = 32 * 1024

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A function and its loaded handler."""

    function: Function
    handler: Handler


class Gateway:
    """Answers parsed requests. Called from many threads; does not raise."""

    def __init__(self, router: Router[Target], before: Callable[[], None], door: Door | None = None) -> None:
        self._router = router
        self._before = before
        self._door = door
        self._names: dict[str, str] = {}

    def __call__(self, request: Any, source_ip: str, close: Callable[[], bool]) -> tuple[bytes, File | None]:
        """The response to a request of waitress's parser, and a file that follows it.

        ``close`` says whether the connection ends with it.
        """
        method, version = getattr(request, "command", ""), request.version
        request_id = new_request_id()
        started = time.perf_counter()
        try:
            target = origin_form(getattr(request, "request_uri", ""))
            if self._door is not None and self._door.takes(target):
                answer = self._through(self._door, request, target)
                _record(request, "", int(answer["statusCode"]), request_id, started)
            else:
                answer = self._answer(request, source_ip, request_id)
            return _rendered(answer, method, close(), version)
        except InterlockError as problem:
            refusal = problem
        except Exception:
            log.exception(
                "%s %s failed", method, getattr(request, "path", ""), extra={"request_id": request_id}
            )
            refusal = InterlockError("internal")
        _record(request, str(refusal), refusal.status, request_id, started)
        return render(problem_response(refusal, request_id), method, close(), version), None

    def _through(self, door: Door, request: Any, target: str) -> Answer:
        """An upload or a download. A refused upload says why, whatever else is wrong with the request."""
        upload: Arriving | None = request.upload
        if request.error is not None and (upload is None or upload.refusal is None):
            raise _refusal(request.error)
        self._before()
        return door.answer(request.command, target) if upload is None else door.end(upload)

    def _answer(self, request: Any, source_ip: str, request_id: str) -> Answer:
        if request.error is not None:
            raise _refusal(request.error)
        headers = {self._name(name): value for name, value in request.headers.items()}
        headers["x-forwarded-proto"], headers["x-forwarded-for"] = "http", source_ip
        body = _read_body(request, headers)
        target = origin_form(request.request_uri)
        match = self._router.match(request.command, target.partition("?")[0])
        if match is None:
            raise InterlockError("not_found", f"no route takes {request.command} {target}")
        event = http_event(
            match=match,
            method=request.command,
            target=target,
            headers=headers,
            body=body,
            source_ip=source_ip,
            request_id=request_id,
            now=time.time(),
        )
        self._before()
        answer: Answer = match.target.handler(event, LambdaContext(match.target.function, request_id))
        return answer

    def _name(self, name: str) -> str:
        """A header's name as API Gateway writes it; waitress hands them over as CONTENT_TYPE."""
        known = self._names.get(name)
        if known is None:
            known = name.lower().replace("_", "-")
            if len(self._names) < 200:
                self._names[name] = known
        return known


def _record(request: Any, text: str, status: int, request_id: str, started: float) -> None:
    """The log line of a request that no handler answered; handlers write their own. It names no signature."""
    log.info(
        "%s",
        text,
        extra={
            "method": getattr(request, "command", "-"),
            "path": getattr(request, "path", "-"),
            "status": status,
            "ms": round((time.perf_counter() - started) * 1000, 1),
            "request_id": request_id,
        },
    )


def _refusal(error: Any) -> InterlockError:
    """The bus's words for what waitress found."""
    if isinstance(error, RequestHeaderFieldsTooLarge):
        return InterlockError("headers_too_large", f"the request's headers exceed {HEADER_BYTES} bytes")
    if isinstance(error, RequestEntityTooLarge):
        return _too_large()
    if isinstance(error, InternalServerError):
        return InterlockError("internal")
    return InterlockError("malformed_request", str(error.body))


def _too_large() -> InterlockError:
    return InterlockError("too_large", f"the body exceeds {limits.BODY_BYTES} bytes")


def origin_form(uri: str) -> str:
    """Path and query as sent, without scheme, host and fragment."""
    target = uri.partition("#")[0]
    if not target.startswith("/") and "://" in target:
        rest = target.partition("://")[2]
        target = rest[rest.find("/") :] if "/" in rest else "/"
    return target


def _read_body(request: Any, headers: dict[str, str]) -> bytes:
    """The decoded body. Chunks were joined by waitress; gzip is undone here, within the limit."""
    receiver = request.body_rcv
    if receiver is None:
        return b""
    if len(receiver) > BODY_BYTES:
        raise _too_large()
    body: bytes = receiver.getfile().read()
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = _gunzip(body)
        headers["content-length"] = str(len(body))
    elif encoding not in ("", "identity"):
        raise InterlockError(
            "malformed_request", f"Content-Encoding {encoding[:40]!r} is not known; use gzip or none"
        )
    headers.pop("content-encoding", None)
    return body


def _gunzip(body: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        data = inflater.decompress(body, BODY_BYTES + 1)
    except zlib.error as problem:
        raise InterlockError("malformed_request", f"the gzip body cannot be read: {problem}") from problem
    if len(data) > BODY_BYTES:
        raise _too_large()
    if not inflater.eof or inflater.unused_data:
        raise InterlockError("malformed_request", "the gzip body is cut off or has something after it")
    return data


_HEADS = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n" for status in HTTPStatus}
_date: tuple[int, str] = (0, "")


def _date_line() -> str:
    """The Date header, made once a second. A race between threads makes it twice, which is harmless."""
    global _date  # noqa: PLW0603  a cache of one value
    now = int(time.time())
    at, line = _date
    if at != now:
        line = f"Date: {build_http_date(now)}\r\n"
        _date = (now, line)
    return line


def _rendered(answer: Answer, method: str, close: bool, version: str) -> tuple[bytes, File | None]:
    """An answer's bytes, and the file that follows them."""
    body = answer.get("body")
    if not isinstance(body, File):
        return render(answer, method, close, version), None
    head = render({**answer, "body": ""}, method, close, version, length=body.size)
    if method == "HEAD":
        body.file.close()
        return head, None
    return head, body


def render(answer: Answer, method: str, close: bool, version: str, *, length: int | None = None) -> bytes:
    """An answer's bytes. Header values come from our handlers, but a line break in one must never pass.

    ``length`` is that of a body which follows by itself.
    """
    status = int(answer["statusCode"])
    text = answer.get("body") or ""
    body = base64.b64decode(text) if answer.get("isBase64Encoded") else text.encode()
    lines = [_HEADS.get(status) or f"HTTP/1.1 {status} Status\r\n"]
    for name, value in (answer.get("headers") or {}).items():
        line = f"{name}: {value}"
        if "\r" in line or "\n" in line:
            log.error("header %r was left out: it holds a line break", name)
            continue
        lines.append(f"{line}\r\n")
    lines.extend(f"set-cookie: {cookie}\r\n" for cookie in answer.get("cookies") or ())
    if status >= 200 and status not in (204, 304):
        lines.append(f"content-length: {len(body) if length is None else length}\r\n")
    lines.append(_date_line())
    if close:
        lines.append("Connection: close\r\n\r\n")
    else:
        lines.append("Connection: keep-alive\r\n\r\n" if version == "1.0" else "\r\n")
    head = "".join(lines).encode("latin-1", "replace")
    return head if method == "HEAD" or status < 200 or status in (204, 304) else head + body
