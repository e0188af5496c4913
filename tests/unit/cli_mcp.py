"""The stdio server of MCP in this process, and what a stub bus answers it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
from collections.abc import Iterator
from typing import Any

from tests.unit.cli_stub import AGENT, Stub

from interlock.cli import stdio
from interlock.cli.relay import Relay
from interlock.cli.settings import Settings

LIMIT = 60.0
"""Seconds after which something that should have happened has not."""
GONE = "http://127.0.0.1:9"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOLS = [
    {
        "name": "publish_job",
        "inputSchema": {"type": "object", "properties": {"idempotency_key": {"type": "string"}}},
        "annotations": {"readOnlyHint": False, "idempotentHint": False},
    },
    {"name": "whoami", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "heartbeat", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
    {"name": "roll_dice", "inputSchema": {"type": "object", "properties": {}}},
]


def asks(number: Any, method: str = "ping", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def answers(asked: Any) -> dict[str, Any]:
    """What a bus answers that finds everything in order."""
    result: dict[str, Any] = {"did": asked.body["method"]}
    if asked.body["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18"}
    if asked.body["method"] == "tools/list":
        result = {"tools": TOOLS}
    return {"jsonrpc": "2.0", "id": asked.body["id"], "result": result}


def fine(asked: Any) -> tuple[int, dict[str, Any]]:
    return 200, answers(asked)


class Proxy:
    """The stdio server in this process: what is said to it, and what it says."""

    def __init__(self, url: str, wait: Any = None) -> None:
        self.waited: list[float] = []
        self.source, self._input = os.pipe()
        self._output, self.target = os.pipe()
        self.stop = threading.Event()
        bus = Relay(Settings(url, "default", "", AGENT), "agent", wait or self._wait)
        self._thread = threading.Thread(
            target=stdio.serve,
            args=(
                bus,
                lambda size: os.read(self.source, size),
                lambda data: os.write(self.target, data),
                self.stop,
            ),
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._thread.start()
        self._reader.start()

    def _wait(self, cancelled: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        return cancelled.is_set()

    def _read(self) -> None:
        with os.fdopen(self._output, "rb") as output:
            for line in output:
                self._lines.put(line)

    def say(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            view = memoryview(line)
            while view:
                view = view[os.write(self._input, view) :]

    def hear(self) -> Any:
        return json.loads(self._lines.get(timeout=LIMIT))

    def ask(self, message: Any) -> Any:
        self.say(message)
        return self.hear()

    def end(self) -> list[Any]:
        """Close the input, wait for the end, answer what was not heard yet."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1
            self._thread.join(LIMIT)
            assert not self._thread.is_alive()
            os.close(self.source)
            os.close(self.target)
            self._reader.join(LIMIT)
        rest = []
        while not self._lines.empty():
            rest.append(json.loads(self._lines.get()))
        return rest


@contextlib.contextmanager
def proxy(stub: Stub | str, wait: Any = None) -> Iterator[Proxy]:
    made = Proxy(stub if isinstance(stub, str) else stub.url, wait)
    try:
        yield made
    finally:
        made.end()
