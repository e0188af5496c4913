"""One MCP request passed on to the bus over HTTP, and what comes back.

The bus speaks; this adds what HTTP needs (the credential, and the headers that repeat what a body says) and sends again
what is safe to send again. Whatever goes wrong on the way becomes an error that answers the request.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.cli.client import (
    ATTEMPTS,
    USER_AGENT,
    Received,
    RefusedError,
    bearer,
    exchange,
    patiently,
    refusal,
)
from interlock.cli.exits import LATER, LATER_STATUSES, REFUSED, CommandError
from interlock.cli.settings import Settings
from interlock.edges.mcp import revisions, rpc

Json = dict[str, Any]
_KEY = "idempotency_key"
_PLAIN = re.compile(r"[!-~]([ -~]*[!-~])?")
_NO_BUS = "Is this the address of a bus?"


@dataclass(frozen=True, slots=True)
class _Tool:
    """What the bus's list says of a tool: whether it takes a key, and whether it is safe to repeat by itself."""

    takes_key: bool
    repeatable: bool


class _CancelledError(Exception):
    """Nobody waits for this answer any more."""


@dataclass(slots=True)
class Relay:
    """Passes requests on. Used from many threads; raises nothing.

    ``settings`` and ``side`` say which bus and whose credential. ``wait`` waits between two attempts and answers whether
    the request was cancelled meanwhile.
    """

    settings: Settings
    side: str
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    _headers: dict[str, str] = field(init=False, repr=False)
    _revision: str | None = field(default=None, init=False)
    """What ``initialize`` agreed on."""
    _tools: dict[str, _Tool] = field(default_factory=dict, init=False)
    """By name, of the lists that the client has read."""

    def __post_init__(self) -> None:
        """Raises CommandError where there is no credential."""
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {bearer(self.settings, self.side)}",
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
        }

    def answer(self, request: rpc.Request, cancelled: threading.Event) -> list[Json]:
        """What answers a request: its result or its error, perhaps notifications before it. Once ``cancelled`` is set it
        is not sent again and nothing answers it; what the bus has begun, it ends.
        """
        messages = self._answer(request, cancelled)
        return [] if cancelled.is_set() else messages

    def _answer(self, request: rpc.Request, cancelled: threading.Event) -> list[Json]:
        try:
            return self._ask(request, cancelled)
        except _CancelledError:
            return []
        except CommandError as error:
            return [rpc.failure(request.id, _as_rpc(error))]
        except Exception as error:  # noqa: BLE001  the last line of defence: whoever asked is answered
            why = f"`interlock mcp` failed: {type(error).__name__}"
            return [rpc.failure(request.id, rpc.RpcError(rpc.INTERNAL_ERROR, why))]

    def _ask(self, request: rpc.Request, cancelled: threading.Event) -> list[Json]:
        params, repeatable = self._prepared(request)
        message = {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": params}
        body, headers = _written(message), self._described(request)

        def send() -> list[Json]:
            sent = urllib.request.Request(self.settings.url + "/mcp", body, headers, method="POST")  # noqa: S310 - settings admit http(s) only
            return _read(exchange(sent))

        def pause(seconds: float) -> None:
            if self.wait(cancelled, seconds):
                raise _CancelledError

        messages = patiently(send, safe=True, attempts=ATTEMPTS if repeatable else 1, sleep=pause)
        answer = messages[-1] = {**messages[-1], "id": request.id}
        self._learn(request, answer.get("result"))
        return messages

    def _prepared(self, request: rpc.Request) -> tuple[Mapping[str, Any], bool]:
        """The parameters to send, and whether sending them twice has one effect.

        A call of a tool that changes something gets a key of its own, unless the model chose one. A tool that no list
        named here is called once, as it came.
        """
        if request.method != "tools/call":
            return request.params, True
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return request.params, False
        if not tool.takes_key:
            return request.params, tool.repeatable
        given = {} if arguments is None else arguments
        if not isinstance(given, Mapping) or given.get(_KEY) is not None:
            return request.params, True
        return {**request.params, "arguments": {**given, _KEY: uuid.uuid4().hex}}, True

    def _described(self, request: rpc.Request) -> dict[str, str]:
        """The headers of a request: what the body says, where the revision wants it repeated."""
        said = request.meta.get(revisions.REVISION)
        if said is None:
            agreed = {} if request.method == "initialize" else {"MCP-Protocol-Version": self._revision}
            return self._headers | {name: value for name, value in agreed.items() if value}
        headers = {"MCP-Protocol-Version": str(said), "Mcp-Method": request.method}
        name = request.params.get(revisions.NAMED.get(request.method, ""))
        if isinstance(name, str):
            headers["Mcp-Name"] = name
        return self._headers | {header: _encoded(value) for header, value in headers.items()}

    def _learn(self, request: rpc.Request, result: Any) -> None:
        """Remember what was agreed on, and which tools can be repeated."""
        if not isinstance(result, Mapping):
            return
        if request.method == "initialize" and isinstance(result.get("protocolVersion"), str):
            self._revision = _encoded(result["protocolVersion"])
        if request.method == "tools/list" and isinstance(result.get("tools"), list):
            listed = [tool for tool in result["tools"] if isinstance(tool, Mapping)]
            self._tools = self._tools | {str(tool.get("name")): _tool(tool) for tool in listed}


def _tool(listed: Mapping[str, Any]) -> _Tool:
    def part(of: Any, name: str) -> Any:
        return of.get(name) if isinstance(of, Mapping) else None

    properties = part(listed.get("inputSchema"), "properties")
    hints = listed.get("annotations")
    return _Tool(
        isinstance(properties, Mapping) and _KEY in properties,
        part(hints, "readOnlyHint") is True or part(hints, "idempotentHint") is True,
    )


def _written(message: Json) -> bytes:
    """JSON that is no longer than what was read, but for lone surrogates, which only escapes can carry."""
    try:
        return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode("ascii")


def _encoded(value: str) -> str:
    """A value as a header carries it: as it is where that is plain text, else marked and in base64."""
    if _PLAIN.fullmatch(value) and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode('ascii')}?="


def _read(received: Received) -> list[Json]:
    """The messages of an answer, the last of which answers. Raises RefusedError for anything else."""
    try:
        text = received.body.decode("utf-8")
        streamed = received.headers.get_content_type() == "text/event-stream"
        messages = [json.loads(each) for each in (_events(text) if streamed else [text])]
    except (ValueError, RecursionError):
        messages = []
    if messages and all(_is_message(each) for each in messages) and messages[-1].keys() & {"result", "error"}:
        return messages
    problem = refusal(received)
    if received.status < 300:
        raise CommandError(REFUSED, "what the bus answered is no MCP message", _NO_BUS)
    if not problem.problem_code and received.status not in LATER_STATUSES:
        problem.hint = _NO_BUS
    raise problem


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("jsonrpc") == "2.0"


def _events(text: str) -> list[str]:
    """The data of each event of an event stream that has come whole."""
    events = re.split(r"\n\n+", text.replace("\r\n", "\n"))
    lines = [[line[5:] for line in event.split("\n") if line.startswith("data:")] for event in events]
    return ["\n".join(data) for data in lines if data]


def _as_rpc(error: CommandError) -> rpc.RpcError:
    """A failure on the way as the error that answers; its message is all that many clients show."""
    if isinstance(error, RefusedError):
        code = rpc.INVALID_REQUEST if error.code != LATER and error.status < 500 else rpc.INTERNAL_ERROR
        data = {**error.problem, "hint": error.hint}
    else:
        code, data = rpc.INTERNAL_ERROR, {"detail": error.detail, "hint": error.hint}
    said = error.detail.rstrip(".") + "."
    return rpc.RpcError(code, f"{said} {error.hint}".strip(), data)
