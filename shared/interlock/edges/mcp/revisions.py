"""Which revision of MCP a request speaks, and whether its headers and its body agree.

2026-07-28 has no handshake: each request says its revision and its client's capabilities in ``_meta``, and repeats in
headers what a gateway would route by. The revisions before it begin with ``initialize``; a server without memory
answers that without a session id and takes the revision of later requests from their header.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.edges.mcp.rpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    UNSUPPORTED_REVISION,
    Request,
    RpcError,
)

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Newest first: what an ``initialize`` that wants something unknown is offered is the first."""
SUPPORTED = (MODERN, *LEGACY)

PREFIX = "io.modelcontextprotocol/"
REVISION, CAPABILITIES, SERVER = (
    PREFIX + "protocolVersion",
    PREFIX + "clientCapabilities",
    PREFIX + "serverInfo",
)
TASKS = PREFIX + "tasks"
"""The extension by which a long call becomes a task."""

NAMED: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""By method: the parameter that Mcp-Name repeats."""

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a request speaks: its revision, and what its client can do (known of modern ones only)."""

    revision: str
    capabilities: Mapping[str, Any]

    @property
    def modern(self) -> bool:
        """Whether the request stands by itself."""
        return self.revision == MODERN

    def declares(self, *path: str) -> bool:
        """Whether the client has a capability: ``declares("elicitation", "url")``."""
        here: Any = self.capabilities
        for name in path:
            if not isinstance(here, Mapping) or name not in here:
                return False
            here = here[name]
        return True


def spoken(request: Request, headers: Headers | None) -> Spoken:
    """The revision of a request. ``headers`` (names in lower case) is None where there are none: on stdio.

    Raises RpcError when nobody speaks it, or when headers and body disagree.
    """
    said = request.meta.get(REVISION)
    header = headers.get("mcp-protocol-version") if headers is not None else None
    if said is None and (request.method == "initialize" or header is None or header in LEGACY):
        return Spoken(header if header in LEGACY else LEGACY[-1], {})
    if said is None and header != MODERN:
        raise _unsupported(header)
    if not isinstance(said, str):
        raise RpcError(INVALID_PARAMS, f"_meta must say {REVISION}")
    if headers is not None and header != said:
        raise RpcError(HEADER_MISMATCH, "MCP-Protocol-Version is missing, or another than the body says")
    if said != MODERN:
        raise _unsupported(said)
    capabilities = request.meta.get(CAPABILITIES)
    if not isinstance(capabilities, Mapping):
        raise RpcError(INVALID_PARAMS, f"_meta must say {CAPABILITIES}, an object")
    if headers is not None:
        _agree(request, headers)
    return Spoken(said, capabilities)


def _unsupported(revision: Any) -> RpcError:
    return RpcError(
        UNSUPPORTED_REVISION,
        "this revision of MCP is not spoken here",
        {"supported": list(SUPPORTED), "requested": revision},
    )


def _agree(request: Request, headers: Headers) -> None:
    if headers.get("mcp-method") != request.method:
        raise RpcError(HEADER_MISMATCH, "Mcp-Method is missing, or another than the body's method")
    parameter = NAMED.get(request.method)
    if parameter is not None and (
        "mcp-name" not in headers or decoded(headers["mcp-name"]) != request.params.get(parameter)
    ):
        raise RpcError(HEADER_MISMATCH, f"Mcp-Name is missing, or another than the body's {parameter}")


def agree_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any], headers: Headers) -> None:
    """Check the headers that repeat arguments: those whose schema has ``x-mcp-header``."""
    for name, field in (schema.get("properties") or {}).items():
        label = field.get("x-mcp-header") if isinstance(field, Mapping) else None
        if label is None:
            continue
        header, value = headers.get(f"mcp-param-{label.lower()}"), arguments.get(name)
        if header is None and value is None:
            continue
        if header is None or value is None or not _same(decoded(header), value):
            raise RpcError(HEADER_MISMATCH, f"Mcp-Param-{label} and the argument {name} disagree")


def _same(text: str | None, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float) and text is not None:
        try:
            return float(text) == float(value)
        except (ValueError, OverflowError):
            return False
    return text == str(value)


def decoded(header: str) -> str | None:
    """A header's text: as it is, or from base64 where it is marked so; None when that cannot be read."""
    if not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return base64.b64decode(header[len("=?base64?") : -2], validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
