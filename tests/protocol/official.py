"""The official MCP client, connected to a bus in one of four ways; imported by tests that need it only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    CallToolResult,
    ElicitResult,
    EmptyResult,
    PromptReference,
    Request,
    RequestParams,
    ResourceTemplateReference,
    Result,
    TextContent,
)

__all__ = [
    "ElicitResult",
    "MCPDeprecationWarning",
    "MCPError",
    "PromptReference",
    "ResourceTemplateReference",
    "Tasks",
    "TextContent",
    "agreed",
    "causes",
    "connected",
    "found",
    "refused",
    "run",
]

LIMIT = 60.0
"""Seconds after which something that should have happened has not."""


def run(of: Any, *args: Any) -> None:
    """Run an async function to its end."""

    async def bounded() -> None:
        with anyio.fail_after(4 * LIMIT):
            await of(*args)

    anyio.run(bounded)


def causes(error: BaseException) -> list[BaseException]:
    """What a group of errors consists of, or the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [cause for part in error.exceptions for cause in causes(part)]


@contextlib.asynccontextmanager
async def connected(
    way: str, mode: str, url: str, token: str, folder: Path, **more: Any
) -> AsyncIterator[Client]:
    """A client that speaks ``http`` to the bus itself, or ``stdio`` to `interlock mcp`, which has to stay silent."""
    more = {"mode": mode, "read_timeout_seconds": LIMIT, **more}
    if way == "http":
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), **more) as client,
        ):
            yield client
        return
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "interlock.cli.main", "mcp"],
        env={"INTERLOCK_URL": url, "INTERLOCK_TOKEN": token},
        cwd=folder,
    )
    log = folder / "mcp.log"
    with log.open("w") as errors:
        async with Client(stdio_client(program, errlog=errors), **more) as client:
            yield client
    assert log.read_text() == ""


def _content(result: CallToolResult) -> dict[str, Any]:
    (block,) = result.content
    assert isinstance(block, TextContent)
    found: dict[str, Any] = result.structured_content or {}
    return found


async def found(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """What a tool answers; the client has checked it against the tool's schema."""
    result = await client.call_tool(tool, arguments)
    content = _content(result)
    assert not result.is_error, content
    return content


async def refused(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The error that a tool answers."""
    result = await client.call_tool(tool, arguments)
    content = _content(result)
    assert result.is_error, content
    error: dict[str, Any] = content["error"]
    return error


def agreed(mode: str) -> str:
    """The revision that client and bus agree on."""
    return "2025-11-25" if mode == "legacy" else "2026-07-28"


class _Task(Result):
    result_type: Literal["task"]
    task_id: str
    status: str


class _OnTask(RequestParams):
    task_id: str


class _GetTask(Request[_OnTask, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _OnTask
    name_param = "taskId"


class _CancelTask(Request[_OnTask, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _OnTask
    name_param = "taskId"


class _Standing(Result):
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The tasks extension, which the official client leaves to its users: a call that becomes a task is looked after
    until it is over. ``seen`` is how it stood each time; ``meanwhile`` is called between two looks, ``cancel`` instead of
    the second."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, meanwhile: Any, *, cancel: bool = False) -> None:
        self._meanwhile = meanwhile
        self._cancel = cancel
        self.seen: list[str] = []
        self.ids: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        """The one result that is claimed."""
        return [ResultClaim(result_type="task", model=_Task, resolve=self._resolve)]

    async def _resolve(self, task: _Task, context: ClaimContext) -> CallToolResult:
        self.seen.append(task.status)
        self.ids.append(task.task_id)
        on = _OnTask(task_id=task.task_id)
        standing = await context.session.send_request(_GetTask(params=on), _Standing)
        self.seen.append(standing.status)
        if self._cancel:
            await context.session.send_request(_CancelTask(params=on), EmptyResult)
        else:
            await self._meanwhile(task.task_id)
        standing = await context.session.send_request(_GetTask(params=on), _Standing)
        self.seen.append(standing.status)
        if standing.result is None:
            return CallToolResult(content=[TextContent(text=standing.status)], is_error=True)
        return CallToolResult.model_validate(standing.result)
