"""The HTTP server: what reaches a handler, what comes back, what it refuses by itself."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import CODES, InterlockError
from interlock.local import gateway
from interlock.local import server as servers
from interlock.local.gateway import Target
from interlock.local.routing import Router
from interlock.local.server import PortBusyError, Server
from interlock.local.template import Function

FUNCTION = Function("Echo", Path("echo.py"), "handler", 20, 256)


class Bench:
    """A server over one handler that tests replace, and what the handler was given."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda event: {
            "statusCode": 200,
            "headers": {"content-type": "application/json"},
            "body": json.dumps(event),
        }
        self.before: Callable[[], object] = lambda: None
        target = Target(FUNCTION, self._handle)
        routes = [
            ("POST", "/echo/{name}", target),
            ("GET", "/echo/{name}", target),
            ("GET", "/only", target),
            ("ANY", "$default", Target(FUNCTION, lambda event, _: {"statusCode": 404, "body": "none"})),
        ]
        self.server = Server(servers.bind("127.0.0.1", 0), Router(routes), before=self._before, threads=4)
        self.port = int(self.server.url.rpartition(":")[2])
        self.server.start()

    def _before(self) -> None:
        self.before()

    def _handle(self, event: dict[str, Any], context: Any) -> Any:
        assert context.aws_request_id == event["requestContext"]["requestId"]
        self.events.append(event)
        return self.answer(event)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, {n.replace("_", "-"): v for n, v in headers.items()})
            response = connection.getresponse()
            return response.status, {n.lower(): v for n, v in response.getheaders()}, response.read()

    def raw(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(data)
            received = b""
            while chunk := sock.recv(65536):
                received += chunk
            return received


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.server.close()


def problem(status: int, headers: dict[str, str], body: bytes, code: str) -> dict[str, Any]:
    assert status == CODES[code].status
    assert headers["content-type"].startswith("application/problem+json")
    found: dict[str, Any] = json.loads(body)
    assert found["code"] == code
    assert found["hint"]
    assert found["request_id"]
    return found


def raw_problem(answer: bytes, code: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    problem(int(lines[0].split()[1]), headers, body, code)
    assert headers["connection"] == "close"


def test_a_request_reaches_its_handler_as_an_event(bench: Bench) -> None:
    status, headers, body = bench.call(
        "POST",
        "/echo/a%20b?x=1",
        b'{"a":1}',
        Content_Type="application/json",
        X_Some="é".encode().decode("latin-1"),
    )
    event = json.loads(body)
    assert status == 200
    assert int(headers["content-length"]) == len(body)
    assert "date" in headers
    assert event["routeKey"] == "POST /echo/{name}"
    assert (event["rawPath"], event["rawQueryString"]) == ("/echo/a%20b", "x=1")
    assert event["pathParameters"] == {"name": "a b"}
    assert event["body"] == '{"a":1}'
    assert event["headers"]["content-type"] == "application/json"
    assert event["requestContext"]["http"]["sourceIp"] == "127.0.0.1"


def test_repeated_headers_are_joined(bench: Bench) -> None:
    bench.raw(b"GET /echo/a HTTP/1.1\r\nHost: x\r\nA-B: 1\r\nA-B: 2\r\nConnection: close\r\n\r\n")
    assert bench.events[0]["headers"]["a-b"].replace(" ", "") == "1,2"


@pytest.mark.parametrize("target", ["http://host:1/echo/a?b=c", "/echo/a?b=c#part"])
def test_absolute_targets_and_fragments(bench: Bench, target: str) -> None:
    bench.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert (bench.events[0]["rawPath"], bench.events[0]["rawQueryString"]) == ("/echo/a", "b=c")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "BREW"])
def test_unknown_methods_go_to_the_default_route(bench: Bench, method: str) -> None:
    assert bench.call(method, "/only")[0] == 404


def test_head_is_answered_without_a_body(bench: Bench) -> None:
    status, headers, body = bench.call("HEAD", "/only")
    assert (status, headers["content-length"], body) == (404, "4", b"")


def test_connections_are_kept_and_answers_come_in_order(bench: Bench) -> None:
    with contextlib.closing(bench.connect()) as connection:
        for number in range(50):
            connection.request("GET", f"/echo/{number}")
            assert json.loads(connection.getresponse().read())["pathParameters"] == {"name": str(number)}
    pipelined = b"".join(b"GET /echo/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(20))
    answers = bench.raw(pipelined + b"GET /only HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 21
    places = [answers.index(b'"/echo/%d"' % number) for number in range(20)]
    assert places == sorted(places)


def test_http_1_0_is_closed_unless_it_asks(bench: Bench) -> None:
    assert b"Connection: close" in bench.raw(b"GET /only HTTP/1.0\r\n\r\n")
    kept = b"GET /only HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    answers = bench.raw(kept + b"GET /only HTTP/1.0\r\n\r\n")
    assert answers.count(b"200 OK") == 2
    assert b"Connection: keep-alive" in answers


def test_gzip_bodies_are_decoded(bench: Bench) -> None:
    body = json.dumps({"a": "b" * 5000}).encode()
    for encoding in ("gzip", "GZIP", "x-gzip"):
        bench.call(
            "POST", "/echo/a", gzip.compress(body), Content_Type="application/json", Content_Encoding=encoding
        )
    for event in bench.events:
        assert event["body"].encode() == body
        assert "content-encoding" not in event["headers"]
        assert event["headers"]["content-length"] == str(len(body))


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"{}")[:-4], gzip.compress(b"{}") + b"x", b""],
    ids=["none", "cut", "more", "empty"],
)
def test_broken_gzip_is_refused(bench: Bench, body: bytes) -> None:
    answer = bench.call("POST", "/echo/a", body, Content_Type="application/json", Content_Encoding="gzip")
    if body:
        problem(*answer, "malformed_request")
    else:
        assert answer[0] == 200  # nothing was encoded


def test_other_encodings_are_refused(bench: Bench) -> None:
    found = problem(*bench.call("POST", "/echo/a", b"x", Content_Encoding="br"), "malformed_request")
    assert "br" in found["detail"]


def test_the_limit_counts_decoded_bytes(bench: Bench) -> None:
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    assert len(bomb) < gateway.BODY_BYTES
    problem(*bench.call("POST", "/echo/a", bomb, Content_Encoding="gzip"), "too_large")
    assert not bench.events


def test_chunked_bodies_are_joined(bench: Bench) -> None:
    chunks = [b'{"a"', b":", b"1}"]
    bench.call("POST", "/echo/a", iter(chunks), Content_Type="application/json")
    assert bench.events[0]["body"] == '{"a":1}'


def test_bodies_at_the_limit_pass_and_larger_ones_are_refused(bench: Bench) -> None:
    bench.answer = lambda event: {"statusCode": 200, "body": str(len(event["body"]))}
    fits = b"x" * gateway.BODY_BYTES
    assert bench.call("POST", "/echo/a", fits, Content_Type="text/plain")[2] == str(len(fits)).encode()
    problem(*bench.call("POST", "/echo/a", fits + b"x", Content_Type="text/plain"), "too_large")
    chunks = iter([fits, b"x"])
    problem(*bench.call("POST", "/echo/a", chunks), "too_large")
    problem(*bench.call("POST", "/echo/a", b"x" * (8 * 1024 * 1024)), "too_large")


def test_who_asks_before_sending_is_answered_at_once(bench: Bench) -> None:
    head = (
        b"POST /echo/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: "
    )
    raw_problem(bench.raw(head + b"2000000\r\n\r\n"), "too_large")
    raw_problem(bench.raw(head + b"200000000\r\n\r\n"), "too_large")
    accepted = bench.raw(head + b"2\r\n\r\n{}")
    assert accepted.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"GET /only HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 40_000 + b"\r\n\r\n", "headers_too_large"),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", "headers_too_large"),
        (b"nonsense\r\n\r\n", "malformed_request"),
        (b"get /only HTTP/1.1\r\nHost: x\r\n\r\n", "malformed_request"),
        (b"GET /only HTTP/1.1\r\nno colon\r\n\r\n", "malformed_request"),
        (b"GET /only HTTP/1.1\r\nA: 1\x00\r\n\r\n", "malformed_request"),
        (b"POST /echo/a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "malformed_request"),
        (b"POST /echo/a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "malformed_request"),
        (b"POST /echo/a HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx", "malformed_request"),
        (b"POST /echo/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed_request"),
        (b"POST /echo/a HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n", "too_large"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_bus_s_words(
    bench: Bench, request_bytes: bytes, code: str
) -> None:
    raw_problem(bench.raw(request_bytes), code)
    assert not bench.events
    assert bench.call("GET", "/only")[0] == 200


def test_a_handler_that_crashes_is_a_500_with_a_request_id(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(_: dict[str, Any]) -> Any:
        raise OSError("secret detail")

    bench.answer = crash
    with contextlib.closing(bench.connect()) as connection:
        for _ in range(2):  # the connection lives on
            connection.request("GET", "/only")
            response = connection.getresponse()
            body = response.read()
            headers = {n.lower(): v for n, v in response.getheaders()}
            found = problem(response.status, headers, body, "internal")
            assert b"secret detail" not in body
    assert (
        any("secret detail" in (record.exc_text or "") for record in caplog.records)
        or "secret detail" in caplog.text
    )
    assert found["request_id"] in {getattr(record, "request_id", "") for record in caplog.records}


@pytest.mark.parametrize("answer", [None, {}, {"statusCode": "x"}, {"statusCode": 200, "body": 5}])
def test_a_handler_s_nonsense_is_a_500(bench: Bench, answer: Any) -> None:
    bench.answer = lambda _: answer
    problem(*bench.call("GET", "/only"), "internal")


def test_answers_carry_headers_cookies_and_binary_bodies(bench: Bench) -> None:
    bench.answer = lambda _: {
        "statusCode": 201,
        "headers": {"etag": '"v1"', "x-bad": "a\r\nset-cookie: b", "x-number": 5},
        "cookies": ["a=1", "b=2"],
        "body": "AP8=",
        "isBase64Encoded": True,
    }
    status, headers, body = bench.call("GET", "/only")
    assert (status, body) == (201, b"\x00\xff")
    assert (headers["etag"], headers["x-number"]) == ('"v1"', "5")
    assert "x-bad" not in headers
    with contextlib.closing(bench.connect()) as connection:
        connection.request("GET", "/only")
        assert connection.getresponse().headers.get_all("set-cookie") == ["a=1", "b=2"]


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(bench: Bench, status: int) -> None:
    bench.answer = lambda _: {"statusCode": status, "body": "ignored"}
    with contextlib.closing(bench.connect()) as connection:
        for _ in range(2):
            connection.request("GET", "/only")
            response = connection.getresponse()
            assert (response.status, response.read(), response.getheader("content-length")) == (
                status,
                b"",
                None,
            )


def test_before_runs_ahead_of_every_request_and_may_refuse(bench: Bench) -> None:
    seen: list[int] = []
    bench.before = lambda: seen.append(len(bench.events))
    bench.call("GET", "/only")
    bench.call("GET", "/only")
    assert seen == [0, 1]

    def refuse() -> None:
        raise InterlockError("store_unavailable", "not now", headers={"Retry-After": "1"})

    bench.before = refuse
    answer = bench.call("GET", "/only")
    problem(*answer, "store_unavailable")
    assert answer[1]["retry-after"] == "1"


def test_closing_finishes_the_requests_that_have_begun() -> None:
    bench = Bench()
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: dict[str, Any]) -> Any:
        begun.set()
        go_on.wait(20)
        return {"statusCode": 200, "body": "done"}

    bench.answer = slow
    answers: list[tuple[int, dict[str, str], bytes]] = []
    caller = threading.Thread(target=lambda: answers.append(bench.call("GET", "/only")))
    caller.start()
    assert begun.wait(20)
    closer = threading.Thread(target=bench.server.close)
    closer.start()
    with contextlib.suppress(ConnectionError):  # the listener goes first
        while True:
            socket.create_connection(("127.0.0.1", bench.port), timeout=20).close()
    go_on.set()
    caller.join(20)
    closer.join(20)
    ((status, headers, body),) = answers
    assert (status, body, headers["connection"]) == (200, b"done", "close")


def test_a_busy_port_is_named_with_the_way_out(bench: Bench) -> None:
    with pytest.raises(PortBusyError, match=rf"port {bench.port}.*--port"):
        servers.bind("127.0.0.1", bench.port)
    with pytest.raises(PortBusyError, match="--port"):
        servers.bind("127.0.0.1", 70_000)


def test_the_port_may_be_taken_between_binding_and_listening() -> None:
    first = servers.bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    server = Server(first, Router([]), before=lambda: None, threads=1)
    try:
        second = servers.bind("127.0.0.1", port)
    except PortBusyError:
        server.close()
        return  # this system does not let it come so far
    with second:
        second.listen()
        with pytest.raises(PortBusyError, match="--port"):
            server.start()
    server.close()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:"),
        ("0.0.0.0", "http://127.0.0.1:"),
        ("localhost", "http://127.0.0.1:"),
    ],
)
def test_the_url_can_be_called(host: str, url: str) -> None:
    server = Server(servers.bind(host, 0), Router([]), before=lambda: None, threads=1)
    assert server.url.startswith(url)
    server.close()


def test_many_clients_at_once(bench: Bench) -> None:
    wrong: list[object] = []

    def client(who: int) -> None:
        with contextlib.closing(bench.connect()) as connection:
            for number in range(40):
                connection.request(
                    "POST", f"/echo/{who}-{number}", b"{}", {"Content-Type": "application/json"}
                )
                answer = json.loads(connection.getresponse().read())
                if answer["pathParameters"] != {"name": f"{who}-{number}"}:
                    wrong.append(answer)

    threads = [threading.Thread(target=client, args=(who,)) for who in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert len(bench.events) == 640
