"""Verified uploads through `interlock up`, over real HTTP and by the command line, on each engine that a laptop has."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli_stub import cli

DATA = os.urandom(3_000_000)
SHA = hashlib.sha256(DATA).hexdigest()
LIMIT = 60


class Up:
    """A bus in a process of its own."""

    def __init__(self, data: Path, engine: str) -> None:
        command = [
            sys.executable,
            "-m",
            "interlock.cli.main",
            "up",
            "--port",
            "0",
            "--json",
            "--data",
            str(data),
            "--engine",
            engine,
        ]
        self.data = data
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.greeting = json.loads(self.process.stdout.readline())
        self.url = self.greeting["url"]

    def http(
        self, method: str, url: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, {k.lower(): v for k, v in error.headers.items()}, error.read()

    def call(self, method: str, path: str, body: Any = None, host: str | None = None) -> tuple[int, Any]:
        headers = {
            "Authorization": f"Bearer {self.greeting['owner_token']}",
            "Content-Type": "application/json",
        }
        headers |= {"Host": host} if host else {}
        data = None if body is None else json.dumps(body).encode()
        status, _, raw = self.http(method, f"{self.url}/v1/projects/default{path}", data, **headers)
        return status, json.loads(raw)

    def slot(self, job: str, **more: Any) -> Any:
        body = {"type": "log", "name": "run.log", "size": len(DATA), "sha256": SHA}
        status, made = self.call("POST", f"/jobs/{job}/artifacts", body, **more)
        assert status == 201, made
        return made


@contextmanager
def up(data: Path, engine: str) -> Iterator[Up]:
    bus = Up(data, engine)
    try:
        yield bus
    finally:
        bus.process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        bus.process.communicate(timeout=LIMIT)


@pytest.mark.parametrize("engine", ["embedded", "moto"])
def test_over_http(engine: str, tmp_path: Path) -> None:
    with up(tmp_path, engine) as bus:
        job = bus.call("POST", "/jobs", {"summary": "s", "role": "qa"})[1]["job"]["id"]
        made = bus.slot(job)
        path, upload = f"/jobs/{job}/artifacts/{made['artifact']['id']}", made["upload"]
        assert upload["url"].startswith(f"{bus.url}/blobs/")
        assert bus.call("POST", f"{path}/verify", {})[1]["code"] == "wrong_state"
        for wrong, status in (
            (DATA[:-1], 400),
            (DATA[:-1] + b"x" if DATA[-1:] != b"x" else DATA[:-1] + b"y", 400),
        ):
            answer = bus.http("PUT", upload["url"], wrong)
            assert (answer[0], answer[1]["content-type"]) == (status, "application/problem+json")
        assert bus.http("PUT", upload["url"] + "0", DATA)[0] == 403
        assert bus.http("PUT", upload["url"], DATA, **upload["headers"])[0] == 200
        assert bus.http("PUT", upload["url"], DATA, **upload["headers"])[0] == 412
        assert "download" not in bus.call("GET", path)[1]
        status, verified = bus.call("POST", f"{path}/verify", {})
        assert (status, verified["artifact"]["state"]) == (200, "verified")
        shown = bus.call("GET", path)[1]
        status, headers, body = bus.http("GET", shown["download"]["url"])
        assert (status, hashlib.sha256(body).hexdigest()) == (200, SHA)
        assert headers["content-disposition"].startswith('attachment; filename="run.log"')
        assert headers["content-type"] == "application/octet-stream"
        local = bus.url.replace("127.0.0.1", "localhost")
        again = bus.slot(job, host=local.removeprefix("http://"))
        assert again["upload"]["url"].startswith(f"{local}/blobs/"), "where the client called the bus"


def test_it_survives_a_kill_and_an_alteration_is_seen(tmp_path: Path) -> None:
    with up(tmp_path, "embedded") as bus:
        job = bus.call("POST", "/jobs", {"summary": "s", "role": "qa"})[1]["job"]["id"]
        made, awaited = bus.slot(job), bus.slot(job)
        path = f"/jobs/{job}/artifacts/{made['artifact']['id']}"
        assert bus.http("PUT", made["upload"]["url"], DATA)[0] == 200
        assert bus.call("POST", f"{path}/verify", {})[0] == 200
        assert bus.http("PUT", awaited["upload"]["url"], DATA)[0] == 200
        bus.process.kill()
    with up(tmp_path, "embedded") as bus:
        assert bus.call("GET", path)[1]["artifact"]["state"] == "verified"
        other = f"/jobs/{job}/artifacts/{awaited['artifact']['id']}"
        assert bus.call("POST", f"{other}/verify", {})[1]["artifact"]["state"] == "verified"
        files = [file for file in (tmp_path / "blobs" / "uploads").iterdir() if not file.suffix]
        assert len(files) == 2
        for file in files:
            file.write_bytes(b"x" * len(DATA))
        states = [shown["state"] for shown in bus.call("GET", f"/jobs/{job}")[1]["job"]["artifacts"]]
        assert states == ["altered", "altered"]
        assert "download" not in bus.call("GET", path)[1]


def test_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = tmp_path / "report.html"
    sent.write_bytes(DATA)
    with up(tmp_path / ".interlock", "embedded"):
        monkeypatch.chdir(tmp_path)
        job = cli(
            "job", "publish", "s", "--role", "qa", "--requires", "report", "--json", token=None
        ).document["job"]["id"]
        fence = str(cli("job", "claim", job, "--json", token=None).document["claim"]["fence"])
        complete = ("job", "complete", job, "--fence", fence, "--json")
        assert cli(*complete, token=None).document["code"] == "evidence_missing"
        attach = ("job", "attach", job, "--type", "report", "--file", str(sent), "--fence", fence, "--json")
        made = cli(*attach, token=None).document["artifact"]
        assert (made["state"], made["name"], made["sha256"]) == ("verified", "report.html", SHA)
        (tmp_path / "got").mkdir()
        fetch = ("job", "artifact", job, made["id"], "--download", str(tmp_path / "got"), "--json")
        assert cli(*fetch, token=None).document["saved"] == str(tmp_path / "got" / "report.html")
        assert (tmp_path / "got" / "report.html").read_bytes() == DATA
        assert cli(*complete, token=None).document["job"]["status"] == "completed"
        assert "verified" in cli("job", "show", job, token=None).out
