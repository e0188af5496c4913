"""`interlock demo`: exits 0 after the whole story and leaves nothing: no process, no worktree, no folder."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.acceptance.cli_bus import PROGRAM, eventually
from tests.unit.cli_stub import cli

from interlock.cli.client import Client
from interlock.cli.demo import repo
from interlock.cli.settings import load

LIMIT = 100
ROOT = Path(__file__).parents[2]


class Place:
    """A folder for everything that the demo leaves by mistake."""

    def __init__(self, tmp_path):
        self.temporary = tmp_path / "temporary"
        self.work = tmp_path / "work"
        self.temporary.mkdir()
        self.work.mkdir()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        self.environment = {**clean, "TMPDIR": str(self.temporary), "GIT_CEILING_DIRECTORIES": str(tmp_path)}

    def demo(self, *args):
        return subprocess.Popen(
            [*PROGRAM, "demo", *args],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args):
        with self.demo(*args) as process:
            out, errors = process.communicate(timeout=LIMIT)
        return process.returncode, out, errors

    def running(self):
        """Command lines of processes that belong to the demo."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.temporary).encode() in (place / "environ").read_bytes():
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def assert_tidy(self):
        assert list(self.temporary.iterdir()) == []
        until = time.monotonic() + 5
        while (left := self.running()) and time.monotonic() < until:
            time.sleep(0.1)
        assert left == []


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def assert_whole_story(report):
    assert report["ok"], report["problems"]
    assert report["seconds"] < 90
    assert {job["status"] for job in report["jobs"]} == {"completed"}
    victim, *_ = report["jobs"]
    jobs = {job["step"]: job for job in report["jobs"]}
    twice = {victim["step"], "version", "notes #2"}
    assert {name: job["attempts"] for name, job in jobs.items()} == {n: 1 + (n in twice) for n in jobs}
    assert victim["who"] != report["killed"]["worker"]
    assert report["late_write"]["code"] == "lease_lost"
    assert report["cascade"]["root"] == jobs["version"]["id"]
    assert set(report["cascade"]["failed"]) == {"notes", "review"}
    review = report["review"]
    assert review["accepted_by"] not in {review["written_by"], review["mended_by"]}
    assert review["rejected_by"] != review["written_by"]
    assert review["author_excluded"]
    assert "checksum" in review["reason"]
    assert report["routed"]["job"] == jobs["release"]["id"]
    stopped = report["stopped"]
    assert stopped["job"] == jobs["links"]["id"]
    assert stopped["worker"] not in {jobs["links"]["who"], report["killed"]["worker"]}
    decision = report["decision"]
    assert (decision["asked_by"], decision["answer"]) == (jobs["release"]["who"], "preview")
    assert decision["status_then"] == "unblocked"
    assert "preview" in jobs["release"]["result"]["data"]["says"]
    assert_graph(report["graph"], {name: job["id"] for name, job in jobs.items()})
    assert report["ledger"]["ok"]
    assert report["ledger"]["findings"] == []


def assert_graph(graph, ids):
    """The fan-in, the retry in the place of what was reviewed, and what the rule made."""
    checks = ids.keys() - {"notes", "notes #2", "review", "release"}
    assert not graph["truncated"]
    assert {node["id"] for node in graph["nodes"]} == set(ids.values())
    assert {(edge["from"], edge["to"], edge["type"]) for edge in graph["edges"]} == {
        *((ids[check], ids["notes"], "blocks") for check in checks),
        (ids["notes"], ids["notes #2"], "reopen_of"),
        (ids["notes #2"], ids["review"], "blocks"),
        (ids["review"], ids["release"], "routed_from"),
    }


def test_without_a_repository_it_makes_one_and_tells_the_whole_story(place):
    code, out, errors = place.run("--json")
    assert code == 0, errors
    report = json.loads(out)
    assert_whole_story(report)
    assert {"tests", "archive", "lint"} <= {job["step"] for job in report["jobs"]}
    for told in (
        "kill -9",
        "the lease has lapsed",
        "late write with fence 1 is refused: 409 lease_lost",
        "failed by cascade; it began with version",
        "revived, waits for version again",
        "sends notes back, now notes #2",
        "may not review them: excluded",
        "its rule holds of the result: release follows",
        "taken from its holder",
        "asks, and waits",
        "local owner decides: preview",
    ):
        assert told in errors
    place.assert_tidy()
    assert list(place.work.iterdir()) == []


@pytest.mark.slow
def test_on_this_checkout_it_builds_the_wheel_and_leaves_no_worktree(place):
    try:
        repo.git(ROOT, "rev-parse", "--verify", "HEAD^{commit}")
    except Exception:
        pytest.skip("not a checkout")
    code, out, errors = place.run("--repo", str(ROOT))
    assert code == 0, out + errors
    assert ".whl" in out
    assert "was killed in mid-job" in out
    assert re.search(r"9    ✓ completed    notes  \(blocked by 1–8\)", out)
    assert len(repo.git(ROOT, "worktree", "list").splitlines()) == 1
    assert not (ROOT / ".git" / "worktrees").exists()
    place.assert_tidy()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped_at_any_moment_and_tidies_up(number, place):
    with place.demo() as process:
        until = threading.Timer(LIMIT, process.kill)
        until.start()
        for line in process.stdout:
            if "kill -9" in line:
                process.send_signal(number)
        errors = process.stderr.read()
        process.wait()
        until.cancel()
    assert process.returncode == 130
    assert "nothing is left running" in errors
    place.assert_tidy()


def test_a_bus_that_cannot_start_ends_the_demo(place):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        code, _, errors = place.run("--port", str(busy.getsockname()[1]))
    assert code == 1
    assert "the bus did not start" in errors
    place.assert_tidy()


@pytest.mark.slow
def test_a_step_that_fails_is_said_and_the_exit_code_shows_it(place):
    repo.make(place.work)
    unit = place.work / "tests" / "unit"
    unit.mkdir()
    (unit / "test_wrong.py").write_text("def test_wrong():\n    assert 1 + 1 == 3\n")
    repo.git(place.work, "add", "--all")
    repo.git(
        place.work,
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.invalid",
        "commit",
        "--quiet",
        "-m",
        "wrong",
    )
    code, out, _ = place.run("--json")
    report = json.loads(out)
    assert code == 1
    assert {job["step"]: job["status"] for job in report["jobs"]}["tests"] == "failed"
    assert "tests is failed: exit code 1" in report["problems"][0]
    assert report["ledger"]["ok"]
    place.assert_tidy()
    assert repo.git(place.work, "status", "--porcelain") == ""


@pytest.mark.slow
def test_keep_leaves_the_bus_up_and_says_how_to_use_and_stop_it(place):
    code, out, errors = place.run("--keep", "--json")
    assert code == 0, errors
    report = json.loads(out)
    try:
        folder = Path(report["data"])
        assert f"kill {report['pid']}" in errors
        assert str(folder.parent) in errors
        jobs = list(Client(load(environment={}, folder=folder.parent)).items("jobs.list"))
        assert len(jobs) == len(report["jobs"])
        assert (
            cli(
                "audit",
                "verify",
                url=report["url"],
                token=json.loads((folder / "credentials.json").read_text())["owner_token"],
            ).code
            == 0
        )
        assert not (folder.parent / "worktree").exists()
    finally:
        os.kill(report["pid"], signal.SIGTERM)
    eventually(lambda: place.running() == [])
