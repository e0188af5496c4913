"""Exit codes: one table, for every status the bus can answer; a refused call never prints success."""

import json

import pytest
from tests.unit.cli_stub import Stub, cli, problem, serving

from interlock.cli import client, exits
from interlock.errors import CODES

TABLE = {
    200: 0,
    201: 0,
    400: 1,
    404: 1,
    405: 1,
    413: 1,
    415: 1,
    422: 1,
    431: 1,
    500: 1,
    401: 5,
    403: 5,
    409: 4,
    412: 4,
    428: 4,
    429: 75,
    503: 75,
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.001)


@pytest.mark.parametrize(("status", "code"), TABLE.items())
def test_the_table(status, code):
    assert exits.of_status(status) == code


def test_every_status_of_the_error_table_is_in_the_test():
    assert {spec.status for spec in CODES.values()} <= TABLE.keys()


@pytest.mark.parametrize("code", CODES)
def test_a_refused_call_ends_with_its_code_and_prints_no_success(code):
    status = CODES[code].status
    with serving(Stub(lambda _: problem(status, code))) as stub:
        ended = cli("job", "complete", "job_1", "--fence", "3", url=stub.url)
    assert ended.code == TABLE[status]
    assert ended.out == ""
    assert f"said {code} ({code})" in ended.err
    assert "do that" in ended.err


@pytest.mark.parametrize("code", ["not_found", "lease_lost", "token_invalid", "throttled"])
def test_with_json_the_whole_problem_is_the_one_document(code):
    status = CODES[code].status
    with serving(Stub(lambda _: problem(status, code, errors=[{"path": "a", "message": "b"}]))) as stub:
        ended = cli("whoami", "--json", url=stub.url)
    assert ended.code == TABLE[status]
    assert ended.document["code"] == code
    assert ended.document["errors"] == [{"path": "a", "message": "b"}]
    assert "a: b" in ended.err


def test_an_unreachable_bus_is_75_and_says_how_to_start_one():
    ended = cli("status", "--json", url="http://127.0.0.1:9")
    assert ended.code == 75
    assert ended.document["exit"] == 75
    assert "interlock up" in ended.err


@pytest.mark.parametrize(
    "args",
    [
        ("job", "show"),
        ("job", "nonsense"),
        ("whoami", "--nonsense"),
        ("whoami", "--as", "king"),
        ("job", "complete", "job_1"),
        ("job", "publish", "x", "--role", "qa", "--context", "{"),
        ("job", "publish", "x", "--role", "qa", "--context", "[]"),
        ("job", "publish", "x", "--role", "qa", "--context", '{"a": 1, "a": 2}'),
        ("job", "publish", "x", "--role", "qa", "--context", "[" * 100_000),
        ("job", "publish", "x", "--role", "qa", "--context", '{"a": ' + "9" * 5_000 + "}"),
        ("job", "publish", "x", "--role", "qa", "--context", "@/nowhere/at/all"),
        ("job", "show", ".."),
        ("job", "show", ""),
        ("pause", "--role", "qa", "--agent", "agt_1"),
        ("work", "--", "no-such-command-anywhere"),
        ("whoami", "--token-stdin"),
        ("whoami", "--profile", "../x"),
        ("whoami", "--profile", "nobody"),
        ("whoami", "--url", "file:///etc/passwd"),
        ("whoami", "--url", "http://user:secret@host"),
    ],
)
def test_usage_is_2_before_anything_is_sent(args):
    with serving(Stub()) as stub:
        ended = cli(*args, url=stub.url)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err
    assert stub.asked == []


def test_what_is_not_a_bus_is_refused():
    with serving(Stub(lambda _: (200, b"<html>hello</html>"))) as stub:
        ended = cli("whoami", url=stub.url)
    assert ended.code == 75
    assert "not a JSON object" in ended.err


def test_an_answer_of_the_gateway_itself_is_read():
    with serving(Stub(lambda _: (403, {"message": "Forbidden"}))) as stub:
        ended = cli("whoami", "--json", url=stub.url)
    assert ended.code == 5
    assert json.loads(ended.out)["detail"] == "Forbidden"


def test_help_names_the_table():
    ended = cli("--help", token=None)
    assert ended.code == 0
    assert "3 nothing to claim" in ended.out.replace("\n ", "")
