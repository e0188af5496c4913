"""`interlock work` against a real bus: complete, fail, stop, kill -9 and takeover, lost leases."""

import json
import os
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from tests.acceptance.cli_bus import eventually, lines, running_bus
from tests.unit.cli_stub import cli

PYTHON = sys.executable
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("work")) as running:
        yield running


@pytest.fixture
def worker(bus, tmp_path):
    """Start a worker of an agent of its own; whatever still runs at the end is killed."""
    started = []

    def start(label, script, *args, role):
        environment = {**bus.agent(label, role), "TMPDIR": str(tmp_path)}
        process = bus.start(
            "work",
            "--role",
            role,
            "--json",
            "--logs",
            str(tmp_path / "logs"),
            *args,
            "--",
            PYTHON,
            "-c",
            script,
            environment=environment,
        )
        started.append(process)
        process.token = environment["INTERLOCK_TOKEN"]
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def role_of_its_own(bus, name):
    bus.json("role", "add", name)
    return name


def test_a_loop_completes_and_fails_what_comes(bus, worker):
    role = role_of_its_own(bus, "loop")
    good = bus.publish("good", role=role)
    bad = bus.publish("bad", role=role)
    script = "import json, sys; job = json.load(sys.stdin); print(json.dumps({'did': job['summary']})); job['summary'] == 'bad' and sys.exit('no luck')"
    process = worker("looper", script, role=role)
    assert bus.json("job", "wait", good)["job"]["result"]["data"] == {"did": "good"}
    failed = bus.json("job", "wait", bad, code=1)["job"]
    assert failed["failure_reason"] == "exit code 1: no luck"
    (log,) = failed["artifacts"]
    assert log["type"] == "log"
    written = Path(url2pathname(urlsplit(log["uri"]).path)).read_text()
    assert sorted(written.splitlines()) == ["no luck", '{"did": "bad"}']
    process.terminate()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert sorted(report["outcome"] for report in lines(out)) == ["completed", "failed"]


def test_once_ends_by_what_became_of_it(bus, tmp_path):
    role = role_of_its_own(bus, "once")
    environment = bus.agent("once", role)

    def once(script):
        return cli(
            "work",
            "--role",
            role,
            "--once",
            "--logs",
            str(tmp_path),
            "--",
            PYTHON,
            "-c",
            script,
            token=None,
            **environment,
        )

    assert once("").code == 3
    bus.publish(role=role)
    assert once("").code == 0
    bus.publish(role=role)
    assert once("import sys; sys.exit(9)").code == 1
    job = bus.publish("needs evidence", "--requires", "report", role=role)
    assert once("").code == 1
    assert "missing: report" in bus.job(job)["failure_reason"]


def test_a_command_may_attach_its_evidence_and_ask_an_owner(bus, tmp_path):
    role = role_of_its_own(bus, "evidence")
    environment = bus.agent("evident", role)
    program = f"import os, subprocess, sys; il = [{PYTHON!r}, '-m', 'interlock.cli.main', 'job']; job = os.environ['INTERLOCK_JOB']; "

    def once(rest):
        return cli(
            "work",
            "--role",
            role,
            "--once",
            "--logs",
            str(tmp_path),
            "--",
            PYTHON,
            "-c",
            program + rest,
            token=None,
            **environment,
        )

    job = bus.publish("needs evidence", "--requires", "report", role=role)
    assert (
        once(
            "subprocess.run([*il, 'attach', job, '--type', 'report', '--uri', 'file:///r'], check=True)"
        ).code
        == 0
    )
    assert [one["type"] for one in bus.job(job)["artifacts"]] == ["report", "log"]
    job = bus.publish("asks", role=role)
    assert once("subprocess.run([*il, 'block', job, '--reason', 'which one?'], check=True)").code == 6
    assert bus.job(job)["status"] == "blocked"


def test_a_stopped_worker_gives_its_job_back_at_once(bus, worker, tmp_path):
    role = role_of_its_own(bus, "stopped")
    job = bus.publish(role=role)
    begun = tmp_path / "begun"
    process = worker(
        "stopped", f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(60)", role=role
    )
    eventually(begun.exists)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert lines(out)[-1]["outcome"] == "released"
    found = bus.job(job)
    assert (found["status"], found["retry_count"]) == ("published", 0)


def test_an_owners_stop_ends_the_command(bus, worker, tmp_path):
    role = role_of_its_own(bus, "halted")
    job = bus.publish(role=role)
    begun, pid = tmp_path / "begun", tmp_path / "pid"
    script = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); pathlib.Path({str(begun)!r}).touch(); time.sleep(60)"
    process = worker("halted", script, "--once", "--heartbeat", "1", role=role)
    eventually(begun.exists)
    bus.json("job", "stop", job, "--reason", "enough", "--then", "cancel")
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 4
    assert lines(out)[-1]["outcome"] == "lost"
    assert "nothing was written" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert bus.job(job)["artifacts"] == []


def test_kill_9_lapses_and_another_takes_over(bus, worker, tmp_path):
    role = role_of_its_own(bus, "killed")
    job = bus.publish(role=role)
    begun = tmp_path / "begun"
    script = (
        f"import pathlib, time; begun = pathlib.Path({str(begun)!r})\n"
        "if not begun.exists():\n    begun.touch()\n    time.sleep(15)\nprint('{\"second\": true}')"
    )
    first = worker("first", script, "--heartbeat", "1", role=role)
    eventually(begun.exists)
    fence = bus.job(job)["fence"]
    first.kill()
    first.wait()
    second = worker("second", script, "--heartbeat", "1", role=role)
    done = bus.json("job", "wait", job, "--timeout", "60")["job"]
    assert (done["assignee_label"], done["attempt"], done["result"]["data"]) == (
        "second",
        2,
        {"second": True},
    )
    late = cli("job", "complete", job, "--fence", str(fence), "--json", url=bus.url, token=first.token)
    assert (late.code, late.document["code"]) == (4, "lease_lost")
    types = [event["type"] for event in bus.json("job", "events", job)["items"]]
    assert types[:4] == ["job.created", "job.claimed", "job.lease_expired", "job.claimed"]
    assert second.poll() is None


def test_a_worker_that_was_away_writes_nothing(bus, worker, tmp_path):
    role = role_of_its_own(bus, "frozen")
    job = bus.publish(role=role)
    begun, go = tmp_path / "begun", tmp_path / "go"
    script = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch()\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\nprint('{{}}')"
    process = worker("frozen", script, "--once", "--heartbeat", "1", role=role)
    eventually(begun.exists)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: bus.job(job)["status"] == "published")
    bus.json("job", "cancel", job, "--reason", "too late")
    go.touch()
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 4
    assert json.loads(out)["outcome"] == "lost"
    assert bus.job(job)["artifacts"] == []
