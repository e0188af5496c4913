"""JSON-RPC 2.0: one message, and the errors that can answer it.

Error codes above -32000 are JSON-RPC's own, those from -32000 down are MCP's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Until 2025-11-25; since 2026-07-28 an unknown resource is an invalid parameter."""
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_REVISION = -32022

_STATUS_OF_MODERN: Mapping[int, int] = {
    METHOD_NOT_FOUND: 404,
    INTERNAL_ERROR: 500,
}
_STATUS_OF_EVERY: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INTERNAL_ERROR: 500,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
}

Id = str | int | float


class RpcError(Exception):
    """The request cannot be carried out as a request; what a tool refuses is a result instead."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def status(self, *, modern: bool) -> int:
        """The HTTP status. Since 2026-07-28 it says what the error says; before, errors came with 200."""
        if modern:
            return _STATUS_OF_MODERN.get(self.code, 400)
        return _STATUS_OF_EVERY.get(self.code, 200)


@dataclass(frozen=True, slots=True)
class Request:
    """A call that wants an answer."""

    id: Id
    method: str
    params: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the request says about itself."""
        found = self.params.get("_meta")
        return found if isinstance(found, Mapping) else {}


def read(value: Any) -> Request | None:
    """The request in a parsed message; None for a notification or an answer, to which nothing is said.

    Raises RpcError for everything else, batches among it: MCP took them back in 2025-06-18.
    """
    if isinstance(value, list):
        raise RpcError(INVALID_REQUEST, "one message at a time: batches are not taken")
    if not isinstance(value, Mapping) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'not a JSON-RPC message: an object with "jsonrpc": "2.0" is expected')
    if "method" not in value and ("result" in value or "error" in value):
        return None
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "the method is missing or no string")
    if "id" not in value:
        return None
    if id_of(value) is None:
        raise RpcError(INVALID_REQUEST, "an id is a string or a number")
    if not isinstance(params, Mapping):
        raise RpcError(INVALID_PARAMS, "params must be an object")
    return Request(value["id"], method, params)


def id_of(value: Any) -> Id | None:
    """The id of a message, for its error; None where it has none that can be repeated."""
    found = value.get("id") if isinstance(value, Mapping) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def result(to: Request, value: Mapping[str, Any]) -> dict[str, Any]:
    """The message that answers a request."""
    return {"jsonrpc": "2.0", "id": to.id, "result": value}


def failure(to: Id | None, error: RpcError) -> dict[str, Any]:
    """The message that refuses a request."""
    described: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        described["data"] = error.data
    return {"jsonrpc": "2.0", "id": to, "error": described}
