"""Two coding clients from npm, connected as `interlock agent connect` does it, list the tools and call one.

``python -m tests.conformance.clients CLAUDE OPENCODE`` takes the programs of the npm packages ``@anthropic-ai/claude-code`` and
``opencode-ai``. No model is asked: a small server on the loopback plays one. It answers a conversation with a call of
`publish_job`, and the answer to that with a last word; what matters is that the client itself finds the tool, sends its
arguments over MCP, with its token, and hands the result back. The bus then says who published what.

Everything happens in a temporary folder that is also the clients' home, and ends with the script.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from interlock.cli.client import Client
from interlock.cli.demo import crew
from interlock.cli.settings import Settings

LIMIT = 120
"""Seconds for one client's run."""
TOOL = "publish_job"
SUMMARY = "Published by {client}"
LAST_WORD = "It is published."
MODEL = "claude-sonnet-4-5"


class Model:
    """A model that calls :data:`TOOL` once. ``seen`` is what it was sent: the tools, and the results of its calls."""

    def __init__(self) -> None:
        self.tools: set[str] = set()
        self.results: list[str] = []
        self.arguments: dict[str, Any] = {}
        self.url = ""

    def answer(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The blocks of the next message."""
        names = [str(tool.get("name")) for tool in request.get("tools") or ()]
        self.tools |= set(names)
        results = [
            block
            for message in request.get("messages") or ()
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        if results:
            self.results.append(json.dumps(results[-1]["content"]))
        wanted = next((name for name in names if name.endswith(TOOL)), None)
        if results or wanted is None:
            return [{"type": "text", "text": LAST_WORD}]
        return [{"type": "tool_use", "id": "toolu_1", "name": wanted, "input": self.arguments}]


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    """The model behind the Messages API, as far as the clients use it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            request = json.loads(self.rfile.read(size) or b"{}")
            if not self.path.split("?")[0].endswith("/messages"):
                self._send("application/json", b'{"input_tokens": 1}')
            elif request.get("stream"):
                events = _events(model.answer(request))
                text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
                self._send("text/event-stream", text.encode())
            else:
                self._send("application/json", json.dumps(_message(model.answer(request))).encode())

        def do_GET(self) -> None:
            self._send("application/json", b"{}")

        do_HEAD = do_GET

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


def _message(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(blocks),
        "stop_reason": "tool_use" if blocks[0]["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same message as a stream of one block."""
    whole, (block,) = _message(blocks), blocks
    called = block["type"] == "tool_use"
    empty = {**block, "input": {}} if called else {"type": "text", "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if called
        else {"type": "text_delta", "text": block["text"]}
    )
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


class Place:
    """A folder in which a client lives: its home, its project, its environment."""

    def __init__(self, root: Path, client: str, greeting: Mapping[str, Any]) -> None:
        self.client, self.folder = client, root / client
        self.folder.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {
            **kept,
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "home" / ".config"),
            "XDG_DATA_HOME": str(self.folder / "home" / ".local"),
            "TMPDIR": str(self.folder),
            "HTTPS_PROXY": "http://127.0.0.1:9",  # whatever is not on this machine is refused
            "NO_PROXY": "127.0.0.1,localhost",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "NO_COLOR": "1",
        }
        (self.folder / "home").mkdir()
        owner = {"INTERLOCK_URL": greeting["url"], "INTERLOCK_TOKEN": greeting["owner_token"]}
        connected = self.run(
            [*crew.PROGRAM, "agent", "connect", client, "--as", f"{client}-agent", "--write", "--json"], owner
        )
        secret = json.loads(connected)["written"][0]
        lines = Path(secret).read_text(encoding="utf-8").splitlines()
        self.environment |= dict(line.split("=", 1) for line in lines)

    def run(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> str:
        """What a command prints; it must end well."""
        done = subprocess.run(
            [*command],
            cwd=self.folder,
            env={**self.environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def with_claude(place: Place, program: str, model: Model) -> list[str]:
    """Claude Code: the lines that it says about the server."""
    settings = place.folder / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_text(
        json.dumps({"enabledMcpjsonServers": ["interlock"]})
    )  # what approving it by hand writes
    environment = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "of-no-use"}
    asked = ["-p", "Publish the job.", "--model", MODEL, "--output-format", "json"]
    ended = place.run([program, *asked, "--allowedTools", f"mcp__interlock__{TOOL}"], environment)
    said = json.loads(ended)
    found = said[-1] if isinstance(said, list) else said
    listed = place.run([program, "mcp", "list"])
    return [line for line in listed.splitlines() if "interlock" in line] + [str(found.get("result"))]


def with_opencode(place: Place, program: str, model: Model) -> list[str]:
    """OpenCode: the lines that it says about the server."""
    listed = place.run([program, "mcp", "list"])
    file = place.folder / "opencode.json"
    options = {"baseURL": f"{model.url}/v1", "apiKey": "of-no-use"}
    config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**config, "provider": {"anthropic": {"options": options}}}))
    said = place.run([program, "run", "--model", f"anthropic/{MODEL}", "Publish the job."])
    return [line for line in listed.splitlines() if "interlock" in line] + said.strip().splitlines()[-1:]


CLIENTS = {"claude": with_claude, "opencode": with_opencode}


def main() -> int:
    """Run both; the exit code."""
    programs = dict(zip(CLIENTS, sys.argv[1:3], strict=True))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        root = Path(name)
        bus, greeting = crew.start_bus(root / ".interlock", 0, root / "bus.log")
        try:
            owner = Client(Settings(greeting["url"], greeting["project"], greeting["owner_token"]), "owner")
            for client, program in programs.items():
                _one(client, program, Place(root, client, greeting), owner)
        finally:
            crew.end(bus)
    print(f"{len(programs)} passed, 0 failed")
    return 0


def _one(client: str, program: str, place: Place, owner: Client) -> None:
    model = Model()
    summary = SUMMARY.format(client=client)
    model.arguments = {"summary": summary, "role": "developer", "idempotency_key": client}
    with serving(model):
        version = place.run([program, "--version"]).strip()
        said = CLIENTS[client](place, program, model)
    tools = sorted(name for name in model.tools if "interlock" in name)
    found = list(owner.items("jobs.list", {"q": summary}))
    who = [job["source_label"] for job in found]
    print(f"{client} {version}", *said, f"{len(tools)} tools of Interlock, {TOOL} called", sep="\n  ")
    assert len(tools) == 18, tools
    assert who == [f"{client}-agent"], f"published: {found}; results: {model.results}"
    assert found[0]["id"] in model.results[-1], model.results
    print(f"  the bus: {found[0]['id']} {found[0]['status']}, published by {who[0]}")


if __name__ == "__main__":
    sys.exit(main())
