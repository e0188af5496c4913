"""What an MCP server is made of: tools, resources, prompts and tasks, and one request as they see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from interlock.edges.mcp.revisions import Spoken

Json = dict[str, Any]


@dataclass(slots=True)
class Context:
    """One request as tools and prompts see it. ``caller`` is whatever the transport knows of who asks.

    ``responses`` and ``state`` are what a client sends when it repeats a call that needed input: they come from the
    client, and prove nothing.
    """

    caller: Any
    spoken: Spoken
    headers: Mapping[str, str] | None = None
    responses: Mapping[str, Any] = field(default_factory=dict)
    state: str | None = None
    progress_token: str | int | None = None
    notifications: list[Json] = field(default_factory=list)

    def progress(self, done: float, total: float | None = None) -> None:
        """Tell how far the call is, if the client asked for it."""
        if self.progress_token is not None:
            params = {"progressToken": self.progress_token, "progress": done}
            params |= {} if total is None else {"total": total}
            self.notifications.append(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )


@dataclass(frozen=True, slots=True)
class Content:
    """What a tool found: blocks for the model, the same as data, and whether it is a refusal."""

    blocks: Sequence[Json]
    structured: Json | None = None
    is_error: bool = False

    def as_result(self) -> Json:
        """The result of the call."""
        found: Json = {"content": list(self.blocks)}
        if self.structured is not None:
            found["structuredContent"] = self.structured
        return found | ({"isError": True} if self.is_error else {})


@dataclass(frozen=True, slots=True)
class NeedsInput:
    """The call can go on when the client has answered these requests (MRTR); ``state`` comes back with them."""

    requests: Mapping[str, Json]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The call goes on as a task; ``task`` is how it stands."""

    task: Json


Outcome = Content | NeedsInput | Started


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: how it is listed, and what runs it. ``run`` raises nothing but RpcError."""

    name: str
    title: str
    description: str
    input_schema: Json
    run: Callable[[Mapping[str, Any], Context], Outcome]
    output_schema: Json | None = None
    annotations: Json | None = None

    def listed(self) -> Json:
        """The tool as ``tools/list`` shows it."""
        shown: Json = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        return shown | ({"annotations": self.annotations} if self.annotations else {})


@dataclass(frozen=True, slots=True)
class Resource:
    """Resources below one URI template (or exactly one, where the template has no variable).

    ``shown`` is how it is listed, ``read`` takes the template's variable and answers the contents without their URI;
    it raises KeyError for what is not there.
    """

    uri: str
    shown: Json
    read: Callable[[str, Context], Json]

    def variable(self, uri: str) -> str | None:
        """What the template's variable is in a URI; "" for an exact one; None when it does not fit."""
        before, brace, rest = self.uri.partition("{")
        if not brace:
            return "" if uri == self.uri else None
        after = rest.partition("}")[2]
        if not (uri.startswith(before) and uri.endswith(after) and len(uri) > len(before) + len(after)):
            return None
        return uri[len(before) : len(uri) - len(after)]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: how it is listed, and what makes its messages from arguments."""

    name: str
    title: str
    description: str
    arguments: Sequence[Json]
    get: Callable[[Mapping[str, str], Context], list[Json] | NeedsInput]

    def listed(self) -> Json:
        """The prompt as ``prompts/list`` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "arguments": list(self.arguments),
        }


class Tasks(Protocol):
    """Calls that go on as tasks: how they stand, what they are told, how they end early."""

    def get(self, task: str, context: Context) -> Json: ...
    def update(self, task: str, responses: Mapping[str, Any], context: Context) -> None: ...
    def cancel(self, task: str, context: Context) -> None: ...


class Completer(Protocol):
    """Values that an argument of a prompt, or the variable of a resource, may begin to be."""

    def __call__(
        self, reference: Mapping[str, Any], name: str, begun: str, context: Context
    ) -> list[str]: ...
