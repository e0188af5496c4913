"""What clients read besides tools: the guide, a job whole, the board of a role; and what may complete their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock import guide
from interlock.edges import jsonio
from interlock.edges.mcp import brief
from interlock.edges.mcp.offers import Context, Json, Resource
from interlock.edges.mcp.rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from interlock.edges.mcp.session import Session
from interlock.errors import InterlockError

GUIDE = "interlock://guide"
JOBS = "interlock://jobs/"
BOARD = "interlock://board/"
BOARD_JOBS = 50
"""Jobs that a board shows at most; `list_jobs` pages through more."""
MINE = "mine"
"""The board of all roles of the caller."""

_JSON = "application/json"
T = TypeVar("T")


def plainly(ask: Callable[[], T]) -> T:
    """What the bus answers; its refusal as the protocol says it. Raises KeyError for what is not there, RpcError."""
    try:
        return ask()
    except InterlockError as error:
        if error.code in ("not_found", "unknown_role"):
            raise KeyError(error.detail) from None
        code = INTERNAL_ERROR if error.retryable else INVALID_PARAMS
        raise RpcError(code, error.detail, {"code": error.code, "hint": error.hint}) from None


def job(name: str, context: Context) -> Json:
    """A job, whole."""
    session: Session = context.caller
    found = plainly(lambda: session.call("jobs.get", {"job": name}).value["job"])
    return {"mimeType": _JSON, "text": jsonio.write(found)}


def board(role: str, context: Context) -> Json:
    """What is published for a role, best first."""
    session: Session = context.caller
    query = {"status": ["published"], "role": [role], "limit": BOARD_JOBS}
    page = plainly(lambda: session.call("jobs.list", query=query).value)
    shown = {
        "role": role,
        "jobs": [brief.row(row) for row in page["items"]],
        "more": page["next_cursor"] is not None,
    }
    return {"mimeType": _JSON, "text": brief.text(shown)}


def _guide(_nothing: str, _context: Context) -> Json:
    return {"mimeType": "text/markdown", "text": guide.guide()}


def boards(context: Context) -> list[Json]:
    """The boards of the caller's roles, as they are listed."""
    session: Session = context.caller
    return [
        {
            "uri": f"{BOARD}{role}",
            "name": f"board-{role}",
            "title": f"Board of {role}",
            "description": f"What is published for role {role}, best first.",
            "mimeType": _JSON,
        }
        for role in session.caller.actor.roles
    ]


RESOURCES = (
    Resource(
        GUIDE,
        {
            "name": "guide",
            "title": "Guide",
            "description": "How to work on this bus.",
            "mimeType": "text/markdown",
        },
        _guide,
    ),
    Resource(
        JOBS + "{id}",
        {"name": "job", "title": "Job", "description": "A job, whole.", "mimeType": _JSON},
        job,
    ),
    Resource(
        BOARD + "{role}",
        {
            "name": "board",
            "title": "Board",
            "description": "What is published for a role, best first; mine: for your roles.",
            "mimeType": _JSON,
        },
        board,
    ),
)


def complete(reference: Mapping[str, Any], name: str, begun: str, context: Context) -> list[str]:
    """Roles of the project, and ids of jobs that the caller holds or may claim, by how they begin; an argument of one
    name means the same wherever it stands."""
    del reference
    session: Session = context.caller
    if name == "role":
        return sorted(role for role in session.project.roles if role.startswith(begun))
    if name in ("job", "id"):
        held = plainly(lambda: session.call("system.me").value["claims"])
        query = {"status": ["published"], "limit": BOARD_JOBS}
        free = plainly(lambda: session.call("jobs.list", query=query).value["items"])
        found = [claim["job"] for claim in held] + [row["id"] for row in free]
        return [each for each in found if each.startswith(begun)]
    return []
