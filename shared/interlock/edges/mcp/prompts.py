"""The prompts: texts of the guide, with what they are about beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from interlock import guide
from interlock.edges.mcp import resources
from interlock.edges.mcp.offers import Context, Json, Prompt
from interlock.edges.mcp.rpc import INVALID_PARAMS, RpcError


def _messages(name: str, arguments: Mapping[str, str], context: Context) -> list[Json]:
    found = [_message({"type": "text", "text": guide.prompt(name, arguments)})]
    role = arguments.get("role") or resources.MINE
    try:
        if "job" in arguments:
            uri = resources.JOBS + arguments["job"]
            found.append(_embedded(uri, resources.job(arguments["job"], context)))
        elif name in _OF_BOARD and context.caller.caller.actor.kind == "agent":
            found.append(_embedded(resources.BOARD + role, resources.board(role, context)))
    except KeyError as missing:
        raise RpcError(INVALID_PARAMS, str(missing.args[0])) from None
    return found


def _message(content: Json) -> Json:
    return {"role": "user", "content": content}


def _embedded(uri: str, contents: Json) -> Json:
    return _message({"type": "resource", "resource": {"uri": uri, **contents}})


_OF_BOARD = frozenset({"board", "claim"})
"""Prompts that show the board of a role, or of all roles of the caller."""

PROMPTS: Mapping[str, Prompt] = {
    name: Prompt(name, row.title, row.description, row.arguments, partial(_messages, name))
    for name, row in guide.PROMPTS.items()
}
