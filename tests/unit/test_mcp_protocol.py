"""The core of the MCP server, with the conformance suite's fixtures as what it serves: both eras, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.conformance.fixtures import server

from interlock.edges.mcp import offers, protocol, transport
from interlock.edges.mcp.revisions import CAPABILITIES, LEGACY, MODERN, REVISION, SERVER, SUPPORTED, TASKS
from interlock.edges.mcp.rpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_REVISION,
)

FIXTURES = server()
TEXT = "This is a simple text response for testing."


def post(
    message: Any, headers: dict[str, str] | None = None, served: protocol.Server = FIXTURES
) -> tuple[int, Any]:
    """(status, the parsed body: a list of messages where it is a stream, None where there is none)."""

    def failed(error: Exception) -> None:
        raise error

    answer = transport.answer(served, message, headers or {}, None, failed)
    body = answer["body"]
    if answer["statusCode"] == 202:
        assert body == ""
        return 202, None
    if answer["headers"]["content-type"] == "text/event-stream":
        return answer["statusCode"], [
            json.loads(each.partition("data: ")[2]) for each in body.split("\n\n") if each
        ]
    return answer["statusCode"], json.loads(body)


def ask(method: str, params: Any = None, *, name: Any = 1, **more: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": name,
        "method": method,
        "params": {} if params is None else params,
        **more,
    }


def modern(
    method: str, *, capabilities: Any = None, headers: dict[str, str | None] | None = None, **params: Any
) -> tuple[int, Any]:
    """A request of 2026-07-28; ``headers`` replace those that it needs, None takes one away."""
    meta = {REVISION: MODERN, CAPABILITIES: {} if capabilities is None else capabilities}
    sent: dict[str, str | None] = {"mcp-protocol-version": MODERN, "mcp-method": method}
    name = params.get("name", params.get("uri", params.get("taskId")))
    if name is not None:
        sent["mcp-name"] = name
    sent |= headers or {}
    message = ask(method, {**params, "_meta": {**meta, **params.get("_meta", {})}})
    return post(message, {name: value for name, value in sent.items() if value is not None})


def code(answer: tuple[int, Any]) -> tuple[int, int]:
    status, body = answer
    assert set(body) == {"jsonrpc", "id", "error"}, body
    return status, body["error"]["code"]


# The older revisions


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("header", [None, *LEGACY, "2099-01-01", MODERN])
def test_initialize_is_decided_by_its_body(revision: str, header: str | None) -> None:
    headers = {"mcp-protocol-version": header} if header else {}
    status, body = post(ask("initialize", {"protocolVersion": revision}), headers)
    assert status == 200
    result = body["result"]
    assert result["protocolVersion"] == revision
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert "extensions" not in result["capabilities"]


@pytest.mark.parametrize("wanted", [None, "2024-11-05", "2099-01-01", MODERN, 7])
def test_initialize_offers_the_newest_it_has_to_whoever_wants_something_else(wanted: Any) -> None:
    _, body = post(ask("initialize", {"protocolVersion": wanted}))
    assert body["result"]["protocolVersion"] == LEGACY[0]


@pytest.mark.parametrize("header", [None, *LEGACY])
def test_a_call_of_an_older_revision_needs_no_handshake(header: str | None) -> None:
    headers = {"mcp-protocol-version": header} if header else {}
    status, body = post(ask("tools/call", {"name": "test_simple_text"}), headers)
    assert (status, body["result"]) == (200, {"content": [{"type": "text", "text": TEXT}]})
    assert post(ask("ping"), headers) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})


@pytest.mark.parametrize(
    "method", ["server/discover", "tasks/get", "logging/setLevel", "resources/subscribe", "x"]
)
def test_what_an_older_revision_does_not_have_is_not_found(method: str) -> None:
    assert code(post(ask(method))) == (200, METHOD_NOT_FOUND)


# 2026-07-28


def test_discover_says_what_there_is() -> None:
    status, body = modern("server/discover")
    result = body["result"]
    assert status == 200
    assert result["supportedVersions"] == list(SUPPORTED)
    assert result["capabilities"]["extensions"] == {TASKS: {}}
    assert (result["resultType"], result["_meta"][SERVER]) == ("complete", FIXTURES.info)
    assert result["cacheScope"] == "private"
    assert result["ttlMs"] > 0


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "subscriptions/listen", "x"])
def test_what_the_new_revision_does_not_have_is_not_found(method: str) -> None:
    assert code(modern(method)) == (404, METHOD_NOT_FOUND)


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-protocol-version": None},
        {"mcp-protocol-version": LEGACY[0]},
        {"mcp-method": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": "Tools/Call"},
        {"mcp-name": None},
        {"mcp-name": "test_image_content"},
        {"mcp-name": "=?base64?%%%?="},
        {"mcp-name": "=?base64?" + base64.b64encode(b"\xff").decode() + "?="},
    ],
)
def test_headers_that_do_not_agree_with_the_body_are_refused(headers: dict[str, str | None]) -> None:
    assert code(modern("tools/call", name="test_simple_text", headers=headers)) == (400, HEADER_MISMATCH)


def test_a_name_may_come_in_base64() -> None:
    name = "=?base64?" + base64.b64encode(b"test_simple_text").decode() + "?="
    status, body = modern("tools/call", name="test_simple_text", headers={"mcp-name": name})
    assert (status, body["result"]["content"][0]["text"]) == (200, TEXT)


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"mcp-param-region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"mcp-param-region": "us"}, False),
        ({}, {"mcp-param-region": "us"}, False),
        ({"region": "ü"}, {"mcp-param-region": "=?base64?w7w=?="}, True),
        ({"priority": 42}, {"mcp-param-priority": "42.0"}, True),
        ({"priority": 42}, {"mcp-param-priority": "x"}, False),
        ({"verbose": True}, {"mcp-param-verbose": "true"}, True),
        ({"verbose": False}, {"mcp-param-verbose": "False"}, False),
        ({"query": "not repeated"}, {}, True),
    ],
)
def test_headers_that_repeat_arguments_must_agree(
    arguments: dict[str, Any], headers: dict[str, str | None], fits: bool
) -> None:
    answer = modern("tools/call", name="test_x_mcp_header", arguments=arguments, headers=headers)
    assert answer[0] == (200 if fits else 400)
    assert fits or code(answer) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize("revision", ["2099-01-01", "", *LEGACY])
def test_a_revision_that_nobody_speaks_is_refused_with_those_that_are_spoken(revision: str) -> None:
    message = ask("tools/list", {"_meta": {REVISION: revision, CAPABILITIES: {}}})
    answer = post(message, {"mcp-protocol-version": revision, "mcp-method": "tools/list"})
    assert code(answer) == (400, UNSUPPORTED_REVISION)
    assert answer[1]["error"]["data"] == {"supported": list(SUPPORTED), "requested": revision}


def test_a_header_alone_does_not_make_a_request_modern() -> None:
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    assert code(post(ask("tools/list"), headers)) == (400, INVALID_PARAMS)
    assert code(post(ask("tools/list"), {"mcp-protocol-version": "2099-01-01"})) == (
        400,
        UNSUPPORTED_REVISION,
    )


@pytest.mark.parametrize("meta", [{REVISION: MODERN}, {REVISION: MODERN, CAPABILITIES: []}, {REVISION: 7}])
def test_meta_must_be_whole(meta: dict[str, Any]) -> None:
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    assert code(post(ask("tools/list", {"_meta": meta}), headers)) == (400, INVALID_PARAMS)


def test_one_server_answers_clients_of_both_eras_in_turn() -> None:
    for _ in range(2):
        assert "resultType" in modern("tools/list")[1]["result"]
        assert "resultType" not in post(ask("tools/list"))[1]["result"]
        assert code(modern("ping")) == (404, METHOD_NOT_FOUND)
        assert post(ask("ping"))[0] == 200


# Messages


@pytest.mark.parametrize("name", ["a", 0, -1, 1.5, "", "é"])
def test_an_id_comes_back_as_it_was(name: Any) -> None:
    assert post(ask("ping", name=name))[1]["id"] == name


@pytest.mark.parametrize("name", [None, True, [], {}])
def test_an_id_that_is_none_is_refused(name: Any) -> None:
    status, body = post(ask("ping", name=name))
    assert (status, body["error"]["code"], body["id"]) == (400, INVALID_REQUEST, None)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "test_simple_text"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_notifications_and_answers_are_taken_and_not_answered(message: Any) -> None:
    assert post(message) == (202, None)


@pytest.mark.parametrize(
    "message",
    [
        [],
        [ask("ping")],
        None,
        "ping",
        1,
        {},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
    ],
)
def test_what_is_no_message_is_refused(message: Any) -> None:
    assert code(post(message)) == (400, INVALID_REQUEST)


@pytest.mark.parametrize("params", [[], "x", 1, None])
def test_params_must_be_an_object(params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    assert code(post(message)) == (200, INVALID_PARAMS)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": "no_such_tool"}),
        ("tools/call", {"name": "test_simple_text", "arguments": []}),
        ("tools/call", {"name": "test_simple_text", "inputResponses": []}),
        ("tools/call", {"name": "test_simple_text", "requestState": 7}),
        ("prompts/get", {"name": "no_such_prompt"}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x"}}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x", "arg2": 7}}),
        ("prompts/get", {"name": "test_simple_prompt", "arguments": {"more": "x"}}),
        ("prompts/get", {"name": "test_simple_prompt", "arguments": "x"}),
        ("completion/complete", {"ref": 1, "argument": {"name": "a", "value": ""}}),
        ("completion/complete", {"ref": {}, "argument": {"name": "a"}}),
        ("tools/list", {"cursor": "x"}),
        ("resources/list", {"cursor": "x"}),
        ("resources/templates/list", {"cursor": "x"}),
        ("prompts/list", {"cursor": "x"}),
    ],
)
def test_wrong_parameters_are_refused_in_both_eras(method: str, params: dict[str, Any]) -> None:
    assert code(post(ask(method, params))) == (200, INVALID_PARAMS)
    named = {"mcp-name": str(params["name"])} if "name" in params else {"mcp-name": None}
    refused = code(modern(method, headers=dict(named), **params))
    assert refused in {(400, INVALID_PARAMS), (400, HEADER_MISMATCH)}


def test_a_resource_that_is_not_there_has_a_code_per_era() -> None:
    assert code(post(ask("resources/read", {"uri": "test://nowhere"}))) == (200, RESOURCE_NOT_FOUND)
    assert code(modern("resources/read", uri="test://nowhere")) == (400, INVALID_PARAMS)
    for uri in ("test://template//data", "test://template/data", "x" * 500):
        assert code(modern("resources/read", uri=uri)) == (400, INVALID_PARAMS)


def test_a_template_reads_what_its_variable_is() -> None:
    _, body = modern("resources/read", uri="test://template/a%2Fb/data")
    (contents,) = body["result"]["contents"]
    assert contents["uri"] == "test://template/a%2Fb/data"
    assert json.loads(contents["text"])["id"] == "a%2Fb"


def test_progress_goes_before_the_result_and_only_to_whoever_asked() -> None:
    call = {"name": "test_tool_with_progress"}
    _, messages = post(ask("tools/call", {**call, "_meta": {"progressToken": "p"}}))
    assert [message["params"]["progress"] for message in messages[:-1]] == [0, 50, 100]
    assert all(message["params"]["progressToken"] == "p" for message in messages[:-1])
    assert messages[-1]["result"]["content"][0]["text"] == "ok"
    assert post(ask("tools/call", call))[1]["result"]["content"][0]["text"] == "ok"


def test_completions_are_cut_at_the_protocols_limit() -> None:
    def many(*_: Any) -> list[str]:
        return [f"{number}" for number in range(250)]

    served = protocol.Server("x", "1", "", {}, completer=many)
    _, body = post(
        ask("completion/complete", {"ref": {}, "argument": {"name": "a", "value": ""}}), served=served
    )
    found = body["result"]["completion"]
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)


def test_a_server_offers_no_method_for_what_it_has_not() -> None:
    served = protocol.Server("x", "1", "", {})
    for method in ("resources/list", "prompts/list", "completion/complete"):
        assert code(post(ask(method), served=served)) == (200, METHOD_NOT_FOUND)
    assert post(ask("initialize"), served=served)[1]["result"]["capabilities"] == {"tools": {}}


# What needs the client


def test_a_call_that_needs_what_the_client_lacks_is_refused() -> None:
    call = {"name": "test_input_required_result_multiple_inputs"}
    answer = modern("tools/call", capabilities={"sampling": {}}, **call)
    assert code(answer) == (400, MISSING_CAPABILITY)
    assert answer[1]["error"]["data"] == {"requiredCapabilities": {"elicitation": {}, "roots": {}}}
    assert code(post(ask("tools/call", call))) == (400, MISSING_CAPABILITY)


def test_what_is_needed_is_asked_and_the_call_goes_on() -> None:
    call = {"name": "test_input_required_result_request_state"}
    _, body = modern("tools/call", capabilities={"elicitation": {}}, **call)
    assert body["result"]["resultType"] == "input_required"
    state = body["result"]["requestState"]
    answers = {"confirm": {"action": "accept", "content": {"ok": True}}}
    _, body = modern(
        "tools/call", capabilities={"elicitation": {}}, **call, requestState=state, inputResponses=answers
    )
    assert body["result"]["content"][0]["text"] == "state-ok"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_tasks_are_for_clients_that_know_them(method: str) -> None:
    assert code(modern(method, taskId="x")) == (400, MISSING_CAPABILITY)
    knows = {"extensions": {TASKS: {}}}
    assert code(modern(method, taskId="x", capabilities=knows)) == (400, INVALID_PARAMS)


def test_a_task_is_a_result_of_its_own_kind() -> None:
    knows = {"extensions": {TASKS: {}}}
    _, body = modern("tools/call", name="confirm_delete", capabilities=knows)
    assert (body["result"]["resultType"], body["result"]["status"]) == ("task", "working")
    _, body = modern("tasks/get", taskId=body["result"]["taskId"], capabilities=knows)
    assert (body["result"]["resultType"], body["result"]["status"]) == ("complete", "input_required")


# Transport


def test_a_defect_is_told_to_the_log_and_not_to_the_caller() -> None:
    def breaks(*_: Any) -> Any:
        raise ValueError("a secret")

    served = protocol.Server("x", "1", "", {"t": offers.Tool("t", "t", "t", {"type": "object"}, breaks)})
    told: list[Exception] = []
    answer = transport.answer(served, ask("tools/call", {"name": "t"}), {}, None, told.append)
    assert answer["statusCode"] == 500
    assert json.loads(answer["body"])["error"] == {"code": INTERNAL_ERROR, "message": "the server failed"}
    assert [str(error) for error in told] == ["a secret"]


@pytest.mark.parametrize(
    ("origin", "host", "secure", "foreign"),
    [
        (None, "anything", False, False),
        ("http://localhost:3000", "127.0.0.1:8787", False, False),
        ("http://[::1]:3000", "127.0.0.1:8787", False, False),
        ("http://192.168.0.7:8787", "192.168.0.7:8787", False, False),
        ("http://192.168.0.8", "192.168.0.7:8787", False, True),
        ("http://evil.example", "evil.example", False, True),
        ("http://evil.example:8787", "127.0.0.1:8787", False, True),
        ("https://api.example", "api.example", True, False),
        ("https://evil.example", "api.example", True, True),
        ("null", "127.0.0.1:8787", False, True),
        ("", "127.0.0.1:8787", False, True),
        ("http://[", "127.0.0.1:8787", False, True),
        ("https://localhost.evil.example", "127.0.0.1", False, True),
    ],
)
def test_pages_of_other_sites_are_known_by_their_origin(
    origin: str | None, host: str, secure: bool, foreign: bool
) -> None:
    headers = {"host": host, **({} if origin is None else {"origin": origin})}
    assert transport.from_foreign_page(headers, secure=secure) is foreign
