"""Events as AWS makes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2, SQSEvent

from interlock.local.events import LambdaContext, http_event, new_request_id, sqs_event
from interlock.local.routing import Match
from interlock.local.template import Function
from interlock.store.ports import Message

FUNCTION = Function("JobsCreate", Path("create.py"), "handler", 20, 512)


def event(target: str = "/v1/jobs", *, body: bytes = b"", **headers: str) -> dict[str, Any]:
    return http_event(
        match=Match(None, "POST /v1/{what}", {"what": "jobs"}),
        method="POST",
        target=target,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=body,
        source_ip="127.0.0.1",
        request_id="r-1",
        now=1_790_000_000.123,
    )


def test_an_http_event_is_api_gateway_s() -> None:
    made = APIGatewayProxyEventV2(
        event("/v1/jobs?a=1&a=%C3%A9+x&b=", host="127.0.0.1:8787", user_agent="curl/8", cookie="a=1; b=2")
    )
    assert (made.version, made.route_key, made.raw_path) == ("2.0", "POST /v1/{what}", "/v1/jobs")
    assert made.raw_query_string == "a=1&a=%C3%A9+x&b="
    assert made.query_string_parameters == {"a": "1,é x", "b": ""}
    assert made.path_parameters == {"what": "jobs"}
    assert made.cookies == ["a=1", "b=2"]
    assert "cookie" not in made.headers
    context = made.request_context
    assert (context.http.method, context.http.path, context.http.source_ip) == (
        "POST",
        "/v1/jobs",
        "127.0.0.1",
    )
    assert (context.http.user_agent, context.domain_name) == ("curl/8", "127.0.0.1:8787")
    assert (context.request_id, context.stage, context.time_epoch) == ("r-1", "$default", 1_790_000_000_123)
    assert context.time == "21/Sep/2026:14:13:20 +0000"


def test_without_query_body_or_parameters_they_are_absent() -> None:
    made = http_event(
        match=Match(None, "GET /health", {}),
        method="GET",
        target="/health",
        headers={},
        body=b"",
        source_ip="::1",
        request_id="r",
        now=0,
    )
    assert made.keys().isdisjoint({"pathParameters", "queryStringParameters", "body", "cookies"})
    assert made["isBase64Encoded"] is False


def test_json_travels_as_text_and_all_else_as_base64() -> None:
    text = event(body='{"é":1}'.encode(), content_type="application/json; charset=utf-8")
    assert (text["body"], text["isBase64Encoded"]) == ('{"é":1}', False)
    for headers in (
        {"content_type": "application/octet-stream"},
        {"content_type": "application/json", "content_encoding": "gzip"},
        {},
    ):
        made = event(body=b"{}", **headers)
        assert (base64.b64decode(made["body"]), made["isBase64Encoded"]) == (b"{}", True)
    broken = event(body=b'{"\xff":1}', content_type="application/json")
    assert (base64.b64decode(broken["body"]), broken["isBase64Encoded"]) == (b'{"\xff":1}', True)


def test_an_http_event_is_json() -> None:
    assert json.loads(json.dumps(event("/a?b=c", body=b"\x00\xff")))["rawPath"] == "/a"


def test_an_sqs_event_is_sqs_s() -> None:
    made = SQSEvent(sqs_event("lease", [Message("7", {"job": "é"}, "7.2", 2)], 5))
    (record,) = made.records
    assert (record.message_id, record.receipt_handle) == ("7", "7.2")
    assert json.loads(record.body) == {"job": "é"}
    assert record.attributes.approximate_receive_count == "2"
    assert record.queue_url.endswith("/lease")


def test_the_context_says_what_lambda_s_says() -> None:
    context = LambdaContext(FUNCTION, "r-1")
    assert (context.function_name, context.memory_limit_in_mb, context.aws_request_id) == (
        "JobsCreate",
        512,
        "r-1",
    )
    assert context.invoked_function_arn.endswith(":function:JobsCreate")
    assert context.log_group_name == "/aws/lambda/JobsCreate"
    assert 0 < context.get_remaining_time_in_millis() <= 20_000


def test_request_ids_differ() -> None:
    assert len({new_request_id() for _ in range(100)}) == 100
