"""An event as a line of the event ring: what log collectors of agent teams read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.domain.lifecycle import FAILED

_WARNINGS = frozenset(
    {
        "agent.stale",
        "agent.stopped",
        "job.blocked",
        "job.budget_exceeded",
        "job.cancelled",
        "job.decision_expired",
        "job.decision_requested",
        "job.lease_expired",
        "job.overdue",
        "job.rejected",
        "job.stopped",
        "project.paused",
    }
)
"""Types that somebody may have to look at. What makes a job fail is an error; all else is information."""
_SAYING = (
    "reason",
    "failure_reason",
    "blocked_reason",
    "cancel_reason",
    "unblock_reason",
    "prompt",
    "text",
    "summary",
    "note",
)
"""Fields of an event's data that say in words what it is about; the first one counts."""
_LONGEST = 200


def line(event: Mapping[str, Any], project: str) -> dict[str, Any]:
    """``{ts, tenant, worker, level, msg, ticket, segment?}``: tenant is the project, worker the label of who did it,
    ticket the job's id (null where it is about no job)."""
    kind, _, identifier = str(event["entity"]).partition("/")
    data = event.get("data") if isinstance(event.get("data"), Mapping) else {}
    actor = event["actor"]
    made = {
        "ts": event["at"],
        "tenant": project,
        "worker": actor.get("label") or actor.get("id"),
        "level": level(event),
        "msg": _message(event, data or {}),
        "ticket": identifier if kind == "job" else None,
    }
    return {**made, "segment": data["segment"]} if data and "segment" in data else made


def level(event: Mapping[str, Any]) -> str:
    """``error`` for what makes a job fail, ``warn`` for what somebody may have to look at, else ``info``."""
    failed = event.get("to") == FAILED != event.get("from")
    return "error" if failed else "warn" if event["type"] in _WARNINGS else "info"


def _message(event: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """A short sentence: what happened, to what, from where to where, and why."""
    words = str(event["type"]).replace(".", " ").replace("_", " ")
    on = "" if str(event["entity"]).startswith("job/") else f" ({event['entity']})"
    before, after = event.get("from"), event.get("to")
    moved = (
        f", {before} to {after}"
        if before and before != after
        else f", {after}"
        if not before and after
        else ""
    )
    said = next((data[name] for name in _SAYING if isinstance(data.get(name), str) and data[name]), "")
    return f"{words}{on}{moved}" + (f": {said[:_LONGEST]}" if said else "")
