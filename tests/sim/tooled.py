"""Requests of REST as calls of MCP's tools: the same operation, asked for in the other way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from interlock.edges.mcp.tools import ROWS

TOOL = {operation: row.name for row in ROWS.values() for operation in row.operations}
"""By operation: a tool that carries it out."""
ALONG: Mapping[str, dict[str, Any]] = {
    "jobs.list": {"status": [], "role": []},
    "jobs.timeline": {"include": ["events"]},
    "jobs.explain": {"include": ["explain"]},
    "jobs.graph": {"include": ["graph"]},
    "jobs.reopen_context": {"include": ["reopen"]},
    "claims.block": {"action": "block"},
    "claims.unblock": {"action": "unblock"},
    "claims.resume": {"action": "resume"},
    "claims.release": {"action": "release"},
    "claims.restart": {"action": "restart"},
    "jobs.cancel": {"action": "cancel"},
    "decisions.withdraw": {"action": "withdraw"},
    "agents.get": {"include": ["agent"]},
    "projects.get": {"include": ["project"]},
    "roles.list": {"include": ["roles"]},
    "system.workers": {"include": ["workers"]},
    "system.stats": {"include": ["stats"]},
    "ledger.feed": {"include": ["events"]},
}
"""What a tool is told beside what REST is told, to carry out this operation."""
NOT_ASKED = frozenset({"project", "agent", "depth"})
"""What a path or a query says and no tool takes."""


def arguments(name: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """What :data:`TOOL` of an operation is asked, so that it does what a request does; ``event`` is API Gateway's."""
    headers, own = event["headers"], ROWS[TOOL[name]].own.model_fields
    asked = {key: value for key, value in event["pathParameters"].items() if key not in NOT_ASKED}
    for key, values in parse_qs(event["rawQueryString"]).items():
        if key in own and key not in NOT_ASKED:
            one = int(values[0]) if key == "limit" else values[0]
            asked[key] = values if key in ("status", "role") else one
    if name == "jobs.verify":
        asked["verify"] = asked.pop("artifact")
    body = json.loads(event["body"] or "{}")
    if name == "jobs.link":
        body.pop("type", None)
    if "idempotency-key" in headers and "idempotency_key" in own:
        asked["idempotency_key"] = headers["idempotency-key"]
    if "if-match" in headers:
        asked["version"] = int(headers["if-match"].strip('W/"v'))
    return {**ALONG.get(name, {}), **asked, **body}
