"""Whatever is sent to the MCP server in memory gets one well-formed answer, and never a defect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.copies import Template
from tests.sim.garbage import BODIES, RIGHT, TOOLS, WRONG, Aims, Sent, calls, judge, messages
from tests.sim.speaker import Speaker, message
from tests.sim.world import world

from interlock.domain.ledger import verify
from interlock.edges import telemetry
from interlock.edges.mcp.revisions import NAMED, TASKS


@pytest.fixture(autouse=True)
def _no_defect(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A defect that was caught at the last line of defence fails too."""
    defects: list[BaseException] = []
    monkeypatch.setattr(telemetry, "failure", lambda _name, _request, error: defects.append(error))
    yield
    assert defects == []


@cache
def board() -> tuple[Template, Mapping[str, Sequence[Any]]]:
    """(a bus with a job that the agent holds, one that is free, a review that it holds, a decision; their names)."""
    w = world()
    w.enrol("other")
    held = w.job(artifacts=[{"type": "log", "uri": "s3://x"}], context={"half": "\ud800", "\udfff": "\x00"})
    free, done = w.job(), w.job()
    fence = w.claim(held)
    review = w.job(role="reviewer", blocked_by=[done])
    w.ok("POST", f"P/jobs/{done}/complete", {"fence": w.claim(done, token="other")}, token="other")
    w.pump()
    w.claim(review)
    body = {
        "fence": fence,
        "kind": "question",
        "prompt": "Which?",
        "blocker": "b",
        "risk": "r",
        "wait": False,
    }
    decision = w.ok("POST", f"P/jobs/{held}/decisions", body)["decision"]["id"]
    upload = w.uploaded(held, body={"fence": fence})
    jobs = [held, free, review]
    return Template(w), {
        "job": jobs, "upstream": jobs, "parent": jobs, "target": [done], "blocked_by": [[free], jobs], "fence": [fence], "id": jobs,
        "decision": [decision], "verify": [upload], "artifact": [upload], "role": ["developer", ["developer"]], "version": [1, 2, 3],
        "action": ["block", "unblock", "resume", "release", "cancel"], "reason": ["why"], "summary": ["do it"],
    }  # fmt: skip


@given(st.lists(st.deferred(lambda: calls(Aims(board()[1]))), min_size=1, max_size=12))
def test_calls_that_are_nearly_right_are_answered(sent: list[Sent]) -> None:
    w = board()[0].copy()
    client = Speaker(w)
    for body, headers in sent:
        judge(client.post(body, headers))
    w.pump()
    assert verify(w.ok("GET", "P/events", query={"limit": 1000}, token="owner")["items"]) == []


@given(st.lists(messages(), min_size=1, max_size=8))
def test_messages_that_are_nearly_messages_are_answered(sent: list[Sent]) -> None:
    client = Speaker(board()[0].copy())
    for body, headers in sent:
        judge(client.post(body, headers))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_wrong_value_of_any_argument_is_refused_or_taken(tool: str) -> None:
    made, names = board()
    client, schema = Speaker(made.copy()), TOOLS[tool]
    right = {name: names.get(name, ["x"])[0] for name in schema.get("required", ())}
    for name in schema["properties"]:
        for wrong in WRONG:
            body, headers = message("tools/call", {"name": tool, "arguments": {**right, name: wrong}})
            judge(client.post(json.dumps(body), headers))


def nearly(params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Parameters with a wrong value in one place, at the top or one level below it."""
    for name, value in params.items():
        for wrong in WRONG:
            yield {**params, name: wrong}
            if isinstance(value, dict):
                yield from ({**params, name: {**value, inner: wrong}} for inner in value)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("method", RIGHT)
def test_a_wrong_parameter_of_any_method_is_refused_or_taken(method: str, modern: bool) -> None:
    client = Speaker(board()[0].copy())
    said = {"capabilities": {"extensions": {TASKS: {}}, "elicitation": {}}} if modern else {}
    right, headers = message(method, RIGHT[method], modern=modern, **said)
    meta = {"progressToken": 1, "traceparent": "t", **right["params"].get("_meta", {})}
    judge(client.post(json.dumps(right), headers))
    for params in nearly({**right["params"], "_meta": meta}):
        names = {str(params.get(NAMED.get(method, ""))), headers.get("mcp-name", "")} if modern else set()
        for more in [{"mcp-name": name} for name in names] or [{}]:
            judge(client.post(json.dumps({**right, "params": params}), {**headers, **more}))
    for wrong in WRONG:
        for part in ("jsonrpc", "id", "method", "params"):
            judge(client.post(json.dumps({**right, part: wrong}), headers))


@pytest.mark.parametrize(
    "name",
    [
        "=?base64?!?=",
        "=?base64?4pyT?=",
        "=?base64?/w==?=",
        "=?base64?" + "A" * 9_000 + "?=",
        "\ud800",
        "\x00",
    ],
)
@pytest.mark.parametrize(
    "header", ["mcp-name", "mcp-method", "mcp-protocol-version", "content-type", "origin", "traceparent"]
)
def test_a_strange_header_is_refused_or_taken(header: str, name: str) -> None:
    body, headers = message("tools/call", {"name": "whoami"}, modern=True)
    judge(Speaker(world()).post(json.dumps(body), {**headers, header: name}))


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("wrong", BODIES)
def test_what_is_no_message_is_answered(wrong: str, modern: bool) -> None:
    client = Speaker(world())
    _, headers = message("ping", modern=modern)
    judge(client.post(BODIES[wrong], headers))
    judge(client.post(BODIES[wrong].decode("latin-1"), headers))


@pytest.mark.parametrize(
    "token", [None, "", "owner", "il_agt_default.agt_1.x", "\x00", "\ud800", "x" * 9_000]
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "OPTIONS", "", "\x00"])
def test_strangers_and_other_methods_are_refused(token: str | None, method: str) -> None:
    body, headers = message("tools/list")
    reply = Speaker(world(), token).post(json.dumps(body), headers, method)
    judge(reply)
    assert reply.status == (405 if method != "POST" else 403 if token == "owner" else 401)
