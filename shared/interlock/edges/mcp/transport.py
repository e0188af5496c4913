"""MCP over HTTP as one request and one answer: an API Gateway event in, an answer out.

Streams are not offered: a function that is billed by the millisecond keeps no connection open. GET and DELETE, which
open streams and end sessions, are answered 405, as the protocol has it for servers without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from interlock.edges.mcp import revisions, rpc
from interlock.edges.mcp.protocol import Server
from interlock.edges.mcp.rpc import INTERNAL_ERROR, PARSE_ERROR, RpcError

Answer = dict[str, Any]
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def from_foreign_page(headers: Mapping[str, str], *, secure: bool) -> bool:
    """Whether a page of another site sends this, so that it has to be refused (DNS rebinding).

    Browsers say whose page it is in Origin; other clients send none. Behind HTTPS the address is one that the gateway
    knows to be its own. Without it a name proves nothing, as whoever made the page may let it point anywhere.
    """
    if "origin" not in headers:
        return False
    host, origin = _host("//" + headers.get("host", "")), _host(headers["origin"])
    return not (origin in _LOOPBACK or (origin == host and (secure or _is_address(host))))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def answer(
    server: Server,
    message: Any,
    headers: Mapping[str, str],
    caller: Any,
    failed: Callable[[Exception], None],
) -> Answer:
    """The answer to a POST of a parsed message by a known caller; ``failed`` is told of defects."""
    modern = speaks_modern(headers)
    try:
        request = rpc.read(message)
        if request is None:
            return {"statusCode": 202, "headers": {"cache-control": "no-store"}, "body": ""}
        modern = modern or revisions.REVISION in request.meta
        result, notifications = server.answer(request, headers, caller)
    except RpcError as error:
        return refused(rpc.id_of(message), error, modern=modern)
    except Exception as error:  # noqa: BLE001  the last line of defence: an error message, never a trace
        failed(error)
        return refused(rpc.id_of(message), RpcError(INTERNAL_ERROR, "the server failed"), modern=modern)
    return _written(200, [*notifications, rpc.result(request, result)])


def unreadable(why: str) -> Answer:
    """The answer to a body that is no message."""
    return refused(None, RpcError(PARSE_ERROR, why), modern=True)


def speaks_modern(headers: Mapping[str, str]) -> bool:
    """Whether a request's headers are those of 2026-07-28."""
    return "mcp-method" in headers or headers.get("mcp-protocol-version") == revisions.MODERN


def refused(to: rpc.Id | None, error: RpcError, *, modern: bool) -> Answer:
    """The answer that refuses a request."""
    return _written(error.status(modern=modern), [rpc.failure(to, error)])


def _written(status: int, messages: Sequence[Mapping[str, Any]]) -> Answer:
    """One message as JSON; several as an event stream that is whole when it arrives."""
    texts = [json.dumps(message, separators=(",", ":")) for message in messages]
    kind, body = "application/json", texts[0]
    if len(texts) > 1:
        kind, body = "text/event-stream", "".join(f"event: message\ndata: {text}\n\n" for text in texts)
    return {
        "statusCode": status,
        "headers": {"content-type": kind, "cache-control": "no-store"},
        "body": body,
    }
