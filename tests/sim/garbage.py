"""What nobody should send to an MCP server, as Hypothesis makes it: arguments after the tools' schemas and beside them,
messages that are nearly JSON-RPC, bodies that are nearly JSON; and the judge of what is answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from tests.sim.speaker import message
from tests.sim.world import Reply

from interlock.domain import limits
from interlock.edges.mcp import brief, revisions, rpc
from interlock.edges.mcp.serve import server

TOOLS = {name: tool.input_schema for name, tool in server().tools.items()}
METHODS = (
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list",
    "resources/read", "prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/update", "tasks/cancel",
    "notifications/initialized", "logging/setLevel", "", "__init__", "tools/call\x00",
)  # fmt: skip
WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**40, -(10**999), 1e308, "", " ", "\x00", "\ud800", "😀" * 200, "x" * 70_000, "../..", "a#b", "job_0",
    [], {}, [None], [[]], {"a": {"a": 1}}, {"\x00": "\udfff"}, ["x"] * 600, {str(n): n for n in range(600)},
)  # fmt: skip
"""Of every type, the corners of each."""
RIGHT: Mapping[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    },
    "tools/list": {"cursor": None},
    "tools/call": {"name": "whoami", "arguments": {}, "inputResponses": {}, "requestState": "s"},
    "resources/list": {"cursor": None},
    "resources/read": {"uri": "interlock://guide"},
    "prompts/get": {"name": "board", "arguments": {"role": "qa"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "board"},
        "argument": {"name": "role", "value": "q"},
    },
    "tasks/get": {"taskId": "dec_0"},
    "tasks/update": {"taskId": "dec_0", "inputResponses": {}},
    "tasks/cancel": {"taskId": "dec_0"},
}
"""Methods with parameters that are right, as far as they need none of a board."""
PARAMS = {
    "name", "arguments", "uri", "taskId", "cursor", "ref", "argument", "protocolVersion", "capabilities", "requestState",
    "inputResponses", "_meta", "",
}  # fmt: skip


def deep(levels: int) -> str:
    """JSON text of that many arrays in each other."""
    return "[" * levels + "]" * levels


BODIES: Mapping[str, bytes] = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of it": b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    "two values": b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    "a mark of order": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "NaN": b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    "infinite": b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    "many digits": b'{"jsonrpc":"2.0","id":' + b"9" * 1_001 + b',"method":"ping"}',
    "a key twice": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "a key twice, deep": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}',
    "depth 65": f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{deep(64)}}}}}'.encode(),
    "depth 100,000": deep(100_000).encode(),
    "too large": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"'
    + b"x" * limits.BODY_BYTES
    + b'"}}',
    "a batch": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "NUL": b'{"jsonrpc":"2.0","id":"\\u0000","method":"\\u0000"}',
    "half a character": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "control characters": b'{"jsonrpc":"2.0","id":1,"method":"pi\x00ng"}',
    "no version": b'{"id":1,"method":"ping"}',
    "no id": b'{"jsonrpc":"2.0","method":"tools/call"}',
    "an id of nothing": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "an answer": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "params that are a list": b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}',
}
"""Bodies that are no message, or a strange one, by what is wrong with them."""

_texts = st.one_of(
    st.text(max_size=30),
    st.text(alphabet='\x00\ud800\udfff\u2028é😀"\\/{}[]#.', max_size=12),
    st.sampled_from(
        ["me", "mine", "developer", "interlock://guide", "interlock://jobs/", "\x00" * 9, "a" * 3_000]
    ),
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    _texts,
    st.sampled_from(WRONG),
)
anything = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=8,
)
"""Any JSON value, often an odd one."""


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> Any:
    """The usual, and once in a while the odd. (``one_of`` takes every choice equally often, however often it is named.)"""
    return draw(odd if draw(st.integers(0, 19)) == 19 else usual)


@dataclass(frozen=True, slots=True)
class Aims:
    """Names that exist, which make what is sent reach further; and what belongs to a claim."""

    by_argument: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def like(self, schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
        """Values that a schema allows, mostly; else anything."""
        known, right = self.by_argument.get(name), self._right(schema)
        return mostly(st.sampled_from(known) if known else right, right | anything)

    def _right(self, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "anyOf" in schema:
            return st.one_of(*(self._right(choice) for choice in schema["anyOf"]))
        kind = schema.get("type")
        if kind == "object" and "properties" in schema:
            return self.arguments(schema)
        if kind == "array":
            return st.lists(self.like(schema.get("items", {})), max_size=3)
        if kind == "integer":
            return st.integers(schema.get("minimum", -3), min(schema.get("maximum", 99), 10**6))
        if kind == "string":
            return mostly(st.text("abc", min_size=min(schema.get("minLength", 0), 9), max_size=9), _texts)
        simple = {
            "boolean": st.booleans(),
            "number": st.integers(0, 99) | st.floats(0, 99),
            "object": st.dictionaries(_texts, anything, max_size=3),
        }
        return simple.get(str(kind), anything)

    def arguments(self, schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        """Arguments of a tool: what it needs, some of the rest; now and then something is missing or foreign."""
        parts = {name: self.like(part, name) for name, part in schema["properties"].items()}
        needed = {name: parts[name] for name in schema.get("required", ())}
        some = st.dictionaries(st.sampled_from(sorted(parts)), st.none(), max_size=3).flatmap(
            lambda chosen: st.fixed_dictionaries({**needed, **{name: parts[name] for name in chosen}})
        )
        foreign = st.dictionaries(_texts, anything, min_size=1, max_size=1)
        fewer = some.map(lambda whole: dict(list(whole.items())[1:]))
        return mostly(some, fewer | st.tuples(some, foreign).map(lambda both: both[0] | both[1]))


Sent = tuple[bytes, dict[str, str]]


def calls(aims: Aims) -> st.SearchStrategy[Sent]:
    """Calls of tools: (body, headers)."""

    def sent(tool: str, arguments: Any, modern: bool) -> Sent:
        body, headers = message("tools/call", {"name": tool, "arguments": arguments}, modern=modern)
        return json.dumps(body).encode(), headers

    return st.one_of(
        *(
            st.builds(sent, st.just(tool), aims.arguments(schema), st.booleans())
            for tool, schema in TOOLS.items()
        ),
        st.builds(sent, st.sampled_from(sorted(TOOLS)), anything, st.booleans()),
    )


@st.composite
def messages(draw: st.DrawFn) -> Sent:
    """Nearly a message: methods of the protocol with anything beside."""
    method = draw(st.sampled_from(METHODS) | _texts)
    params = draw(st.dictionaries(st.sampled_from(sorted(PARAMS)) | _texts, anything, max_size=4))
    body, headers = message(method, params, modern=draw(st.booleans()))
    if draw(st.booleans()):
        body |= draw(
            st.dictionaries(
                st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", ""]),
                anything,
                max_size=2,
            )
        )
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=1)):
        del body[name]
    odd = st.sampled_from(
        [
            "",
            "2025-11-25",
            revisions.MODERN,
            "1",
            "=?base64?4pyT?=",
            "=?base64?!?=",
            "tools/call",
            "application/xml",
        ]
    )
    names = st.sampled_from(
        [
            "content-type",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "mcp-session-id",
            "origin",
            "accept",
            "traceparent",
        ]
    )
    headers |= draw(st.dictionaries(names, odd, max_size=2))
    headers = {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}
    return json.dumps(body).encode(), headers


REFUSED = {400, 401, 403, 404, 405, 413, 415}
"""Statuses of what is not carried out; a tool's refusal is 200."""


def judge(reply: Reply) -> None:
    """One well-formed answer, or the silence that a notification gets; no defect, and nothing of the inside."""
    assert reply.status in {200, 202} | REFUSED, (reply.status, reply.body)
    if reply.status == 202:
        assert reply.body is None
        return
    assert isinstance(reply.body, dict)
    assert "Traceback" not in json.dumps(reply.body)
    if reply.headers["content-type"] == "application/problem+json":
        assert reply.status in REFUSED
        assert reply.body["code"] != "internal"
        return
    assert reply.headers["content-type"] == "application/json"
    assert reply.body["jsonrpc"] == "2.0"
    assert type(reply.body["id"]) in (int, float, str, type(None))
    assert reply.body.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in reply.body:
        assert isinstance(reply.body["error"]["message"], str)
        assert reply.body["error"]["code"] != rpc.INTERNAL_ERROR, reply.body
    elif "structuredContent" in reply.body["result"]:
        _judge_tool(reply.body["result"])


def _judge_tool(result: Mapping[str, Any]) -> None:
    shown = result["structuredContent"]
    (block,) = result["content"]
    assert brief.weight(shown) <= brief.ROOM
    assert isinstance(shown["next"], list)
    if result.get("isError"):
        assert shown["error"]["code"] not in ("internal", "store_unavailable"), shown
    assert not any("\ud800" <= character <= "\udfff" for character in block["text"])
