"""The log of a local bus."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from interlock.local import logs

REQUEST = {"method": "POST", "path": "/v1", "status": 201, "ms": 0.0, "actor": None, "request_id": "r-1"}


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("interlock")
    handlers, level, own_level = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(own_level)


def test_a_request_is_one_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("human")
    logging.getLogger("interlock").info("request", extra=REQUEST)
    assert re.fullmatch(r"\d\d:\d\d:\d\d POST /v1 201 0\.0 ms - r-1\n", capsys.readouterr().err)


def test_other_records_keep_their_level_message_and_trace(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("human")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("interlock.loops").exception("it failed")
    written = capsys.readouterr().err
    assert "error interlock.loops: it failed\nTraceback" in written
    assert "ValueError: why" in written


def test_json_lines_carry_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    logging.getLogger("interlock").info("request", extra=REQUEST)
    logging.getLogger("interlock").error(
        "bad", exc_info=ValueError("why"), extra={"operation": "jobs.create"}
    )
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert {name: first[name] for name in REQUEST} == REQUEST
    assert (first["message"], first["level"], first["service"]) == ("request", "INFO", "interlock")
    assert (second["operation"], "ValueError: why" in second["exception"]) == ("jobs.create", True)


def test_a_full_queue_of_requests_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("human")
    logging.getLogger("waitress.queue").warning("Task queue depth is 1")
    assert capsys.readouterr().err == ""
