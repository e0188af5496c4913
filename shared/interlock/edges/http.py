"""HTTP: an API Gateway event in, an answer out; one pipeline for every operation.

Order of checks: size and syntax, credential, project and object, right, fields; then the use case: replay by
key, fence, status, rules.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from interlock.app.call import Answer
from interlock.domain import limits
from interlock.edges import auth, calls, jsonio, models, problems, runtime, telemetry
from interlock.edges.operations import OPERATIONS, Operation
from interlock.errors import FieldError, InterlockError

Event = Mapping[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]

_ETAG = re.compile(r'(?:W/)?"v([0-9]{1,15})"')
_LISTS = frozenset({"status", "role"})


def handler_for(name: str) -> Handler:
    """The Lambda handler of an operation."""
    entry = calls.entry(name)

    def handler(event: Event, _context: Any) -> dict[str, Any]:
        def answer(request: Request) -> dict[str, Any]:
            bus = runtime.bus()
            asked = _asked(request, entry)

            def admit(operation: Operation, now: int) -> auth.Admission:
                admitted = auth.admit(
                    bus, operation, request.params, request.headers.get("authorization"), now
                )
                request.actor = admitted.actor
                return admitted

            return _answer(entry.carry_out(bus, asked, admit), request)

        return served(event, name, answer)

    return handler


def not_found_handler(event: Event, _context: Any) -> dict[str, Any]:
    """The $default route: 405 with Allow where the path is known, else 404."""

    def answer(request: Request) -> dict[str, Any]:
        methods = sorted({row.method for row in OPERATIONS.values() if _fits(row.path, request.path)})
        if methods:
            raise InterlockError(
                "method_not_allowed",
                f"allowed here: {', '.join(methods)}",
                headers={"Allow": ", ".join(methods)},
            )
        raise InterlockError("not_found", "there is no such path", hint="GET /openapi.json lists every path.")

    return served(event, "system.not_found", answer)


def _fits(template: str, path: str) -> bool:
    ours, theirs = template.split("/"), path.split("/")
    return len(ours) == len(theirs) and all(
        o == t or (o.startswith("{") and t) for o, t in zip(ours, theirs, strict=True)
    )


class Request:
    """What the pipeline needs of an event."""

    def __init__(self, event: Event, name: str) -> None:
        context = event.get("requestContext") or {}
        self.event = event
        self.name = name
        self.method = str((context.get("http") or {}).get("method") or "")
        self.id = str(context.get("requestId") or "-")
        self.path = str(event.get("rawPath") or "/")
        self.headers: dict[str, str] = {
            str(k).lower(): str(v) for k, v in (event.get("headers") or {}).items()
        }
        scheme = "http" if self.headers.get("x-forwarded-proto") == "http" else "https"
        self.base = f"{scheme}://{context.get('domainName') or self.headers.get('host', '')}"
        self.params: dict[str, str] = dict(event.get("pathParameters") or {})
        self.actor = calls.NOBODY

    def body(self) -> bytes:
        raw = self.event.get("body") or ""
        if self.event.get("isBase64Encoded"):
            try:
                data = base64.b64decode(raw, validate=True)
            except (binascii.Error, ValueError):
                raise InterlockError("malformed_request", "the body is not base64") from None
        else:
            # a lone surrogate in the event becomes bytes that the reader then refuses
            data = str(raw).encode("utf-8", "surrogatepass")
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "gzip":
            data = _unzipped(data)
        elif encoding not in ("", "identity"):
            raise InterlockError(
                "unsupported_media_type", f"the body is encoded with {encoding}; gzip is understood"
            )
        if len(data) > limits.BODY_BYTES:
            raise models.too_large("the body", limits.BODY_BYTES)
        return data


def _unzipped(data: bytes) -> bytes:
    """A gzip body; never more of it than a byte beyond the limit."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        found = unzip.decompress(data, limits.BODY_BYTES + 1)
    except zlib.error:
        raise InterlockError("malformed_request", "the body is not gzip") from None
    if not unzip.eof and len(found) <= limits.BODY_BYTES:
        raise InterlockError("malformed_request", "the gzip body is cut short")
    return found


def served(event: Event, name: str, answer: Callable[[Request], dict[str, Any]]) -> dict[str, Any]:
    """Run an answer; whatever happens, one well-formed response and one log line."""
    started = time.perf_counter()
    request = Request(event, name)
    try:
        response = answer(request)
    except InterlockError as error:
        if error.status == 401:
            error.headers["WWW-Authenticate"] = auth.challenge(error.code, request.base)
        response = problems.problem_response(error, request.id)
    except Exception as error:  # noqa: BLE001  the last line of defence: a problem document, never a trace
        telemetry.failure(name, request.id, error)
        response = problems.problem_response(InterlockError("internal"), request.id)
    telemetry.request(
        request.name, event, response, request.actor, request.id, (time.perf_counter() - started) * 1_000
    )
    return response


def _asked(request: Request, entry: calls.Entry) -> calls.Asked:
    """What a request asks of an operation; size and syntax are judged here."""
    operation = entry.operation
    raw = _read_body(request, operation)
    return calls.Asked(
        request.params,
        raw,
        lambda: _query(entry, request),
        _key_header(request, operation),
        _if_match(request),
        request.headers.get("traceparent"),
        request.base,
    )


def _read_body(request: Request, operation: Operation) -> Any:
    """The parsed body; an operation whose fields are all optional takes an empty one as `{}`."""
    data = request.body()
    if not operation.body:
        return {}
    if data:
        require_json(request)
    return jsonio.read(data) if data.strip() else {}


def require_json(request: Request) -> None:
    """The body is JSON by its type, or unsupported_media_type."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "application/merge-patch+json"):
        raise InterlockError("unsupported_media_type", f"the body is {jsonio.quoted(kind) or 'of no type'}")


def _key_header(request: Request, operation: Operation) -> str | None:
    key = request.headers.get("idempotency-key")
    return None if key is None or not operation.keyed else calls.check_key(key)


def _if_match(request: Request) -> int | None:
    header = request.headers.get("if-match")
    if header is None:
        return None
    match = _ETAG.fullmatch(header.strip())
    if match is None:
        raise InterlockError("malformed_request", 'If-Match is an ETag of this API, for example "v3"')
    return int(match[1])


def _query(entry: calls.Entry, request: Request) -> dict[str, Any]:
    text = str(request.event.get("rawQueryString") or "")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=limits.QUERY_PARAMETERS)
    except ValueError:
        raise InterlockError("malformed_request", "the query string cannot be read") from None
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in _LISTS and entry.query is models.JobQuery:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InterlockError("invalid", errors=[FieldError(jsonio.quoted(name), "is given twice")])
        else:
            given[name] = value
    return given


def _answer(answer: Answer, request: Request) -> dict[str, Any]:
    headers = {"content-type": "application/json", "cache-control": "no-store", "x-request-id": request.id}
    if answer.version is not None:
        headers["etag"] = f'"v{answer.version}"'
    if answer.replayed:
        headers["idempotency-replayed"] = "true"
    return {
        "statusCode": 201 if answer.created else 200,
        "headers": headers,
        "body": jsonio.write(answer.value),
    }
