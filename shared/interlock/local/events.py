"""Events as AWS makes them (API Gateway HTTP API v2.0, DynamoDB Streams, SQS), and the Lambda context."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from interlock.local.routing import Match
from interlock.local.template import Function
from interlock.store.aws.wire import value_to_wire
from interlock.store.ports import Change, Message

REGION = "local"
ACCOUNT = "000000000000"
_TEXT = ("application/json", "application/xml", "application/javascript")
_PROCESS = os.urandom(6).hex()
_COUNTER = itertools.count(1)


def new_request_id() -> str:
    """An id that no other request of this or another start has."""
    return f"{_PROCESS}-{next(_COUNTER):08x}"


class LambdaContext:
    """What a Lambda function learns about its invocation."""

    __slots__ = ("_ends", "_function", "aws_request_id")
    function_version = "$LATEST"
    log_stream_name = "local"

    def __init__(self, function: Function, request_id: str) -> None:
        self._function = function
        self._ends = time.monotonic() + function.timeout
        self.aws_request_id = request_id

    @property
    def function_name(self) -> str:
        """The function's logical name in template.yaml."""
        return self._function.name

    @property
    def memory_limit_in_mb(self) -> int:
        """What the function would have on AWS."""
        return self._function.memory

    @property
    def invoked_function_arn(self) -> str:
        """An address of the form that AWS uses."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self._function.name}"

    @property
    def log_group_name(self) -> str:
        """Where AWS would keep the function's log."""
        return f"/aws/lambda/{self._function.name}"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until AWS would end the invocation; here nothing ends it."""
        return max(0, int((self._ends - time.monotonic()) * 1000))


def http_event(
    *,
    match: Match[Any],
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes,
    source_ip: str,
    request_id: str,
    now: float,
) -> dict[str, Any]:
    """An API Gateway HTTP API event, payload version 2.0.

    ``target`` is the request's path and query as sent, ``headers`` have lower-case names; ``now`` in seconds.
    """
    path, _, query = target.partition("?")
    host = headers.get("host", "localhost")
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": match.key,
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "local",
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "routeKey": match.key,
            "stage": "$default",
            "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
            "timeEpoch": int(now * 1000),
        },
        "isBase64Encoded": False,
    }
    if match.parameters:
        event["pathParameters"] = match.parameters
    if query:
        event["queryStringParameters"] = _query_parameters(query)
    if "cookie" in headers:
        event["cookies"] = headers.pop("cookie").split("; ")
    if body:
        event["body"], event["isBase64Encoded"] = _body(body, headers)
    return event


def _query_parameters(query: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def _body(body: bytes, headers: Mapping[str, str]) -> tuple[str, bool]:
    """(body, whether it is base64): text types travel as text when they are UTF-8, all else as base64."""
    kind = headers.get("content-type", "")
    if kind.startswith(("text/", *_TEXT)) and "content-encoding" not in headers:
        try:
            return body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), True


def stream_event(changes: Sequence[Change], now: int) -> dict[str, Any]:
    """A DynamoDB Streams event with new and old images; ``now`` in ms. A record's number is its position."""
    return {"Records": [_stream_record(change, now / 1000) for change in changes]}


def _stream_record(change: Change, at: float) -> dict[str, Any]:
    stream = {
        "ApproximateCreationDateTime": at,
        "Keys": {"pk": {"S": change.key.pk}, "sk": {"S": change.key.sk}},
        "NewImage": _image(change.new),
        "SequenceNumber": change.position,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    if change.old is not None:
        stream["OldImage"] = _image(change.old)
    return {
        "eventID": change.position,
        "eventName": "INSERT" if change.old is None else "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": stream,
        "eventSourceARN": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/interlock/stream/local",
    }


def _image(item: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: _typed(value) for name, value in item.items()}


def _typed(value: Any) -> dict[str, Any]:
    """A value as a stream's record holds it: like a request's, but bytes are base64 text."""
    if isinstance(value, bytes):
        return {"B": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"M": _image(value)}
    if isinstance(value, list):
        return {"L": [_typed(part) for part in value]}
    return value_to_wire(value)


def sqs_event(queue: str, messages: Sequence[Message], now: int) -> dict[str, Any]:
    """An SQS event; ``now`` in ms."""
    records = []
    for message in messages:
        body = json.dumps(message.body, ensure_ascii=False, separators=(",", ":"))
        records.append(
            {
                "messageId": message.id,
                "receiptHandle": message.receipt,
                "body": body,
                "attributes": {
                    "ApproximateReceiveCount": str(message.receives),
                    "SentTimestamp": str(now),
                    "SenderId": ACCOUNT,
                    "ApproximateFirstReceiveTimestamp": str(now),
                },
                "messageAttributes": {},
                "md5OfBody": hashlib.md5(
                    body.encode("utf-8", "surrogatepass"), usedforsecurity=False
                ).hexdigest(),
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
                "awsRegion": REGION,
            }
        )
    return {"Records": records}
