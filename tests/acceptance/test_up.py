"""`interlock up` as its user meets it: a process that starts, serves, stops, is killed and starts again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from interlock.domain import ledger
from interlock.local.bus import LocalBus, Settings

LIMIT = 60.0
"""Seconds after which something that should have happened has not."""
POSIX = os.name == "posix"


def command_line(data: Path, *more: str, port: int = 0) -> list[str]:
    options = ["--port", str(port), "--data", str(data), *more]
    return [sys.executable, "-m", "interlock.cli.main", "up", *options]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}


def once(command: list[str]) -> subprocess.CompletedProcess[str]:
    """An `interlock up` that is expected to end by itself."""
    return subprocess.run(
        command, check=False, capture_output=True, timeout=LIMIT, text=True, env=environment()
    )


class Up:
    """A running `interlock up`; its standard output and error are read all the time."""

    def __init__(self, data: Path, *more: str) -> None:
        self.process = subprocess.Popen(
            command_line(data, "--json", *more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.log: list[str] = []
        self._readers = [
            self._read(self.process.stdout, self.lines.put),
            self._read(self.process.stderr, self.log.append),
        ]
        self.first: dict[str, Any] = json.loads(self.line())
        self.port = int(self.first["url"].rpartition(":")[2])

    @staticmethod
    def _read(stream: IO[bytes] | None, keep: Callable[[str], object]) -> threading.Thread:
        assert stream is not None
        thread = threading.Thread(
            target=lambda: [keep(line.decode().rstrip()) for line in stream], daemon=True
        )
        thread.start()
        return thread

    def line(self) -> str:
        """The next line on standard output."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                return self.lines.get(timeout=0.2)
            except queue.Empty:
                assert self.process.poll() is None, "\n".join(self.log)
                assert time.monotonic() < deadline

    def call(self, method: str, path: str, body: Any = None, *, token: str = "agent") -> tuple[int, Any]:
        return call(self.port, self.first[f"{token}_token"], method, path, body)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, answer the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return code


def call(port: int, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


JOBS = "/v1/projects/default/jobs"


@contextlib.contextmanager
def up(data: Path, *more: str) -> Iterator[Up]:
    running = Up(data, *more)
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()
        for stream in (running.process.stdout, running.process.stderr):
            assert stream is not None
            stream.close()


def eventually(find: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.01)


def create(running: Up, summary: str = "Work") -> str:
    status, answer = running.call("POST", JOBS, {"summary": summary, "role": "developer"})
    assert status == 201, answer
    return str(answer["job"]["id"])


def check_ledger(running: Up, job: str) -> None:
    """The job's chain is whole, up to what the head says."""

    def complete() -> Any:
        status, found = running.call("GET", f"{JOBS}/{job}/events?limit=100")
        assert status == 200, found
        return None if found.get("incomplete") else found

    found = eventually(complete)
    assert found["items"]
    assert ledger.verify(found["items"], {f"job/{job}": (found["version"], found["digest"])}) == []


def test_the_first_line_says_where_it_serves(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data) as running:
        assert list(running.first) == ["url", "project", "owner_token", "agent_token", "mcp", "pid"]
        assert running.first["url"].startswith("http://127.0.0.1:")
        assert running.first["mcp"] == running.first["url"] + "/mcp"
        assert running.first["project"] == "default"
        assert running.first["owner_token"].startswith("il_own_installation.")
        assert running.first["agent_token"].startswith("il_agt_default.")
        assert running.first["pid"] == running.process.pid
        assert running.call("GET", "/health")[0] == 200
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert running.call("POST", "/mcp", ping) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
        status, me = running.call("GET", "/v1/projects/default/me")
        assert (status, me["actor"]["label"]) == (200, "agent-1")
        assert sorted(me["roles"]) == ["developer", "ops", "qa", "reviewer"]
        assert running.call("GET", "/v1/projects", token="owner")[0] == 200
        job = create(running)
        check_ledger(running, job)
        kept = json.loads((data / "credentials.json").read_text())
        for name in ("url", "project", "owner_token", "agent_token"):
            assert kept[name] == running.first[name]
        assert running.end() == 0
        assert running.lines.empty()
        assert any(" POST " in line and " 201 " in line for line in running.log), running.log
    assert (data / ".gitignore").read_text() == "*\n"


def test_without_json_a_person_is_told_how_to_go_on(tmp_path: Path) -> None:
    done = once(command_line(tmp_path, "--", sys.executable, "-c", ""))
    assert done.returncode == 0
    for word in ("http://127.0.0.1:", "il_own_", "il_agt_", "default", "curl", "/mcp", "agent connect"):
        assert word in done.stderr
    assert done.stdout == "", "beside a command standard output is the command's own"


@pytest.mark.skipif(not POSIX, reason="file modes are POSIX's")
def test_credentials_are_private_and_stay_the_same(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        first = running.first
        job = create(running)
        assert running.end() == 0
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600
    with up(tmp_path) as running:
        moved = {"pid": 0, "url": "", "mcp": ""}
        assert {**running.first, **moved} == {**first, **moved}
        assert running.call("GET", f"{JOBS}/{job}")[0] == 200
        check_ledger(running, job)


def test_a_crash_before_the_identities_were_made_is_healed(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        first = running.first
        running.end(signal.SIGKILL if POSIX else signal.SIGTERM)
    for file in tmp_path.glob("bus.db*"):
        file.unlink()
    with up(tmp_path) as running:
        assert running.first["agent_token"] == first["agent_token"]
        assert running.call("GET", "/v1/projects/default/me")[0] == 200
        assert running.call("GET", "/v1/projects", token="owner")[0] == 200


def test_lost_credentials_are_made_anew_and_the_data_stays(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        first = running.first
        job = create(running)
        assert running.end() == 0
    (tmp_path / "credentials.json").unlink()
    with up(tmp_path) as running:
        assert running.first["agent_token"] != first["agent_token"]
        assert running.call("GET", f"{JOBS}/{job}")[0] == 200
        assert running.call("GET", "/v1/projects", token="owner")[0] == 200


def test_a_second_start_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        second = once(command_line(tmp_path, "--json"))
        assert (second.returncode, second.stdout) == (4, "")
        assert str(running.process.pid) in second.stderr
        assert running.first["url"] in second.stderr
        assert running.call("GET", "/health")[0] == 200


def test_a_busy_port_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = once(command_line(tmp_path, "--json", port=port))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert str(port) in refused.stderr
        assert "--port" in refused.stderr
    assert not (tmp_path / "bus.db").exists()


def test_a_newer_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("99\n")
    refused = once(command_line(tmp_path))
    assert refused.returncode == 1
    assert "newer" in refused.stderr


COMMAND = """
import json, os, sys, urllib.request
request = urllib.request.Request(
    os.environ["INTERLOCK_URL"] + "/v1/projects/" + os.environ["INTERLOCK_PROJECT"] + "/me",
    headers={"Authorization": "Bearer " + os.environ[sys.argv[1]]},
)
print(json.load(urllib.request.urlopen(request))["actor"]["kind"])
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("variable", "kind"), [("INTERLOCK_TOKEN", "agent"), ("INTERLOCK_OWNER_TOKEN", "owner")]
)
def test_a_command_runs_beside_the_bus(tmp_path: Path, variable: str, kind: str) -> None:
    with up(tmp_path, "--", sys.executable, "-c", COMMAND, variable) as running:
        assert running.line() == kind
        assert running.wait() == 7


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with up(tmp_path, "--", str(tmp_path / "no-such-command")) as running:
        assert running.wait() == 127
        assert any("no-such-command" in line for line in running.log)


@pytest.mark.skipif(not POSIX, reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_and_the_bus(tmp_path: Path, number: int) -> None:
    waits = "import signal, sys; print('ready', flush=True); signal.pause()"
    with up(tmp_path, "--", sys.executable, "-c", waits) as running:
        assert running.line() == "ready"
        assert running.end(number) == 128 + signal.SIGTERM
    with up(tmp_path) as running:
        assert running.end(number) == 0


def test_json_logs(tmp_path: Path) -> None:
    with up(tmp_path, "--log", "json") as running:
        create(running)
        running.call("GET", "/health")
        assert running.end() == 0
        lines = [json.loads(line) for line in running.log]
    assert any(line.get("status") == 201 and line.get("method") == "POST" for line in lines), lines


@pytest.mark.parametrize("engine", ["embedded", "moto"])
def test_a_job_s_life_on_each_engine(tmp_path: Path, engine: str) -> None:
    with up(tmp_path, "--engine", engine) as running:
        job = create(running)
        status, answer = running.call("POST", "/v1/projects/default/claims", {"roles": ["developer"]})
        assert (status, answer["job"]["id"]) == (200, job)
        fence = answer["claim"]["fence"]
        status, answer = running.call("POST", f"{JOBS}/{job}/complete", {"fence": fence})
        assert (status, answer["job"]["status"]) == (200, "completed")
        check_ledger(running, job)
        assert running.end() == 0


def hammer(running: Up, acknowledged: list[str], stop: threading.Event) -> None:
    """Create, claim and complete jobs until the bus is gone; keep what was answered."""
    token = running.first["agent_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", running.port, timeout=LIMIT)
    ) as connection:

        def post(path: str, body: Any) -> Any:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            return answer if response.status in (200, 201) else None

        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while not stop.is_set():
                made = post(JOBS, {"summary": "Load", "role": "developer"})
                if made:
                    acknowledged.append(made["job"]["id"])
                taken = post("/v1/projects/default/claims", {"roles": ["developer"]})
                if taken and taken["job"]:
                    fence = taken["claim"]["fence"]
                    post(f"{JOBS}/{taken['job']['id']}/complete", {"fence": fence})


@pytest.mark.slow
@pytest.mark.skipif(not POSIX, reason="kill -9 is POSIX's")
def test_nothing_acknowledged_is_lost_by_kill_9_under_load(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for round_number in range(3):
        with up(tmp_path) as running:
            stop = threading.Event()
            threads = [threading.Thread(target=hammer, args=(running, acknowledged, stop)) for _ in range(8)]
            for thread in threads:
                thread.start()
            wanted = len(acknowledged) + 200
            eventually(lambda wanted=wanted: len(acknowledged) >= wanted)
            running.process.kill()
            stop.set()
            for thread in threads:
                thread.join(LIMIT)
            assert running.wait() == -signal.SIGKILL, round_number
    with up(tmp_path) as running:
        assert len(set(acknowledged)) == len(acknowledged)
        for job in acknowledged:
            status, answer = running.call("GET", f"{JOBS}/{job}")
            assert status == 200, answer
            check_ledger(running, job)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread choose its CPU")
def test_the_bus_s_threads_share_a_cpu_and_the_caller_s_does_not_move(tmp_path: Path) -> None:
    before, others = os.sched_getaffinity(0), set(threading.enumerate())
    with LocalBus(Settings(data=tmp_path, port=0)):
        assert os.sched_getaffinity(0) == before
        ours = [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith(("interlock-", "waitress-")) and thread not in others
        ]
        assert ours
        assert len({tuple(os.sched_getaffinity(thread.native_id or 0)) for thread in ours}) == 1
        assert {len(os.sched_getaffinity(thread.native_id or 0)) for thread in ours} == {1}
    eventually(lambda: not any(thread.is_alive() for thread in ours))


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()

    def fail(_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("interlock.local.server.Server.start", fail)
    with pytest.raises(OSError, match="no"):
        LocalBus(Settings(data=tmp_path, port=0))
    eventually(lambda: threading.active_count() <= before)
    monkeypatch.undo()
    LocalBus(Settings(data=tmp_path, port=0)).close()


class Clock:
    """A wall clock that can be moved on."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead


def test_sleep_costs_nobody_its_lease(tmp_path: Path) -> None:
    clock = Clock()
    with LocalBus(Settings(data=tmp_path, port=0), clock=clock) as bus:
        port, token = int(bus.url.rpartition(":")[2]), bus.credentials.agent_token

        def post(path: str, body: Any) -> Any:
            status, answer = call(port, token, "POST", f"/v1/projects/default{path}", body)
            assert status in (200, 201), answer
            return answer

        job = post("/jobs", {"summary": "Work", "role": "developer", "lease_seconds": 60})["job"]["id"]
        fence = post("/claims", {"roles": ["developer"]})["claim"]["fence"]
        clock.ahead += 3 * 3_600_000
        beat = post("/heartbeat", {})
        assert [(claim["job"], claim["fence"]) for claim in beat["claims"]] == [(job, fence)]
        done = post(f"/jobs/{job}/complete", {"fence": fence})["job"]
        assert (done["status"], done["attempt"]) == ("completed", 1)

        def resumed() -> Any:
            _, feed = call(port, bus.credentials.owner_token, "GET", "/v1/projects/default/events?limit=1000")
            return [event for event in feed["items"] if event["type"] == "project.bus_resumed"]

        ((event),) = eventually(resumed)
        assert event["data"]["leases"] == 1
        assert event["data"]["gap_seconds"] >= 3 * 3_600


def test_a_restart_after_a_long_time_costs_nobody_its_lease(tmp_path: Path) -> None:
    clock = Clock()
    for start in range(2):
        with LocalBus(Settings(data=tmp_path, port=0), clock=clock) as bus:
            port, token = int(bus.url.rpartition(":")[2]), bus.credentials.agent_token
            if start == 0:
                body = {"summary": "Work", "role": "developer", "lease_seconds": 60}
                call(port, token, "POST", JOBS, body)
                _, taken = call(port, token, "POST", "/v1/projects/default/claims", {"roles": ["developer"]})
        clock.ahead += 3_600_000
        job, fence = taken["job"]["id"], taken["claim"]["fence"]
    with LocalBus(Settings(data=tmp_path, port=0), clock=clock) as bus:
        port, token = int(bus.url.rpartition(":")[2]), bus.credentials.agent_token
        status, answer = call(port, token, "POST", f"{JOBS}/{job}/complete", {"fence": fence})
        assert (status, answer["job"]["status"]) == (200, "completed")
