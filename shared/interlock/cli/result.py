"""What a finished command means for its job: the JSON object it printed last, or why it failed."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

from interlock.domain import limits

_START = re.compile(r"^\{", re.MULTILINE)
_REASON = limits.REASON_CHARACTERS - 200
"""Characters of the output in a reason; the rest is for the sentence around it."""
_DATA = 8_000


def last_object(output: bytes) -> dict[str, Any] | None:
    """The JSON object that was printed last: on a line of its own, or over several beginning at a line's start."""
    text = output.decode("utf-8", "replace")
    decoder = json.JSONDecoder(parse_constant=_not_json)
    for start in reversed([found.start() for found in _START.finditer(text)]):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        rest = text[end:].partition("\n")[0]
        if isinstance(value, dict) and not rest.strip():
            return value
    return None


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def failure(code: int, stdout: bytes, stderr: bytes) -> tuple[str, dict[str, Any]]:
    """(reason, data) of a job whose command ended with ``code``: the tail of what it said."""
    how = f"exit code {code}" if code >= 0 else f"ended by signal {_signal(-code)}"
    said = (stderr if stderr.strip() else stdout).decode("utf-8", "replace").replace("\0", "\\0").strip()
    reason = f"{how}: {said[-_REASON:]}" if said else how
    return reason, {"exit_code": code, "tail": said[-_DATA:]}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
