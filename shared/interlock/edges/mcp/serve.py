"""The handler of ``/mcp``: authenticate as REST does, then let the protocol answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from interlock import __version__, guide
from interlock.edges import auth, http, jsonio, runtime, telemetry
from interlock.edges.mcp import resources, tools, transport
from interlock.edges.mcp.on_decisions import DecisionTasks
from interlock.edges.mcp.prompts import PROMPTS
from interlock.edges.mcp.protocol import Server
from interlock.edges.mcp.session import Session
from interlock.errors import InterlockError

NAME = "system.mcp"
METHODS = "POST"


@cache
def server() -> Server:
    """What is served; made on first use, as nothing in it depends on who asks."""
    return Server(
        "interlock",
        __version__,
        guide.instructions(),
        {name: row.tool() for name, row in tools.ROWS.items()},
        resources.RESOURCES,
        resources.boards,
        PROMPTS,
        resources.complete,
        DecisionTasks(),
    )


def mcp_handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The Lambda handler: one POST, one answer."""
    return http.served(event, NAME, _answer)


def _answer(request: http.Request) -> dict[str, Any]:
    if request.method != METHODS:
        raise InterlockError(
            "method_not_allowed",
            "MCP is spoken by POST here: there are no streams and no sessions",
            headers={"Allow": METHODS},
        )
    if transport.from_foreign_page(request.headers, secure=request.base.startswith("https:")):
        raise InterlockError("forbidden", "the page that sends this is of another site")
    http.require_json(request)
    try:
        message = jsonio.read(request.body())
    except InterlockError as error:
        if error.status != 400:
            raise
        return transport.unreadable(error.detail)
    bus = runtime.bus()
    known = auth.identify(bus, request.headers.get("authorization"), bus.clock())
    request.actor = known.actor
    _require_project(known)
    params = message.get("params") if isinstance(message, Mapping) else None
    request.name = _name(params) or NAME
    session = Session(bus, known, request.base, request.id, _trace(params, request.headers))
    return transport.answer(
        server(), message, request.headers, session, lambda error: telemetry.failure(NAME, request.id, error)
    )


def _require_project(caller: auth.Caller) -> None:
    if caller.project is None:
        raise InterlockError(
            "forbidden",
            "this credential is of the installation and belongs to no project",
            hint="Use the token of an agent, or of an owner of the project.",
        )


def _name(params: Any) -> str | None:
    """What the log calls a request: the tool, where it is one of ours."""
    tool = params.get("name") if isinstance(params, Mapping) else None
    return f"mcp.{tool}" if isinstance(tool, str) and tool in tools.ROWS else None


def _trace(params: Any, headers: Mapping[str, str]) -> str | None:
    """The trace that the call belongs to, as the message says it, else the header."""
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    said = meta.get("traceparent") if isinstance(meta, Mapping) else None
    return said if isinstance(said, str) else headers.get("traceparent")
