"""What a finished command means: the object it printed last, and the tail of what it said."""

import json

import pytest

from interlock.cli.result import failure, last_object
from interlock.domain import limits


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b"", None),
        (b"hello\n", None),
        (b'{"a": 1}', {"a": 1}),
        (b'{"a": 1}\n{"b": 2}\n', {"b": 2}),
        (b'{"a": 1}\nbye\n', {"a": 1}),
        (b'{"a": 1} trailing\n', None),
        (b'{"a": 1}\n{"b": \n', {"a": 1}),
        (b'log {"a": 1}\n', None),
        (b'[{"a": 1}]\n', None),
        (b"[\n{\n}\n]\n", {}),
        (json.dumps({"a": {"b": [{"c": 1}]}}, indent=2).encode(), {"a": {"b": [{"c": 1}]}}),
        (b'{"a": 1}\n{"n": NaN}\n', {"a": 1}),
        ('{"ü": "\U0001f600"}\n'.encode(), {"ü": "\U0001f600"}),
        (b"\xff\xfe\n" + b'{"a": 1}\r\n', {"a": 1}),
        (b'{"a":' * 5_000, None),
    ],
)
def test_the_object_printed_last(output, found):
    assert last_object(output) == found


def test_a_failure_carries_the_exit_code_and_the_end_of_the_errors():
    reason, data = failure(3, b"out", b"x" * 50_000 + b"the end\n")
    assert reason.startswith("exit code 3: ")
    assert reason.endswith("the end")
    assert len(reason) <= limits.REASON_CHARACTERS
    assert data["exit_code"] == 3
    assert data["tail"].endswith("the end")


def test_without_errors_the_output_speaks():
    assert failure(1, b"only here", b" \n")[0] == "exit code 1: only here"
    assert failure(2, b"", b"")[0] == "exit code 2"


def test_a_nul_does_not_stop_a_failure():
    assert "\0" not in failure(1, b"", b"a\0b")[0]


def test_an_unknown_signal_is_a_number():
    assert failure(-250, b"", b"")[0] == "ended by signal 250"
