"""`interlock mcp`, the program and its lines: it speaks protocol and says nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from tests.unit.cli_mcp import GONE, LIMIT, answers, asks, fine, proxy
from tests.unit.cli_stub import AGENT, OWNER, Stub, serving

from interlock.cli import stdio
from interlock.cli.relay import Relay
from interlock.cli.settings import Settings

PROGRAM = [sys.executable, "-m", "interlock.cli.main", "mcp"]


def environment(url: str | None, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    named = {"INTERLOCK_URL": url} if url else {}
    return {**clean, "INTERLOCK_JSON": "1", **named, **more}


def run(
    stdin: bytes, url: str | None, *args: str, cwd: Any = None, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """The program itself, from its start to its end."""
    return subprocess.run(
        [*PROGRAM, *args],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=LIMIT,
        cwd=cwd,
        env=environment(url, **more),
    )


def start(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(url, INTERLOCK_TOKEN=AGENT),
    )


def close(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """What a process that is about to end answers: its code, and the rest of what it printed."""
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def test_standard_output_is_protocol_byte_for_byte() -> None:
    said = b"".join(
        [
            b'{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n',
            b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
            b'{"jsonrpc":"2.0","id":9,"result":{}}\n',
            b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}\n',
            b"\n \r\n",
            b"nonsense\r\n",
        ]
    )
    heard = [
        b'{"jsonrpc":"2.0","id":"a","result":{"protocolVersion":"2025-06-18"}}\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Expecting value at line 1 column 1"}}\n',
    ]
    with serving(Stub(fine)) as stub:
        done = run(said, stub.url, INTERLOCK_TOKEN=AGENT)
    assert sorted(done.stdout.splitlines(keepends=True)) == heard
    assert (done.returncode, done.stderr) == (0, b"")
    assert [one.body["method"] for one in stub.asked] == ["initialize"]
    assert [one.path for one in stub.asked] == ["/mcp"]


def test_the_credential_is_the_agent_s() -> None:
    line = json.dumps(asks(1)).encode()
    with serving(Stub(fine)) as stub:
        run(line, stub.url, INTERLOCK_TOKEN=AGENT, INTERLOCK_OWNER_TOKEN=OWNER)
        run(line, stub.url, "--as", "owner", INTERLOCK_TOKEN=AGENT, INTERLOCK_OWNER_TOKEN=OWNER)
    assert [one.token for one in stub.asked] == [AGENT, OWNER]


def test_the_credential_can_come_from_the_folder(tmp_path: Any) -> None:
    (tmp_path / ".interlock").mkdir()
    with serving(Stub(fine)) as stub:
        kept = {"url": stub.url, "owner_token": OWNER, "agent_token": AGENT}
        (tmp_path / ".interlock" / "credentials.json").write_text(json.dumps(kept))
        done = run(json.dumps(asks(1)).encode(), None, cwd=tmp_path)
    assert json.loads(done.stdout)["result"] == {"did": "ping"}
    assert stub.asked[0].token == AGENT


@pytest.mark.parametrize(
    ("url", "args", "token", "code", "said"),
    [
        (None, (), AGENT, 2, b"no bus is known here"),
        ("gopher://bus", (), AGENT, 2, b"not the address of a bus"),
        (GONE, (), "", 5, b"no credential is known here"),
        (GONE, (), "two words", 5, b"not one line of printable ASCII"),
        (GONE, ("--token-stdin",), AGENT, 2, b"--token-stdin"),
        (GONE, ("--as", "nobody"), AGENT, 2, b"--as is agent or owner"),
    ],
)
def test_what_cannot_begin_ends_by_the_table_and_says_why_on_standard_error(
    tmp_path: Any, url: str | None, args: tuple[str, ...], token: str, code: int, said: bytes
) -> None:
    more = {"INTERLOCK_TOKEN": token} if token else {}
    done = run(b"", url, *args, cwd=tmp_path, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path), **more)
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quietly_whatever_is_under_way(number: int) -> None:
    arrived, let_go = threading.Event(), threading.Event()

    def slowly(asked: Any) -> Any:
        arrived.set()
        let_go.wait(LIMIT)
        return fine(asked)

    with serving(Stub(slowly)) as stub:
        process = start(stub.url)
        assert process.stdin
        process.stdin.write(json.dumps(asks(1)).encode() + b"\n")
        process.stdin.flush()
        assert arrived.wait(LIMIT)
        process.send_signal(number)
        code = process.wait(LIMIT)
        let_go.set()
        assert (code, *close(process)[1:]) == (0, b"", b"")


def test_it_ends_quietly_when_nobody_reads_any_more() -> None:
    with serving(Stub(fine)) as stub:
        process = start(stub.url)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(json.dumps(asks(1)).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(LIMIT) == 0
        assert process.stderr.read() == b""
        process.stderr.close()
        process.stdin.close()


def test_it_starts_with_nothing_heavy() -> None:
    heavy = {
        "boto3", "botocore", "rich", "yaml", "sqlite3", "aws_lambda_powertools", "waitress", "mcp", "httpx",
        "interlock.app.call", "interlock.store", "interlock.edges.models", "interlock.edges.mcp.protocol",
    }  # fmt: skip
    code = f"""
import sys
from interlock.cli.main import build
try:
    build()(["mcp"])
except SystemExit:
    pass
print(sorted({heavy!r} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(asks(1)).encode(),
        capture_output=True,
        check=True,
        env=environment(GONE, INTERLOCK_TOKEN=AGENT),
    )
    assert json.loads(done.stdout)["error"]["code"] == -32603, "it has served"
    assert done.stderr.splitlines()[-1] == b"[]"


def test_help_shows_a_client_s_configuration() -> None:
    done = run(b"", None, "--help")
    assert done.returncode == 0
    for word in (b'"mcpServers"', b'"args": ["mcp"]', b"INTERLOCK_URL", b"INTERLOCK_TOKEN"):
        assert word in done.stdout
    assert b"--token-stdin" not in done.stdout


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b"{", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', None, -32700),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', None, -32700),
        (b"[" * 100 + b"]" * 100, None, -32700),
        (b"[]", None, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, -32600),
        (b"5", None, -32600),
        (b'{"id":3,"method":"ping"}', 3, -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":4}', 3, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}', 3, -32602),
    ],
)
def test_what_is_no_request_is_refused_here(line: bytes, number: Any, code: int) -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        heard = mcp.ask(line + b"\n")
        assert (heard["id"], heard["error"]["code"]) == (number, code)
        assert mcp.ask(asks(2))["result"] == {"did": "ping"}
        assert len(stub.asked) == 1


@pytest.mark.parametrize("length", [101, 200, 1_000_000])
def test_a_line_that_is_too_long_is_skipped(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(stdio, "LINE_BYTES", 100)
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        heard = mcp.ask(b"x" * length + b"\n" + json.dumps(asks(2)).encode() + b"\n")
        assert (heard["id"], heard["error"]["code"]) == (None, -32600)
        assert heard["error"]["message"] == "a message is longer than 100 bytes"
        assert mcp.hear()["id"] == 2
        mcp.say(b"y" * length)
        (last,) = mcp.end()
        assert last["error"]["code"] == -32600


def test_a_line_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps(asks(1)).encode()
    monkeypatch.setattr(stdio, "LINE_BYTES", len(line))
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        assert "result" in mcp.ask(line + b"\n")
        assert "error" in mcp.ask(b" " + line + b"\n")


def test_pieces_of_lines_are_put_together() -> None:
    whole = b"".join(json.dumps(asks(number)).encode() + b"\n" for number in range(3))
    for size in (1, 7, len(whole)):
        pieces = iter([whole[at : at + size] for at in range(0, len(whole), size)])
        found = list(stdio.lines(lambda _, left=pieces: next(left, b"")))  # type: ignore[misc]
        assert [json.loads(line or b"")["id"] for line in found] == [0, 1, 2]


def test_an_input_that_breaks_has_ended() -> None:
    def broken(_: int) -> bytes:
        raise OSError("gone")

    assert list(stdio.lines(broken)) == []


def test_the_last_line_needs_no_end() -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.say(json.dumps(asks(8)).encode())
        (heard,) = mcp.end()
    assert (heard["id"], "result" in heard) == (8, True)


def test_an_input_that_ends_in_mid_message() -> None:
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.say(json.dumps(asks(8)).encode()[:-3])
        (heard,) = mcp.end()
        assert stub.asked == []
    assert (heard["id"], heard["error"]["code"]) == (None, -32700)


def test_what_was_asked_is_answered_after_the_input_has_ended() -> None:
    count = 3 * stdio.AT_ONCE
    with serving(Stub(fine)) as stub, proxy(stub) as mcp:
        mcp.say(*(asks(number) for number in range(count)))
        assert sorted(heard["id"] for heard in mcp.end()) == list(range(count))


def test_a_reader_that_is_gone_ends_it() -> None:
    def gone(_: bytes) -> int:
        raise BrokenPipeError

    never = threading.Event()
    stop = threading.Event()
    first = iter([b"nonsense\n"])

    def read(_: int) -> bytes:
        line = next(first, None)
        if line is None:
            assert never.wait(LIMIT), "it should have ended by now"
        return line or b""

    try:
        stdio.serve(Relay(Settings(GONE, "default", "", AGENT), "agent"), read, gone, stop)
        assert stop.is_set()
    finally:
        never.set()


def test_a_write_that_does_less_goes_on() -> None:
    written = bytearray()

    def slowly(data: bytes) -> int:
        written.extend(data[:3])
        return min(3, len(data))

    stdio.Output(slowly, threading.Event()).say([asks(1), asks(2)])
    assert [json.loads(line)["id"] for line in bytes(written).splitlines()] == [1, 2]


def test_a_slow_request_does_not_hold_up_a_ping() -> None:
    let_go = threading.Event()

    def slowly(asked: Any) -> Any:
        if asked.body["method"] != "ping":
            let_go.wait(LIMIT)
        return fine(asked)

    slow = {f"slow {number}" for number in range(8)}
    with serving(Stub(slowly)) as stub, proxy(stub) as mcp:
        mcp.say(*(asks(name, "tools/list") for name in slow))
        assert mcp.ask(asks("ping"))["id"] == "ping"
        let_go.set()
        assert {heard["id"] for heard in mcp.end()} == slow


def test_lines_are_never_torn() -> None:
    filling = "x" * 100_000

    def much(asked: Any) -> Any:
        number = asked.body["id"]
        return 200, {"jsonrpc": "2.0", "id": number, "result": {"text": filling + str(number)}}

    with serving(Stub(much)) as stub, proxy(stub) as mcp:
        mcp.say(*(asks(number) for number in range(60)))
        found = {}
        for _ in range(60):
            heard = mcp.hear()
            found[heard["id"]] = heard["result"]["text"]
        assert found == {number: filling + str(number) for number in range(60)}


def test_an_event_stream_comes_out_as_lines() -> None:
    done = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}

    def stream(asked: Any) -> Any:
        answer = json.dumps(answers(asked), indent=1).replace("\n", "\ndata: ")
        text = f": hello\r\n\r\nevent: message\r\ndata: {json.dumps(done)}\r\n\r\nid: 4\ndata:{answer}\n\n"
        return 200, text.encode(), {"Content-Type": "text/event-stream; charset=utf-8"}

    with serving(Stub(stream)) as stub, proxy(stub) as mcp:
        assert mcp.ask(asks(3)) == done
        assert mcp.hear() == {"jsonrpc": "2.0", "id": 3, "result": {"did": "ping"}}
        assert mcp.end() == []
