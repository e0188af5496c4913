"""Agents and owners by id or by label."""

from __future__ import annotations

from typing import Any

from interlock.cli.command import Session
from interlock.cli.exits import REFUSED, CommandError, usage


def agent_id(session: Session, name: str) -> str:
    """The id of the agent with this id or label. Refused when there is none, or more than one."""
    return _resolve(session, "agent", "agents.list", name)


def owner_id(session: Session, name: str, *, installation: bool = False) -> str:
    """The id of the owner with this id or label."""
    return _resolve(session, "owner", "installation.owner_list" if installation else "owners.list", name)


def _resolve(session: Session, kind: str, operation: str, name: str) -> str:
    prefix = {"agent": "agt_", "owner": "own_"}[kind]
    if name.startswith(prefix):
        return name
    found = [item for item in session.client.items(operation) if item["label"] == name]
    live = [item for item in found if not _retired(item)] or found
    if not live:
        raise CommandError(
            REFUSED, f"there is no {kind} labelled {name!r}", f"`interlock {kind} list` names them."
        )
    if len(live) > 1:
        raise usage(
            f"{len(live)} {kind}s are labelled {name!r}: name one by id",
            ", ".join(item["id"] for item in live),
        )
    return str(live[0]["id"])


def _retired(item: dict[str, Any]) -> bool:
    return bool(item.get("retired_at") or item.get("removed_at"))
