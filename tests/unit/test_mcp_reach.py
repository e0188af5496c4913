"""The tools table against the rights: an agent reaches everything that it may do, and every client understands the list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.sim.speaker import Speaker
from tests.sim.world import world

from interlock.domain.access import RIGHTS
from interlock.edges.mcp.tools import ROWS
from interlock.edges.operations import OPERATIONS

AGENTS = {"agent", "enrolled", "holder", "last_holder", "source", "self", "asker", "named"}
"""Relations in which an agent can stand."""
TOOLS = {name: row.tool() for name, row in ROWS.items()}


def schemas() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{name} {kind}", schema)
        for name, tool in TOOLS.items()
        for kind, schema in (("in", tool.input_schema), ("out", tool.output_schema or {}))
    ]


def inside(schema: Any) -> list[dict[str, Any]]:
    """A schema and all that are in it."""
    if isinstance(schema, list):
        return [found for each in schema for found in inside(each)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(found for each in schema.values() for found in inside(each))]


def test_an_agent_reaches_every_operation_that_it_may_carry_out() -> None:
    reached = {operation for row in ROWS.values() for operation in row.operations}
    wanted = {name for name, rights in RIGHTS.items() if AGENTS & set(rights)}
    assert reached == wanted


def test_a_tool_says_what_its_operations_do() -> None:
    for row in ROWS.values():
        reads = all(OPERATIONS[name].method == "GET" for name in row.operations)
        tool = row.tool()
        assert tool.annotations is not None
        assert tool.annotations["readOnlyHint"] == reads == row.reads
        assert tool.annotations["openWorldHint"] is False
        takes_key = "idempotency_key" in tool.input_schema["properties"]
        assert takes_key == (not reads and row.name != "heartbeat")
        assert tool.description.endswith(".")
        assert tool.title


def test_the_list_is_the_same_for_everybody_and_forgets_no_tool() -> None:
    w = world()
    before = Speaker(w).result("tools/list")
    assert [tool["name"] for tool in before["tools"]] == list(ROWS)
    w.ok("POST", "P/roles", {"key": "painter", "label": "Painter"}, token="owner")
    w.enrol("pia", ("painter",))
    assert Speaker(w, "pia").result("tools/list") == before
    assert (
        Speaker(w, w.ok("POST", "P/owners", {"label": "o"}, token="owner")["token"]).result("tools/list")
        == before
    )
    assert len(json.dumps(before)) < 40_000


@pytest.mark.parametrize(("name", "schema"), schemas(), ids=[name for name, _ in schemas()])
def test_every_client_understands_a_schema(name: str, schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert not schema.keys() & {"oneOf", "anyOf", "allOf", "not", "$defs"}
    for each in inside(schema):
        assert "$ref" not in each
        assert {"type": "null"} not in each.get("anyOf", []), each
    if name.endswith(" in"):
        assert schema["additionalProperties"] is False
        assert set(schema.get("required", ())) <= schema["properties"].keys()
        for field, shape in schema["properties"].items():
            assert "default" not in shape or shape["default"] is not None, field


EXAMPLES: dict[str, dict[str, Any]] = {
    "publish_job": {"summary": "x", "role": "qa", "priority": "high", "blocked_by": ["job_1"], "budget": {"usd": 1}},
    "publish_plan": {"jobs": [{"ref": "a", "summary": "x", "role": "qa"}, {"ref": "b", "summary": "y", "role": "qa", "blocked_by": ["a"]}]},
    "claim_next": {"roles": ["qa"], "heartbeat_seconds": 30, "idempotency_key": "k"},
    "complete_job": {"job": "j", "fence": 1, "result": {"summary": "s", "data": {"ok": True}, "artifacts": [{"type": "log", "uri": "file:///x"}]}},
    "heartbeat": {"jobs": [{"id": "job_1", "fence": 1, "usage": {"usd": 0.5}}]},
    "attach_artifact": {"job": "j", "fence": 1, "type": "log", "name": "a", "size": 3, "sha256": "0" * 64},
    "request_decision": {"job": "j", "fence": 1, "kind": "question", "prompt": "p", "blocker": "b", "risk": "r", "schema": {"type": "object"}},
    "answer_decision": {"decision": "d", "answer": {"any": ["thing"]}, "findings": [{"kind": "k", "description": "d"}]},
    "edit_job": {"job": "j", "version": 3, "deadline": None, "summary": "x"},
    "list_jobs": {"status": ["failed"], "role": [], "order": "newest", "limit": 5},
    "get_job": {"job": "j", "include": ["events", "explain"], "part": "context", "offset": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_schema_takes_what_the_tool_takes(name: str) -> None:
    given = {field: value for field, value in EXAMPLES[name].items() if value is not None}
    Draft202012Validator(TOOLS[name].input_schema).validate(given)
