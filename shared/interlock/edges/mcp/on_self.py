"""The tool that says who the caller is and what it holds, and shows what is around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from interlock.edges.mcp import brief
from interlock.edges.mcp.offers import Context
from interlock.edges.mcp.on_jobs import EVENTS, event
from interlock.edges.mcp.schemas import TEXT, TEXTS, THING, THINGS
from interlock.edges.mcp.session import Session
from interlock.edges.mcp.tool import Found, Row
from interlock.edges.models.fields import Cursor, Model

CLAIMS = 20
"""Claims of a page."""
WORKERS = 20


class WhoAmI(Model):
    """What to show beside the caller."""

    include: Annotated[
        list[Literal["agent", "project", "roles", "workers", "stats", "events"]],
        Field(
            description="What to show beside you: your record, the project, its roles, who works, counts, latest events."
        ),
    ] = []
    cursor: Annotated[Cursor | None, Field(description="Where your claims go on.")] = None


def _me(session: Session, own: WhoAmI, _rest: dict[str, Any], _context: Context) -> Found:
    query = {"limit": CLAIMS, **({"cursor": own.cursor} if own.cursor else {})}
    value = session.page("system.me", brief.plain, query, of="claims")
    parts = {name: part for name, part in value.items() if name != "next_cursor" or part}
    for name in dict.fromkeys(own.include):
        parts[name] = _BESIDE[name](session)
    steps = ["There are more claims: call again with cursor."] if "next_cursor" in parts else []
    if session.caller.actor.kind != "agent":
        return Found(parts, [*steps, "You are an owner: claims need an agent's token."])
    if not value["claims"]:
        return Found(parts, ["You hold nothing: claim_next takes the best job for your roles."])
    return Found(parts, [*steps, "Go on with what you hold, under its fence; heartbeat keeps it."])


def _agent(session: Session) -> Any:
    actor = session.caller.actor
    if actor.kind != "agent":
        return {}
    return brief.plain(session.call("agents.get", {"agent": actor.id}).value["agent"])


def _project(session: Session) -> Any:
    return brief.plain(session.call("projects.get").value["project"])


def _roles(session: Session) -> Any:
    return brief.plain(session.call("roles.list").value["items"])


def _workers(session: Session) -> Any:
    return session.page("system.workers", brief.plain, {"limit": WORKERS})["items"]


def _stats(session: Session) -> Any:
    return session.call("system.stats").value["stats"]


def _events(session: Session) -> Any:
    return [event(row) for row in session.call("ledger.feed", query={"last": EVENTS}).value["items"]]


_BESIDE: Mapping[str, Callable[[Session], Any]] = {
    "agent": _agent,
    "project": _project,
    "roles": _roles,
    "workers": _workers,
    "stats": _stats,
    "events": _events,
}

ROWS = (
    Row(
        "whoami",
        "Who am I",
        "Who you are, your roles, what you hold with its fence, and notices. Call it first, and after a restart. include "
        "adds roles (to publish for), project, workers, stats, events.",
        (
            "system.me", "agents.get", "projects.get", "roles.list", "system.workers", "system.stats", "ledger.feed",
        ),
        WhoAmI,
        _me,
        answer={
            "actor": THING, "roles": {"type": "array"}, "capabilities": TEXTS, "project": {"type": ["string", "object"]}, "claims": THINGS,
            "next_cursor": TEXT, "agent": THING, "workers": THINGS, "stats": THING, "events": THINGS,
        },
        reads=True,
    ),
)  # fmt: skip
