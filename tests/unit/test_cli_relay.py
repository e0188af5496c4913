"""What `interlock mcp` sends to the bus, what it sends again, and how what fails on the way is told."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest
from tests.sim.world import world
from tests.unit.cli_mcp import GONE, LIMIT, META, TOOLS, answers, asks, fine, proxy
from tests.unit.cli_stub import AGENT, Stub, problem, serving

from interlock.cli import client, relay
from interlock.edges import runtime
from interlock.edges.mcp import revisions
from interlock.edges.mcp.serve import mcp_handler


def test_legacy_requests_carry_what_was_agreed_on() -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(0))
        mcp.ask(asks(1, "initialize", protocolVersion="2025-06-18"))
        mcp.ask(asks(2, "tools/call", name="whoami", arguments={}))
        mcp.ask(asks(3, "initialize", protocolVersion="2025-06-18"))
    assert [one.headers.get("mcp-protocol-version") for one in stub.asked] == [None, None, "2025-06-18", None]
    for one in stub.asked:
        assert "mcp-method" not in one.headers
        assert "mcp-name" not in one.headers
        assert one.token == AGENT
        assert one.headers["content-type"] == "application/json"
        assert one.headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("server/discover", {}, None),
        ("tools/list", {}, None),
        ("tools/call", {"name": "whoami"}, "whoami"),
        ("tools/call", {"name": 5}, None),
        ("prompts/get", {"name": "claim"}, "claim"),
        ("resources/read", {"uri": "interlock://jobs/job_1"}, "interlock://jobs/job_1"),
        ("tasks/get", {"taskId": "dec_1"}, "dec_1"),
        ("tasks/update", {"taskId": "dec_1"}, "dec_1"),
        ("tasks/cancel", {"taskId": "dec_1"}, "dec_1"),
    ],
)
def test_modern_requests_repeat_in_headers_what_they_say(method: str, params: Any, name: str | None) -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "initialize"))
        mcp.ask(asks(2, method, **params, _meta=META))
    headers = stub.asked[1].headers
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-method"] == method
    assert headers.get("mcp-name") == name
    assert stub.asked[1].body == asks(2, method, **params, _meta=META)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a b", "a b"),
        ("", "=?base64??="),
        (" a", "=?base64?IGE=?="),
        ("a\t", "=?base64?YQk=?="),
        ("größe", "=?base64?Z3LDtsOfZQ==?="),
        ("a\r\nAuthorization: x", "=?base64?YQ0KQXV0aG9yaXphdGlvbjogeA==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64?YQ==", "=?base64?YQ=="),
    ],
)
def test_a_name_that_no_header_can_carry_is_marked(name: str, header: str) -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "prompts/get", name=name, _meta=META))
    assert stub.asked[0].headers["mcp-name"] == header
    assert revisions.decoded(header) == name


def test_any_text_arrives_as_it_was() -> None:
    texts = ["größe", "\ud800", "\x00", "\u2028", "𝄞"]
    with serving(Stub(lambda asked: (200, {**answers(asked), "result": asked.body["params"]}))) as stub:
        with proxy(stub) as mcp:
            heard = mcp.ask(asks(1, "prompts/get", name="\ud800", texts=texts, _meta=META))
        assert stub.asked[0].body["params"]["texts"] == texts
    assert heard["result"]["texts"] == texts


def test_a_text_is_not_made_longer_on_the_way() -> None:
    text = "語" * 1_000
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, text=text))
    assert int(stub.asked[0].headers["content-length"]) < 3_100


@pytest.mark.parametrize("number", [0, 7, -1, 1.5, "a", "", 10**30])
def test_the_id_is_kept(number: Any) -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        assert mcp.ask(asks(number))["id"] == number
        assert stub.asked[0].body["id"] == number


@pytest.mark.parametrize(
    ("answer", "code", "words", "named"),
    [
        (problem(401, "token_unknown"), -32600, "said token_unknown. do that", "token_unknown"),
        (problem(403, "forbidden"), -32600, "said forbidden. do that", "forbidden"),
        (problem(413, "too_large"), -32600, "said too_large. do that", "too_large"),
        (problem(500, "internal"), -32603, "said internal. do that", "internal"),
        (problem(429, "throttled"), -32603, "said throttled. do that", "throttled"),
        (problem(503, "store_unavailable"), -32603, "said store_unavailable. do that", "store_unavailable"),
        ((413, {"message": "Request Too Long"}), -32600, "Request Too Long. Is this the address of a bus?", None),
        ((404, b"<html>nothing here"), -32600, "HTTP status 404. Is this the address of a bus?", None),
        ((200, b"<html>welcome"), -32603, "what the bus answered is no MCP message. Is this", None),
        ((200, b"\xff"), -32603, "what the bus answered is no MCP message. Is this", None),
        ((200, b"[" * 100_000), -32603, "what the bus answered is no MCP message. Is this", None),
        ((200, {"status": "ok"}), -32603, "what the bus answered is no MCP message. Is this", None),
        ((200, asks(1)), -32603, "what the bus answered is no MCP message. Is this", None),
        ((200, []), -32603, "what the bus answered is no MCP message. Is this", None),
        ((202, b""), -32603, "what the bus answered is no MCP message. Is this", None),
        ((502, b"bad gateway"), -32603, "HTTP status 502.", None),
    ],
)  # fmt: skip
def test_what_is_no_answer_becomes_one(answer: Any, code: int, words: str, named: str | None) -> None:
    with serving(Stub(lambda _: answer)) as stub, proxy(stub) as mcp:
        heard = mcp.ask(asks("x"))
        assert mcp.end() == []
    assert heard["id"] == "x"
    assert heard["error"]["code"] == code
    assert heard["error"]["message"].startswith(words)
    assert heard["error"]["data"].get("code") == named
    assert heard["error"]["data"]["hint"] in heard["error"]["message"]


def test_a_bus_that_is_away_is_named_with_the_way_out() -> None:
    with proxy(GONE) as mcp:
        heard = mcp.ask(asks(4))
        assert len(mcp.waited) == client.ATTEMPTS - 1
    assert heard["id"] == 4
    assert heard["error"]["message"] == (
        f"no answer from {GONE}: connection refused. Is the bus up? `interlock up` starts one here."
    )


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed(status: int) -> None:
    with (
        serving(Stub(fine)) as elsewhere,
        serving(Stub(lambda _: (status, b"", {"Location": f"{elsewhere.url}/mcp"}))) as stub,
        proxy(stub) as mcp,
    ):
        heard = mcp.ask(asks(1))
    assert heard["error"]["message"].startswith(f"HTTP status {status}.")
    assert elsewhere.asked == []


@pytest.mark.parametrize(("status", "code"), [(200, -32002), (400, -32020), (404, -32601), (500, -32603)])
def test_the_bus_s_own_errors_pass(status: int, code: int) -> None:
    error = {"code": code, "message": "no", "data": {"supported": []}}
    with serving(Stub(lambda _: (status, {"jsonrpc": "2.0", "id": None, "error": error}))) as stub:
        with proxy(stub) as mcp:
            heard = mcp.ask(asks(5))
        assert len(stub.asked) == 1
    assert heard == {"jsonrpc": "2.0", "id": 5, "error": error}


def test_a_defect_here_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(relay, "exchange", broken)
    with proxy(GONE) as mcp:
        heard = mcp.ask(asks(6))
    assert heard["id"] == 6
    assert heard["error"] == {"code": -32603, "message": "`interlock mcp` failed: ZeroDivisionError"}


class Shop:
    """A bus whose effects can be counted; it loses, or refuses, the first answers after each effect."""

    def __init__(self, *failures: Any) -> None:
        self.failures = iter(failures)
        self.effects: dict[Any, int] = {}
        self._numbers = itertools.count()

    def __call__(self, asked: Any) -> Any:
        if asked.body["method"] != "tools/call":
            return fine(asked)
        arguments = asked.body["params"].get("arguments") or {}
        self.effects.setdefault(arguments.get("idempotency_key", next(self._numbers)), 1)
        return next(self.failures, fine(asked))


def called(stub: Stub) -> list[Any]:
    return [one.body["params"] for one in stub.asked if one.body["method"] == "tools/call"]


LOST = None
"""A connection that is closed instead of an answer."""


@pytest.mark.parametrize(
    "failures",
    [
        [LOST],
        [LOST, LOST, LOST],
        [problem(503, "store_unavailable")],
        [problem(429, "throttled"), LOST],
        [(504, {"message": "Endpoint request timed out"})],
    ],
)
@pytest.mark.parametrize("arguments", [{"summary": "x"}, {}, None])
def test_a_call_whose_answer_is_lost_has_one_effect(failures: list[Any], arguments: Any) -> None:
    shop = Shop(*failures)
    with serving(Stub(shop)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        params = {"name": "publish_job"} | ({} if arguments is None else {"arguments": arguments})
        assert mcp.ask(asks(2, "tools/call", **params))["result"] == {"did": "tools/call"}
        assert len(mcp.waited) == len(failures)
    assert len(shop.effects) == 1
    sent = called(stub)
    assert len(sent) == len(failures) + 1
    assert all(one == sent[0] for one in sent)
    assert {**(arguments or {}), "idempotency_key": sent[0]["arguments"]["idempotency_key"]} == sent[0][
        "arguments"
    ]
    assert 1 <= len(sent[0]["arguments"]["idempotency_key"]) <= 255


def test_on_the_real_bus_a_line_that_loses_every_first_answer_changes_nothing() -> None:
    made = world()
    runtime.use(made.bus)
    made.dispatch()
    seen: set[Any] = set()

    def lossy(asked: Any) -> Any:
        event = {
            "rawPath": asked.path,
            "headers": {
                **asked.headers,
                "authorization": f"Bearer {made.agent}",
                "x-forwarded-proto": "http",
            },
            "requestContext": {"http": {"method": "POST"}, "requestId": "r1"},
            "body": json.dumps(asked.body),
        }
        answer = mcp_handler(event, None)
        first = asked.body["id"] not in seen
        seen.add(asked.body["id"])
        return LOST if first else (answer["statusCode"], json.loads(answer["body"]))

    with serving(Stub(lossy)) as stub, proxy(stub) as mcp:
        numbers = itertools.count(1)

        def found(tool: str, **arguments: Any) -> Any:
            heard = mcp.ask(asks(next(numbers), "tools/call", name=tool, arguments=arguments))
            assert not heard["result"].get("isError"), heard
            return heard["result"]["structuredContent"]

        mcp.ask(asks(next(numbers), "tools/list"))
        job = found("publish_job", summary="Once", role="developer", requires=["report"])["job"]["id"]
        taken = found("claim_next")
        assert (taken["job"]["id"], taken["claim"]["fence"]) == (job, 1)
        held = {"job": job, "fence": 1}
        found("heartbeat")
        found("record_event", job=job, type="custom.seen")
        found("set_job_status", **held, action="block", reason="no paint")
        found("set_job_status", **held, action="unblock", reason="paint came")
        found("set_job_status", **held, action="resume")
        asked = found(
            "request_decision", **held, kind="question", prompt="?", blocker="b", risk="r", wait=False
        )
        found("answer_decision", decision=asked["decision"]["id"], action="withdraw")
        found("attach_artifact", **held, type="report", uri="https://example.org/report")
        assert found("complete_job", **held)["job"]["status"] == "completed"
        assert [one["id"] for one in found("list_jobs", status=[], role=[])["jobs"]] == [job]
        made.dispatch()
        events = [event["type"] for event in found("get_job", job=job, include=["events"])["events"]]
        assert len(events) == len(set(events)), events
        assert len(stub.asked) == 2 * (next(numbers) - 1)


def test_two_calls_have_two_effects() -> None:
    shop = Shop()
    with serving(Stub(shop)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        for number in (2, 3):
            mcp.ask(asks(number, "tools/call", name="publish_job", arguments={"summary": "x"}))
    assert len(shop.effects) == 2


def test_a_key_of_the_model_s_own_is_kept() -> None:
    shop = Shop(LOST)
    arguments = {"summary": "x", "idempotency_key": "mine"}
    with serving(Stub(shop)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        mcp.ask(asks(2, "tools/call", name="publish_job", arguments=arguments))
    assert called(stub) == [{"name": "publish_job", "arguments": arguments}] * 2


@pytest.mark.parametrize("tool", ["whoami", "heartbeat"])
def test_a_tool_that_is_safe_to_repeat_is_repeated_as_it_came(tool: str) -> None:
    with serving(Stub(Shop(LOST))) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        assert "result" in mcp.ask(asks(2, "tools/call", name=tool, arguments={"a": 1}))
    assert called(stub) == [{"name": tool, "arguments": {"a": 1}}] * 2


@pytest.mark.parametrize("failure", [LOST, problem(503, "store_unavailable")])
@pytest.mark.parametrize("listed", [True, False], ids=["roll_dice", "before the list was read"])
def test_a_tool_of_which_nothing_is_known_is_called_once(listed: bool, failure: Any) -> None:
    shop = Shop(failure)
    with serving(Stub(shop)) as stub, proxy(stub) as mcp:
        if listed:
            mcp.ask(asks(1, "tools/list"))
        name = "roll_dice" if listed else "publish_job"
        heard = mcp.ask(asks(2, "tools/call", name=name, arguments={"a": 1}))
    assert heard["error"]["code"] == -32603
    assert called(stub) == [{"name": name, "arguments": {"a": 1}}]


@pytest.mark.parametrize("arguments", [[], "x", 5])
def test_arguments_that_are_none_are_left_to_the_bus(arguments: Any) -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        mcp.ask(asks(2, "tools/call", name="publish_job", arguments=arguments))
    assert called(stub) == [{"name": "publish_job", "arguments": arguments}]


@pytest.mark.parametrize(
    "tools", [None, 5, [5], [{"name": []}], [{"name": "publish_job", "inputSchema": [], "annotations": 7}]]
)
def test_a_list_of_another_shape_teaches_nothing(tools: Any) -> None:
    def odd(asked: Any) -> Any:
        listed = asked.body["method"] == "tools/list"
        return 200, {**answers(asked), "result": {"tools": tools} if listed else []}

    with serving(Stub(odd)) as stub, proxy(stub) as mcp:
        assert mcp.ask(asks(1, "tools/list"))["result"] == {"tools": tools}
        assert mcp.ask(asks(2, "tools/call", name="publish_job"))["result"] == []
    assert called(stub) == [{"name": "publish_job"}]


def test_a_list_is_learned_page_by_page() -> None:
    pages = iter([TOOLS[:1], TOOLS[1:]])

    def paged(asked: Any) -> Any:
        if asked.body["method"] != "tools/list":
            return fine(asked)
        return 200, {**answers(asked), "result": {"tools": next(pages)}}

    with serving(Stub(paged)) as stub, proxy(stub) as mcp:
        mcp.ask(asks(1, "tools/list"))
        mcp.ask(asks(2, "tools/list", cursor="x"))
        mcp.ask(asks(3, "tools/call", name="publish_job", arguments={}))
    assert called(stub)[0]["arguments"].keys() == {"idempotency_key"}


@pytest.mark.parametrize("method", ["initialize", "tools/list", "resources/read", "tasks/get", "ping"])
def test_what_reads_is_sent_again(method: str) -> None:
    left = iter([LOST, problem(503, "store_unavailable")])
    with serving(Stub(lambda asked: next(left, fine(asked)))) as stub, proxy(stub) as mcp:
        assert "result" in mcp.ask(asks(1, method))
        assert len(stub.asked) == 3


def test_a_long_retry_after_is_told_instead_of_waited_for() -> None:
    answer = (*problem(429, "throttled"), {"Retry-After": "3600"})
    with serving(Stub(lambda _: answer)) as stub, proxy(stub) as mcp:
        assert mcp.ask(asks(1))["error"]["data"]["code"] == "throttled"
        assert mcp.waited == []


def cancels(number: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def test_a_request_that_is_cancelled_is_not_sent_again() -> None:
    waiting = threading.Event()

    def wait(cancelled: threading.Event, _: float) -> bool:
        waiting.set()
        return cancelled.wait(LIMIT)

    with serving(Stub(lambda _: problem(503, "store_unavailable"))) as stub, proxy(stub, wait) as mcp:
        mcp.say(asks(1))
        assert waiting.wait(LIMIT)
        mcp.say(cancels(1))
        assert mcp.end() == []
        assert len(stub.asked) == 1


@pytest.mark.parametrize("outcome", [None, problem(403, "forbidden")], ids=["done", "refused"])
def test_a_request_that_is_cancelled_is_not_answered(outcome: Any) -> None:
    arrived, let_go = threading.Event(), threading.Event()

    def slowly(asked: Any) -> Any:
        if asked.body["method"] == "tools/list":
            arrived.set()
            let_go.wait(LIMIT)
            return outcome or fine(asked)
        return fine(asked)

    with serving(Stub(slowly)) as stub, proxy(stub) as mcp:
        mcp.say(asks(1, "tools/list"))
        assert arrived.wait(LIMIT)
        mcp.say(cancels(1), cancels(2), cancels([]), {**cancels(1), "params": 5})
        assert mcp.ask(asks(3))["id"] == 3, (
            "lines are read in their order, so that the request is cancelled by now"
        )
        let_go.set()
        assert mcp.end() == []
