"""Events and results of the demo's jobs in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_LONG = 120
"""Characters of somebody's reason in a line."""


def words(kind: str, event: Mapping[str, Any], name: Callable[[str], str]) -> str:
    """An event as a sentence; empty for what is not worth one. ``name`` names a job by its id."""
    return _of_holding(kind, event) or _of_the_graph(kind, event, name)


def _of_holding(kind: str, event: Mapping[str, Any]) -> str:
    """Who takes, keeps, leaves a job, and who decides about it."""
    who, data = event["actor"]["label"], event["data"]
    match kind:
        case "claimed":
            later = f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
            return f"claimed by {who}, fence {data['fence']}{later}"
        case "lease_expired":
            again = " again" if event["to"] == "published" else ""
            return f"the lease has lapsed: {event['to']}{again}"
        case "stopped":
            again = " again" if event["to"] == "published" else ""
            return f"taken from its holder by {who}: {event['to']}{again}"
        case "decision_requested":
            return f"{who} asks, and waits"
        case "decision_answered":
            return f"{who} decides: {_short(data['answer'])}"
        case "resumed":
            return f"{who} goes on"
        case "completed" | "released":
            return f"{kind} by {who}"
    return ""


def _of_the_graph(kind: str, event: Mapping[str, Any], name: Callable[[str], str]) -> str:
    """What fails, comes back, is sent back and follows, and what was uploaded."""
    who, data = event["actor"]["label"], event["data"]
    match kind:
        case "artifact_added":
            kinds = {one["type"] for one in data["artifacts"] if one.get("state") == "verified"}
            return f"{who} uploaded evidence, verified: {', '.join(sorted(kinds))}" if kinds else ""
        case "activated":
            return "all that it waited for is completed: published"
        case "revived":
            return f"revived, waits for {name(data['root'])} again" if "root" in data else "revived"
        case "retried":
            return f"published again by {who}"
        case "rejected":
            return f"{who} sends {name(data['target'])} back, now {name(data['retry'])}: {_short(data['reason'])}"
        case "routed":
            made = ", ".join(map(name, data["created"]))
            return f"its rule holds of the result: {made} follows" if made else "none of its rules holds"
        case "failed" | "cancelled" if "caused_by" in data:
            return f"{kind} by cascade; it began with {name(data['caused_by']['root'])}"
        case "failed" | "cancelled":
            return f"{kind} by {who}: {_short(brief(data[_REASONS[kind]]))}"
    return ""


_REASONS = {"failed": "failure_reason", "cancelled": "cancel_reason"}


def outcome(job: Mapping[str, Any]) -> str:
    """What a job came to, in short."""
    data = (job.get("result") or {}).get("data") or {}
    return str(data.get("built") or data.get("says") or "")


def brief(reason: str | None) -> str:
    """How a command ended, and the last thing it said."""
    how, _, said = (reason or "").partition(": ")
    lines = said.strip().splitlines()
    return f"{how}: {lines[-1][:200]}" if lines else how


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
