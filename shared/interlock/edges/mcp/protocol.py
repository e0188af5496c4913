"""An MCP server without memory: a request in, a result out, whatever carried it.

It knows the protocol and nothing of Interlock: tools, resources, prompts and tasks are given to it. The official
conformance suite is its judge (tests/conformance).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.edges.mcp import revisions
from interlock.edges.mcp.offers import (
    Completer,
    Content,
    Context,
    Json,
    NeedsInput,
    Prompt,
    Resource,
    Tasks,
    Tool,
)
from interlock.edges.mcp.revisions import LEGACY, SERVER, SUPPORTED, TASKS, Spoken
from interlock.edges.mcp.rpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    Request,
    RpcError,
)

LISTS_LIVE_MS = 60_000
"""How long a client may keep a list before it asks again."""
CONTENTS_LIVE_MS = 5_000
COMPLETIONS = 100
"""Values of a completion at most; MCP's own limit."""


@dataclass(frozen=True)
class Server:
    """What is served. Everything in it is made once and serves requests of every revision."""

    name: str
    version: str
    instructions: str
    tools: Mapping[str, Tool]
    resources: Sequence[Resource] = ()
    listed: Callable[[Context], list[Json]] | None = None
    """Resources that are listed beside the exact ones: those of this caller."""
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    completer: Completer | None = None
    tasks: Tasks | None = None

    def answer(
        self, request: Request, headers: Mapping[str, str] | None, caller: Any
    ) -> tuple[Json, list[Json]]:
        """The result of a request, and the notifications that go before it. Raises RpcError."""
        speaks = revisions.spoken(request, headers)
        method = _METHODS.get(request.method)
        if method is None or not method.spoken_in(speaks) or not method.offered(self):
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {request.method[:60]}")
        token = request.meta.get("progressToken")
        context = Context(
            caller,
            speaks,
            headers,
            progress_token=token if isinstance(token, str | int) else None,
        )
        result = method.run(self, request.params, context)
        if speaks.modern:
            result.setdefault("resultType", "complete")
            result["_meta"] = {**result.get("_meta", {}), SERVER: self.info}
        return result, context.notifications

    @property
    def info(self) -> Json:
        """Who answers."""
        return {"name": self.name, "version": self.version}

    def capabilities(self, *, modern: bool) -> Json:
        """What this server can do."""
        found: Json = {"tools": {}}
        if self.resources:
            found["resources"] = {}
        if self.prompts:
            found["prompts"] = {}
        if self.completer is not None:
            found["completions"] = {}
        if modern and self.tasks is not None:
            found["extensions"] = {TASKS: {}}
        return found


def _initialize(server: Server, params: Mapping[str, Any], _context: Context) -> Json:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in LEGACY else LEGACY[0],
        "capabilities": server.capabilities(modern=False),
        "serverInfo": server.info,
        "instructions": server.instructions,
    }


def _discover(server: Server, _params: Mapping[str, Any], context: Context) -> Json:
    return {
        "supportedVersions": list(SUPPORTED),
        "capabilities": server.capabilities(modern=True),
        "serverInfo": server.info,
        "instructions": server.instructions,
        **_kept(context, LISTS_LIVE_MS),
    }


def _ping(_server: Server, _params: Mapping[str, Any], _context: Context) -> Json:
    return {}


def _kept(context: Context, milliseconds: int) -> Json:
    """How long an answer may be kept, and by whom; said since 2026-07-28."""
    return {"ttlMs": milliseconds, "cacheScope": "private"} if context.spoken.modern else {}


def _one_page(params: Mapping[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "there is no such page: lists come whole")


def _list_tools(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    _one_page(params)
    return {"tools": [tool.listed() for tool in server.tools.values()], **_kept(context, LISTS_LIVE_MS)}


def _call_tool(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    tool = server.tools.get(_text(params, "name"))
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"there is no tool {params['name'][:60]}")
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise RpcError(INVALID_PARAMS, "arguments must be an object")
    if context.headers is not None and context.spoken.modern:
        revisions.agree_arguments(tool.input_schema, arguments, context.headers)
    _take_input(params, context)
    outcome = tool.run(arguments, context)
    if isinstance(outcome, Content):
        return outcome.as_result()
    return _asking(outcome, context) if isinstance(outcome, NeedsInput) else dict(outcome.task)


def _take_input(params: Mapping[str, Any], context: Context) -> None:
    responses, state = params.get("inputResponses"), params.get("requestState")
    if responses is not None:
        if not isinstance(responses, Mapping):
            raise RpcError(INVALID_PARAMS, "inputResponses must be an object")
        context.responses = responses
    if state is not None:
        if not isinstance(state, str):
            raise RpcError(INVALID_PARAMS, "requestState must be a string")
        context.state = state


_NEEDS: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""By request to the client: the capability that it needs."""


def _asking(needs: NeedsInput, context: Context) -> Json:
    wanted = {_NEEDS[request["method"]] for request in needs.requests.values()}
    missing = sorted(name for name in wanted if not context.spoken.declares(name))
    if missing:
        raise RpcError(
            MISSING_CAPABILITY,
            "the client lacks a capability that this call needs",
            {"requiredCapabilities": {name: {} for name in missing}},
        )
    found: Json = {"resultType": "input_required"}
    if needs.requests:
        found["inputRequests"] = dict(needs.requests)
    return found if needs.state is None else {**found, "requestState": needs.state}


def _list_resources(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    _one_page(params)
    exact = [{"uri": each.uri, **each.shown} for each in server.resources if "{" not in each.uri]
    more = server.listed(context) if server.listed else []
    return {"resources": exact + more, **_kept(context, LISTS_LIVE_MS)}


def _list_templates(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    _one_page(params)
    found = [{"uriTemplate": each.uri, **each.shown} for each in server.resources if "{" in each.uri]
    return {"resourceTemplates": found, **_kept(context, LISTS_LIVE_MS)}


def _read_resource(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    uri = _text(params, "uri")
    for resource in server.resources:
        variable = resource.variable(uri)
        if variable is not None:
            try:
                contents = resource.read(variable, context)
            except KeyError:
                break
            return {"contents": [{"uri": uri, **contents}], **_kept(context, CONTENTS_LIVE_MS)}
    code = INVALID_PARAMS if context.spoken.modern else RESOURCE_NOT_FOUND
    raise RpcError(code, "there is no such resource", {"uri": uri[:200]})


def _list_prompts(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    _one_page(params)
    found = [prompt.listed() for prompt in server.prompts.values()]
    return {"prompts": found, **_kept(context, LISTS_LIVE_MS)}


def _get_prompt(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    prompt = server.prompts.get(_text(params, "name"))
    if prompt is None:
        raise RpcError(INVALID_PARAMS, f"there is no prompt {params['name'][:60]}")
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping) or not all(isinstance(value, str) for value in arguments.values()):
        raise RpcError(INVALID_PARAMS, "arguments must be an object of strings")
    known = {each["name"] for each in prompt.arguments}
    required = {each["name"] for each in prompt.arguments if each.get("required")}
    if missing := sorted(required - arguments.keys()):
        raise RpcError(INVALID_PARAMS, f"prompt {prompt.name} needs {', '.join(missing)}")
    if extra := sorted(arguments.keys() - known):
        raise RpcError(INVALID_PARAMS, f"prompt {prompt.name} does not know {', '.join(extra)[:200]}")
    _take_input(params, context)
    made = prompt.get(arguments, context)
    if isinstance(made, NeedsInput):
        return _asking(made, context)
    return {"description": prompt.description, "messages": made}


def _complete(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    assert server.completer is not None
    reference, argument = params.get("ref"), params.get("argument")
    if not isinstance(reference, Mapping) or not isinstance(argument, Mapping):
        raise RpcError(INVALID_PARAMS, "ref and argument must be objects")
    found = server.completer(reference, _text(argument, "name"), _text(argument, "value"), context)
    values = found[:COMPLETIONS]
    return {"completion": {"values": values, "total": len(found), "hasMore": len(found) > len(values)}}


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be a string")
    return value


def _tasks(server: Server, context: Context) -> Tasks:
    if not context.spoken.declares("extensions", TASKS):
        raise RpcError(
            MISSING_CAPABILITY,
            "the client does not declare the tasks extension",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )
    assert server.tasks is not None
    return server.tasks


def _get_task(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    return _tasks(server, context).get(_text(params, "taskId"), context)


def _update_task(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    tasks = _tasks(server, context)
    _take_input(params, context)
    tasks.update(_text(params, "taskId"), context.responses, context)
    return {}


def _cancel_task(server: Server, params: Mapping[str, Any], context: Context) -> Json:
    _tasks(server, context).cancel(_text(params, "taskId"), context)
    return {}


@dataclass(frozen=True, slots=True)
class _Method:
    """A method: what runs it, in which revisions, and what a server must have to offer it."""

    run: Callable[[Server, Mapping[str, Any], Context], Json]
    modern: bool = True
    legacy: bool = True
    needs: str = ""

    def spoken_in(self, speaks: Spoken) -> bool:
        return self.modern if speaks.modern else self.legacy

    def offered(self, server: Server) -> bool:
        return not self.needs or bool(getattr(server, self.needs))


_METHODS: Mapping[str, _Method] = {
    "initialize": _Method(_initialize, modern=False),
    "ping": _Method(_ping, modern=False),
    "server/discover": _Method(_discover, legacy=False),
    "tools/list": _Method(_list_tools),
    "tools/call": _Method(_call_tool),
    "resources/list": _Method(_list_resources, needs="resources"),
    "resources/templates/list": _Method(_list_templates, needs="resources"),
    "resources/read": _Method(_read_resource, needs="resources"),
    "prompts/list": _Method(_list_prompts, needs="prompts"),
    "prompts/get": _Method(_get_prompt, needs="prompts"),
    "completion/complete": _Method(_complete, needs="completer"),
    "tasks/get": _Method(_get_task, legacy=False, needs="tasks"),
    "tasks/update": _Method(_update_task, legacy=False, needs="tasks"),
    "tasks/cancel": _Method(_cancel_task, legacy=False, needs="tasks"),
}
