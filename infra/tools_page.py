"""docs/tools.md: every tool of the MCP server, from the tools table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.edges.mcp.tools import ROWS
from interlock.edges.operations import OPERATIONS

_INTRODUCTION = """# Tools

Every tool of [the MCP server](mcp.md), in the order in which clients list them. The fields are those of the REST operations that
a tool carries out, side by side with its own; [openapi.json](openapi.json) has all of their limits.
"""


def page() -> str:
    """The document."""
    return "\n".join([_INTRODUCTION, *(_tool(name) for name in ROWS)])


def _tool(name: str) -> str:
    row = ROWS[name]
    schema = row.tool().input_schema
    needed = schema.get("required", ())
    lines = [f"## {name}", "", row.description, ""]
    if schema["properties"]:
        lines += ["| Argument | Type | |", "|---|---|---|"]
        lines += [
            f"| `{field}`{'' if field in needed else '?'} | {_type(shape)} | {_words(shape)} |"
            for field, shape in schema["properties"].items()
        ]
        lines.append("")
    carried = ", ".join(f"`{OPERATIONS[each].method} {OPERATIONS[each].path}`" for each in row.operations)
    lines += [f"Carries out: {carried.replace('/v1/projects/{project}', 'P')}", ""]
    return "\n".join(lines)


def _type(shape: Mapping[str, Any]) -> str:
    if "enum" in shape:
        return " ".join(f"`{value}`" for value in shape["enum"])
    if "const" in shape:
        return f"`{shape['const']}`"
    if shape.get("type") == "array":
        return f"list of {_type(shape['items'])}"
    return str(shape.get("type", "any"))


def _words(shape: Mapping[str, Any]) -> str:
    said = str(shape.get("description", "")).replace("\n", " ").replace("|", "\\|")
    default = shape.get("default", ...)
    if default in (..., [], {}, False, ""):
        return said
    return f"{said} Default: `{json.dumps(default)}`".strip()
