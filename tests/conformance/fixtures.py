"""A server with the tools, resources and prompts that the official conformance suite calls by name.

Their names and texts are the suite's. They run on the protocol core that serves Interlock's own tools; what only they
need, sealed state among it, stays here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance import tasks

from interlock.edges.mcp.offers import (
    Content,
    Context,
    Json,
    NeedsInput,
    Outcome,
    Prompt,
    Resource,
    Started,
    Tool,
)
from interlock.edges.mcp.protocol import Server
from interlock.edges.mcp.rpc import INVALID_PARAMS, MISSING_CAPABILITY, RpcError

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
_KEY = b"of these fixtures alone"

Arguments = Mapping[str, Any]
Run = Callable[[Arguments, Context], Outcome]


def words(text: str) -> Json:
    """A block of text."""
    return {"type": "text", "text": text}


def image() -> Json:
    """A block with an image."""
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def embedded(uri: str, kind: str, text: str) -> Json:
    """A block with a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}


def said(text: str) -> Content:
    """The outcome of a tool that says something."""
    return Content([words(text)])


# State that goes to the client and comes back: bound to the tool, and sealed.


def seal(tool: str, state: Json) -> str:
    """Text that only :func:`unsealed` takes, for this tool only."""
    raw = json.dumps([tool, state]).encode()
    return base64.urlsafe_b64encode(hmac.digest(_KEY, raw, hashlib.sha256) + raw).decode()


def unsealed(tool: str, text: str) -> Json:
    """The state; an error when anybody has touched it."""
    try:
        blob = base64.urlsafe_b64decode(text)
        whole = base64.urlsafe_b64encode(blob).decode() == text
        genuine = hmac.compare_digest(blob[:32], hmac.digest(_KEY, blob[32:], hashlib.sha256))
        name, state = json.loads(blob[32:]) if whole and genuine else ("", {})
    except ValueError:
        name, state = "", {}
    if name != tool:
        raise RpcError(INVALID_PARAMS, "requestState is not what this server made")
    found: Json = state
    return found


# What is asked of the client.


def form(message: str, field: str = "name", kind: str = "string") -> Json:
    """A question to the client's user."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sampling() -> Json:
    """A question to the client's model."""
    message = {"role": "user", "content": words("What is the capital of France?")}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


ROOTS: Json = {"method": "roots/list", "params": {}}


def given(context: Context, name: str) -> Mapping[str, Any] | None:
    """What the client answered to a request, where that is an answer."""
    found = context.responses.get(name)
    if not isinstance(found, Mapping):
        return None
    return found if found.get("action") or found.get("content") or found.get("roots") is not None else None


def _content(answer: Mapping[str, Any] | None, field: str) -> Any:
    content = (answer or {}).get("content")
    return content.get(field) if isinstance(content, Mapping) else None


def asking(name: str, request: Json, done: Callable[[Mapping[str, Any]], str]) -> Run:
    """A tool that needs one answer."""

    def run(_: Arguments, context: Context) -> Outcome:
        answer = given(context, name)
        return said(done(answer)) if answer else NeedsInput({name: request})

    return run


def _with_state(tool: str) -> Run:
    def run(_: Arguments, context: Context) -> Outcome:
        if context.state is not None and unsealed(tool, context.state) and given(context, "confirm"):
            return said("state-ok")
        return NeedsInput({"confirm": form("Please confirm", "ok", "boolean")}, seal(tool, {"round": 1}))

    return run


def _several(_: Arguments, context: Context) -> Outcome:
    wanted = {"user_name": form("What is your name?"), "greeting": sampling(), "client_roots": ROOTS}
    if all(given(context, name) for name in wanted):
        return said("all-ok")
    return NeedsInput(wanted, seal("several", {"round": 1}))


def _rounds(_: Arguments, context: Context) -> Outcome:
    state = unsealed("rounds", context.state) if context.state is not None else {}
    second, first = given(context, "step2"), given(context, "step1")
    if "name" in state and second:
        return said(f"{state['name']} likes {_content(second, 'color')}")
    if first:
        name = _content(first, "name")
        return NeedsInput({"step2": form("Step 2: favorite color?", "color")}, seal("rounds", {"name": name}))
    return NeedsInput({"step1": form("Step 1: What is your name?")}, seal("rounds", {"round": 1}))


def _by_capability(_: Arguments, context: Context) -> Outcome:
    requests = {}
    if context.spoken.declares("elicitation"):
        requests["ask"] = form("What is your name?")
    if context.spoken.declares("sampling"):
        requests["think"] = sampling()
    return NeedsInput(requests, seal("by_capability", {"round": 1}))


def _needs_sampling(_: Arguments, context: Context) -> Outcome:
    if not context.spoken.declares("sampling"):
        raise RpcError(MISSING_CAPABILITY, "this needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return said("ok")


def _with_progress(_: Arguments, context: Context) -> Outcome:
    for done in (0, 50, 100):
        context.progress(done, 100)
    return said("ok")


def _refuses(_: Arguments, _context: Context) -> Outcome:
    return Content([words("This tool intentionally returns an error for testing")], is_error=True)


def _always(*blocks: Json) -> Run:
    return lambda _arguments, _context: Content(list(blocks))


_RESOURCE = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
_MIXED = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
_ADDRESS = {"street": {"type": "string"}, "city": {"type": "string"}}
_SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": _ADDRESS}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_HEADERS: Json = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "query": {"type": "string"},
    },
}
_MRTR = "test_input_required_result_"

RUNS: Mapping[str, Run] = {
    "test_simple_text": _always(words("This is a simple text response for testing.")),
    "test_image_content": _always(image()),
    "test_audio_content": _always({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}),
    "test_embedded_resource": _always(_RESOURCE),
    "test_multiple_content_types": _always(words("Multiple content types test:"), image(), _MIXED),
    "test_error_handling": _refuses,
    "test_tool_with_progress": _with_progress,
    "json_schema_2020_12_tool": _always(words("ok")),
    "test_x_mcp_header": _always(words("ok")),
    "test_streaming_elicitation": _always(words("ok")),
    "test_logging_tool": _always(words("ok")),
    "test_missing_capability": _needs_sampling,
    _MRTR + "elicitation": asking(
        "user_name",
        form("What is your name?"),
        lambda answer: f"Hello, {_content(answer, 'name') or 'stranger'}!",
    ),
    _MRTR + "sampling": asking("capital_question", sampling(), lambda answer: str(_content(answer, "text"))),
    _MRTR + "list_roots": asking("client_roots", ROOTS, lambda answer: str(answer.get("roots"))),
    _MRTR + "request_state": _with_state("request_state"),
    _MRTR + "tampered_state": _with_state("tampered_state"),
    _MRTR + "multiple_inputs": _several,
    _MRTR + "multi_round": _rounds,
    _MRTR + "capabilities": _by_capability,
}
SCHEMAS: Mapping[str, Json] = {
    "json_schema_2020_12_tool": _SCHEMA_2020_12,
    "test_x_mcp_header": _HEADERS,
    **tasks.SCHEMAS,
}


def tools(store: tasks.Store) -> Mapping[str, Tool]:
    """Every tool of the suite."""
    runs: dict[str, Run] = {**RUNS, **tasks.runs(store), "test_tool_with_task": _asked_then_a_task(store)}
    plain = {"type": "object", "properties": {}}
    return {
        name: Tool(name, name, "A fixture of the conformance suite.", SCHEMAS.get(name, plain), run)
        for name, run in runs.items()
    }


def _asked_then_a_task(store: tasks.Store) -> Run:
    def run(_: Arguments, context: Context) -> Outcome:
        answer = given(context, "user_name")
        if not answer:
            return NeedsInput({"user_name": form("What is your name?")}, seal("with_task", {"round": 1}))
        tasks.require(context)
        result = said(f"Hello {_content(answer, 'name')}").as_result()
        return Started({"resultType": "task", **store.start(0.2, result)})

    return run


def _exact(uri: str, kind: str, contents: Json) -> Resource:
    return Resource(uri, {"name": uri, "mimeType": kind}, lambda _v, _c: {"mimeType": kind, **contents})


def _of_template(variable: str, _context: Context) -> Json:
    value = {"id": variable, "templateTest": True, "data": f"Data for ID: {variable}"}
    return {"mimeType": "application/json", "text": json.dumps(value)}


RESOURCES = (
    _exact("test://static-text", "text/plain", {"text": "This is the content of the static text resource."}),
    _exact("test://static-binary", "image/png", {"blob": PIXEL}),
    Resource("test://template/{id}/data", {"name": "template", "mimeType": "application/json"}, _of_template),
)

Messages = Callable[[Mapping[str, str], Context], list[Json] | NeedsInput]


def _message(content: Json) -> Json:
    return {"role": "user", "content": content}


def _asked_prompt(_: Mapping[str, str], context: Context) -> list[Json] | NeedsInput:
    answer = given(context, "user_context")
    if answer:
        return [_message(words(str(answer.get("content"))))]
    return NeedsInput({"user_context": form("What is it about?", "context")})


_PROMPTS: Mapping[str, tuple[tuple[str, ...], Messages]] = {
    "test_simple_prompt": ((), lambda _a, _c: [_message(words("This is a simple prompt for testing."))]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda a, _: [_message(words(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'"))],
    ),
    "test_prompt_with_embedded_resource": (
        ("resourceUri",),
        lambda a, _: [
            _message(embedded(a["resourceUri"], "text/plain", "Embedded resource content for testing.")),
            _message(words("Please process the embedded resource above.")),
        ],
    ),
    "test_prompt_with_image": (
        (),
        lambda _a, _c: [_message(image()), _message(words("Please analyze the image above."))],
    ),
    _MRTR + "prompt": ((), _asked_prompt),
}


def server() -> Server:
    """The server that the suite judges."""
    store = tasks.Store()
    prompts = {
        name: Prompt(name, name, "A fixture.", [{"name": each, "required": True} for each in arguments], get)
        for name, (arguments, get) in _PROMPTS.items()
    }

    def complete(_reference: Arguments, _name: str, begun: str, _context: Context) -> list[str]:
        return [each for each in ("paris", "park", "party") if each.startswith(begun)]

    return Server("conformance", "1", "Fixtures.", tools(store), RESOURCES, None, prompts, complete, store)
