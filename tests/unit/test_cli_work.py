"""`interlock work` against a stub bus: what the command gets, how its end is reported, and when nothing is written."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from tests.unit.cli_board import LIMIT, PYTHON, Board, work
from tests.unit.cli_stub import AGENT, Stub, problem, serving

from interlock.cli import client as client_module
from interlock.cli import held, worker
from interlock.cli.client import Client
from interlock.cli.exits import CommandError
from interlock.cli.process import Running
from interlock.cli.settings import Settings


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(worker, "IDLE", 0.02)


def log_of(body):
    path = Path(url2pathname(urlsplit(body["uri"]).path))
    return path.read_bytes()


def test_the_command_gets_the_job_and_its_last_object_becomes_the_result(tmp_path):
    script = """
import json, os, sys
job = json.load(sys.stdin)
assert job == json.load(open(os.environ["INTERLOCK_JOB_FILE"]))
print("first", {"not": "json"})
print(json.dumps({"early": 1}))
print("warning", file=sys.stderr)
print(json.dumps({"seen": job["id"], "env": {n: v for n, v in os.environ.items() if n.startswith("INTERLOCK_")}}, indent=2))
print("bye")
"""
    with serving(Stub()) as stub:
        board = Board(
            stub, policy={"model": "m", "thinking_level": "high", "allowed_tools": ["read", "write"]}
        )
        code, reports = work(stub.url, tmp_path, script)
    assert code == 0
    ((complete, done),) = board.writes()
    assert complete == "complete"
    data, (log,) = done["result"]["data"], done["result"]["artifacts"]
    assert done["fence"] == 7
    assert data["seen"] == "job_1"
    environment = data["env"]
    assert Path(environment.pop("INTERLOCK_JOB_FILE")).name == "job.json"
    assert environment == {
        "INTERLOCK_JOB": "job_1",
        "INTERLOCK_FENCE": "7",
        "INTERLOCK_URL": stub.url,
        "INTERLOCK_TOKEN": AGENT,
        "INTERLOCK_PROJECT": "default",
        "INTERLOCK_MODEL": "m",
        "INTERLOCK_THINKING_LEVEL": "high",
        "INTERLOCK_ALLOWED_TOOLS": "read,write",
    }
    written = log_of(log)
    assert b"warning" in written
    assert b"bye" in written
    assert log["checksum"] == "sha256:" + hashlib.sha256(written).hexdigest()
    assert (log["type"], log["metadata"]) == ("log", {"bytes": len(written)})
    assert reports == [
        {
            "job": "job_1",
            "fence": 7,
            "exit_code": 0,
            "log": str(tmp_path / "job_1-7.log"),
            "outcome": "completed",
        }
    ]


ECHO = "import json, sys; job = json.load(sys.stdin); print(json.dumps({n: job[n] for n in sys.argv[1:] or job}))"


def test_the_command_gets_what_the_upstream_jobs_came_to(tmp_path):
    came_to = [{"id": "job_0", "summary": "up", "role": "qa", "status": "completed", "result": {"data": [1]}}]
    with serving(Stub()) as stub:
        board = Board(stub)
        board.answer = {"upstream_results": came_to}
        assert work(stub.url, tmp_path, ECHO)[0] == 0
    data = board.writes()[-1][1]["result"]["data"]
    assert data == {**board.job, "upstream_results": came_to, "reopen_context": None, "decisions": []}
    assert not stub.of("/reopen-context")


def test_the_command_of_a_retry_gets_why_it_was_sent_back(tmp_path):
    context = {"retry": "job_1", "original": "job_0", "reason": "no tests"}
    with serving(Stub()) as stub:
        board = Board(stub, job={"reopen_of": "job_0"}, refuse={"reopen-context": (200, context)})
        assert work(stub.url, tmp_path, ECHO)[0] == 0
    data = board.writes()[-1][1]["result"]["data"]
    assert (data["reopen_context"], data["upstream_results"]) == (context, [])


REJECTED = {"type": "job.rejected", "data": {"fence": 7, "target": "job_0"}}


@pytest.mark.parametrize("noticed", ["by its heartbeat", "at the end"])
def test_a_command_that_sends_the_reviewed_work_back_has_done_its_job(noticed, tmp_path, capfd):
    by_beat = noticed == "by its heartbeat"
    with serving(Stub()) as stub:
        board = Board(stub, refuse={} if by_beat else {"complete": problem(409, "lease_lost")})
        board.events = [REJECTED]
        board.beat = {"job": "job_1", "fence": 8, "expires_in": None} if by_beat else board.beat
        code, reports = work(stub.url, tmp_path, f"import time; time.sleep({LIMIT if by_beat else 0})")
    assert (code, reports[0]["outcome"]) == (0, "rejected")
    assert "has sent the reviewed work back" in capfd.readouterr().err


def test_another_claims_rejection_is_not_its_own(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub, refuse={"complete": problem(409, "lease_lost")})
        board.events = [
            {**REJECTED, "data": {"fence": 8}},
            {"type": "job.lease_expired", "data": {"fence": 7}},
        ]
        code, reports = work(stub.url, tmp_path, "")
    assert (code, reports[0]["outcome"]) == (4, "lost")


def test_an_owners_token_never_reaches_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLOCK_OWNER_TOKEN", "il_own_x.y.z")
    with serving(Stub()) as stub:
        board = Board(stub)
        work(
            stub.url,
            tmp_path,
            "import json, os; print(json.dumps({'got': os.environ.get('INTERLOCK_OWNER_TOKEN')}))",
        )
    assert board.writes()[-1][1]["result"]["data"] == {"got": None}


def test_no_object_no_result(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        assert work(stub.url, tmp_path, "print('[1, 2]'); print('{broken')")[0] == 0
    ((name, body),) = board.writes()
    assert (name, body["fence"]) == ("complete", 7)
    assert "data" not in body["result"]


def test_a_command_that_fails_fails_the_job_with_the_tail_of_its_errors(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        code, reports = work(
            stub.url, tmp_path, "import sys; print('x' * 9000, file=sys.stderr); sys.exit('boom\\x1b')"
        )
    assert code == 1
    name, body = board.writes()[-1]
    assert name == "fail"
    assert body["reason"].startswith("exit code 1: ")
    assert body["reason"].endswith("boom\x1b")
    assert len(body["reason"]) <= 2_000
    assert body["data"]["exit_code"] == 1
    assert reports[0]["outcome"] == "failed"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_command_ended_by_a_signal_names_it(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        work(stub.url, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert board.writes()[-1][1]["reason"] == "ended by signal SIGKILL"


def test_nothing_to_claim_is_3(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub, jobs=0)
        assert work(stub.url, tmp_path, "")[0] == 3
    assert board.writes() == []


def test_it_loops_until_it_is_told_to_stop(tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Board(stub, jobs=3)

        def respond(asked):
            if asked.path.endswith("/claims") and not board.jobs:
                stop.set()
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "", once=False, stop=stop)[0] == 0
    assert [name for name, _ in board.writes()] == ["complete"] * 3
    assert len({one.key for one in stub.asked if one.key}) == len({id(one) for one in stub.asked if one.key})


def test_a_bus_that_is_away_is_waited_for(tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Board(stub)
        left = [6]

        def respond(asked):
            if left[0]:
                left[0] -= 1
                return None if left[0] % 2 else problem(503, "store_unavailable")
            if asked.path.endswith("/claims") and not board.jobs:
                stop.set()
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "", once=False, stop=stop)[0] == 0
    assert board.writes()[-1][0] == "complete"


@pytest.mark.parametrize(
    ("code", "status", "ends"), [("token_revoked", 401, 5), ("wrong_role", 403, 5), ("unknown_role", 422, 1)]
)
def test_what_will_not_change_ends_the_worker(code, status, ends, tmp_path):
    with serving(Stub()) as stub:
        Board(stub, refuse={"claims": problem(status, code)})
        with pytest.raises(CommandError) as refused:
            work(stub.url, tmp_path, "", once=False)
    assert refused.value.code == ends


@pytest.mark.parametrize(
    "beat",
    [
        {
            "job": "job_1",
            "fence": 7,
            "expires_in": 0,
            "stop": {"code": "stop_requested", "detail": "an owner says stop"},
        },
        {"job": "job_1", "fence": 9, "expires_in": 5},
        None,
    ],
)
def test_a_lost_lease_ends_the_command_and_nothing_is_written(beat, tmp_path, capfd):
    marker = tmp_path / "went-on"
    script = f"import time, pathlib; time.sleep({LIMIT}); pathlib.Path({str(marker)!r}).touch()"
    with serving(Stub()) as stub:
        board = Board(stub)
        board.beat = beat
        started = time.monotonic()
        code, reports = work(stub.url, tmp_path, script)
    assert code == 4
    assert time.monotonic() - started < LIMIT / 2
    assert board.writes() == []
    assert not marker.exists()
    assert reports[0]["outcome"] == "lost"
    assert "nothing was written" in capfd.readouterr().err


def test_a_heartbeat_that_is_refused_for_good_ends_the_command(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub, refuse={"heartbeat": problem(401, "token_revoked")})
        assert work(stub.url, tmp_path, f"import time; time.sleep({LIMIT})")[0] == 4
    assert board.writes() == []


def test_heartbeats_go_on_over_a_bus_that_stumbles(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        beats, enough = [], tmp_path / "enough"

        def respond(asked):
            if asked.path.endswith("/heartbeat"):
                beats.append(asked.body)
                if len(beats) == 1:
                    return problem(503, "store_unavailable")
                enough.touch()
            return Board.respond(board, asked)

        stub.answer = respond
        script = f"import pathlib, time\nwhile not pathlib.Path({str(enough)!r}).exists(): time.sleep(0.02)"
        code, _ = work(stub.url, tmp_path, script)
    assert code == 0
    assert beats[0] == {"session": "s", "jobs": [{"id": "job_1", "fence": 7}]}


@pytest.mark.parametrize(("where", "script"), [("artifacts", "raise SystemExit(1)"), ("complete", "")])
@pytest.mark.parametrize(
    ("code", "status"), [("lease_lost", 409), ("stop_requested", 409), ("not_holder", 403)]
)
def test_an_ending_that_comes_too_late_says_so(where, script, code, status, tmp_path, capfd):
    with serving(Stub()) as stub:
        Board(stub, refuse={where: problem(status, code)})
        ended, reports = work(stub.url, tmp_path, script)
    assert ended == 4
    assert reports[0]["outcome"] == "lost"
    assert "its result was not taken" in capfd.readouterr().err


@pytest.mark.parametrize(("code", "status"), [("evidence_missing", 422), ("too_large", 413)])
def test_a_completion_that_is_not_acceptable_fails_the_job(code, status, tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub, refuse={"complete": problem(status, code)})
        assert work(stub.url, tmp_path, "")[0] == 1
    assert [name for name, _ in board.writes()] == ["complete", "artifacts", "fail"]
    assert board.writes()[-1] == (
        "fail",
        {"fence": 7, "reason": f"the completion was refused: said {code}", "data": {"code": code}},
    )


def test_a_completion_without_room_for_the_log_goes_without_it(tmp_path, capfd):
    with serving(Stub()) as stub:
        board = Board(stub)

        def respond(asked):
            full = asked.path.endswith("/complete") and "artifacts" in asked.body["result"]
            return problem(422, "limit_reached") if full else Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "print('{\"n\": 1}')")[0] == 0
    assert board.writes()[-1] == ("complete", {"fence": 7, "result": {"data": {"n": 1}}})
    assert len({one.key for one in stub.of("/complete")}) == 2
    assert "the log was not attached" in capfd.readouterr().err


def test_a_failure_whose_log_cannot_be_attached_is_told_without_it(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub, refuse={"artifacts": problem(422, "limit_reached")})
        assert work(stub.url, tmp_path, "raise SystemExit(1)")[0] == 1
    assert [name for name, _ in board.writes()] == ["artifacts", "fail"]


@pytest.mark.parametrize(("status", "ends"), [("completed", 0), ("failed", 1), ("blocked", 6)])
def test_a_command_may_move_its_job_itself(status, ends, tmp_path):
    with serving(Stub()) as stub:
        Board(stub, job={"status": status}, refuse={"complete": problem(409, "wrong_state")})
        code, reports = work(stub.url, tmp_path, "")
    assert (code, reports[0]["outcome"]) == (ends, status)


def test_lost_answers_of_the_ending_are_repeated_under_one_key(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        silent = [2]

        def respond(asked):
            if asked.path.endswith("/complete") and silent[0]:
                silent[0] -= 1
                return None
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "")[0] == 0
    assert len(stub.of("/complete")) == 3
    assert len({one.key for one in stub.of("/complete")}) == 1


def test_a_stop_ends_the_command_and_gives_the_job_back(tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Board(stub)
        begun = tmp_path / "begun"

        def stop_when_begun():
            until = time.monotonic() + LIMIT
            while not begun.exists() and time.monotonic() < until:
                time.sleep(0.02)
            stop.set()

        thread = threading.Thread(target=stop_when_begun)
        thread.start()
        script = f"import time, pathlib; pathlib.Path({str(begun)!r}).touch(); time.sleep({LIMIT})"
        code, reports = work(stub.url, tmp_path, script, stop=stop, once=False)
        thread.join()
    assert code == 0
    assert board.writes()[-1] == ("release", {"fence": 7, "reason": "the worker was stopped"})
    assert reports[0]["outcome"] == "released"


def alive(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def gone(pid):
    until = time.monotonic() + LIMIT
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(pid)


CHILD = """
import subprocess, sys, time, pathlib, signal
if {stubborn}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"])
pathlib.Path({file!r}).write_text(str(child.pid))
{then}
"""


def test_the_log_keeps_each_stream_s_lines_whole(tmp_path):
    script = (
        "import os, time\n"
        "for n in range(50):\n"
        "    os.write(1, b'out'); os.write(2, b'err'); os.write(1, b' %d\\n' % n); os.write(2, b' %d\\n' % n)\n"
        "os.write(1, b'x' * 200_000 + b'\\n'); os.write(1, b'no end'); os.write(2, b'none here')\n"
    )
    log = tmp_path / "log"
    running = Running([PYTHON, "-c", script], b"", os.environ, log)
    while running.wait(LIMIT) is None:
        pass
    digest, size = running.close()
    written = log.read_bytes()
    assert (hashlib.sha256(written).hexdigest(), len(written)) == (digest, size)
    lines = written.decode().split("\n")
    assert [line for line in lines if line.startswith("out")] == [f"out {n}" for n in range(50)]
    assert [line for line in lines if line.startswith("err")] == [f"err {n}" for n in range(50)]
    assert {"no end", "none here"} <= set(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
@pytest.mark.parametrize("stubborn", [False, True])
def test_the_whole_tree_of_a_command_is_ended(stubborn, tmp_path):
    file = tmp_path / "pid"
    running = Running(
        [PYTHON, "-c", CHILD.format(stubborn=stubborn, file=str(file), then="time.sleep(60)")],
        b"",
        os.environ,
        tmp_path / "log",
    )
    until = time.monotonic() + LIMIT
    while not (file.exists() and file.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    running.end(0.3)
    running.close()
    assert gone(running.pid)
    assert gone(int(file.read_text()))


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
def test_what_a_finished_command_leaves_running_is_ended(tmp_path):
    file = tmp_path / "pid"
    with serving(Stub()) as stub:
        board = Board(stub)
        assert work(stub.url, tmp_path, CHILD.format(stubborn=False, file=str(file), then=""))[0] == 0
    assert gone(int(file.read_text()))
    assert board.writes()[-1][0] == "complete"


def test_a_command_that_ignores_its_input_is_no_error(tmp_path):
    with serving(Stub()) as stub:
        Board(stub, job={"context": {"big": "x" * 3_000_000}})
        assert work(stub.url, tmp_path, "")[0] == 0


def test_a_flood_of_output_is_kept_whole_in_the_log_only(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        assert (
            work(
                stub.url,
                tmp_path,
                "import sys; [print('x' * 999, file=sys.stderr) for _ in range(3000)]; print('{\"n\": 1}')",
            )[0]
            == 0
        )
    assert board.writes()[-1][1]["result"]["data"] == {"n": 1}
    assert board.writes()[-1][1]["result"]["artifacts"][0]["metadata"]["bytes"] == 3_000_000 + 9


def test_a_command_that_cannot_start_gives_the_job_back(tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        made = held.Work(
            client=Client(Settings(stub.url, "default", agent_token=AGENT), "agent"),
            command=[str(tmp_path)],
            roles=[],
            session="s",
            heartbeat=1,
            logs=tmp_path,
            once=True,
        )
        assert worker.run(made) == 2
    assert [name for name, _ in board.writes()] == ["release"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_releases_the_job(number, tmp_path):
    begun = tmp_path / "begun"
    script = f"import time, pathlib; pathlib.Path({str(begun)!r}).touch(); time.sleep(60)"
    with serving(Stub()) as stub:
        board = Board(stub)
        environment = {**os.environ, "INTERLOCK_URL": stub.url, "INTERLOCK_TOKEN": AGENT}
        command = [
            PYTHON,
            "-m",
            "interlock.cli.main",
            "work",
            "--json",
            "--logs",
            str(tmp_path),
            "--grace",
            "1",
            "--",
            PYTHON,
            "-c",
            script,
        ]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            until = time.monotonic() + LIMIT
            while not begun.exists() and time.monotonic() < until:
                time.sleep(0.02)
            process.send_signal(getattr(signal, number))
            out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert json.loads(out)["outcome"] == "released"
    assert [name for name, _ in board.writes()] == ["artifacts", "release"]
