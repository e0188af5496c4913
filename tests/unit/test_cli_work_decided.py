"""`interlock work` where others have to decide: what its command leaves blocked, a budget that is spent, broadcasts."""

import threading

import pytest
from tests.unit.cli_board import LIMIT, Board, work
from tests.unit.cli_stub import Stub, problem, serving

from interlock.cli import client as client_module
from interlock.cli import worker
from interlock.domain import limits

BLOCKED = {"job": "job_1", "fence": 7, "expires_in": None, "status": "blocked", "decision": "dec_1_2"}
ASKED = {"id": "dec_1_2", "state": "answered", "cause": "asked", "prompt": "which?", "answer": "b"}
BUDGET = {"id": "dec_1_3", "state": "open", "cause": "budget", "prompt": "The budget is spent\x1b."}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(worker, "IDLE", 0.02)


def until(file):
    """A command that runs until the file is there, or fails."""
    return (
        f"import pathlib, time; until = time.monotonic() + {LIMIT}\n"
        f"while not pathlib.Path({str(file)!r}).exists():\n    time.sleep(0.02); assert time.monotonic() < until"
    )


class Decided(Board):
    """Its command leaves the job in its first run (``leaves``), and the worker is told ``then`` by beats; it is stopped
    after the job has ended."""

    def __init__(self, stub, *then, stop, leaves="blocked", **more):
        super().__init__(stub, **more)
        self.leaves = leaves
        self.then = list(then)
        self.stop = stop
        self.runs = 0

    def respond(self, asked):
        end = asked.path.rpartition("/")[2]
        if len(self.stub.asked) > 100:
            self.stop.set()  # it went wrong; the test must end
        if end in {"complete", "job_1"}:
            self.runs += 1
            if self.runs == 1:
                self.job["status"] = self.leaves
        if end == "complete" and self.job["status"] != "in_progress":
            return problem(409, "wrong_state")
        if end == "heartbeat" and self.job["status"] in {"blocked", "unblocked"} and self.then:
            self.beat = self.then.pop(0)
            self.job["status"] = self.beat["status"]
        if end == "claims" and self.job["status"] != "blocked" and (self.runs > 1 or not self.then):
            self.stop.set()
        if end in {"complete", "fail"}:
            self.job["status"] = end
        return super().respond(asked)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_its_command_leaves_blocked_is_neither_completed_nor_failed(exit_code, tmp_path, capfd):
    with serving(Stub()) as stub:
        board = Board(stub, job={"status": "blocked"}, refuse={"complete": problem(409, "wrong_state")})
        code, reports = work(stub.url, tmp_path, f"raise SystemExit({exit_code})")
    assert (code, reports[0]["outcome"]) == (6, "blocked")
    # its log is not attached either: the work that others look at must not change
    assert [name for name, _ in board.writes()] == ["complete"][: 1 - exit_code]
    assert "left it blocked" in capfd.readouterr().err


@pytest.mark.parametrize("exit_code", [0, 1])
def test_when_it_is_decided_the_command_runs_again_and_sees_the_answer(exit_code, tmp_path):
    ran = tmp_path / "ran"
    script = (
        f"import json, pathlib, sys, time; job = json.load(sys.stdin); ran = pathlib.Path({str(ran)!r})\n"
        f"if not ran.exists(): ran.touch(); time.sleep(0.2); sys.exit({exit_code})\n"
        "print(json.dumps({n: job[n] for n in ('decisions', 'upstream_results')}))"
    )
    stop = threading.Event()
    with serving(Stub()) as stub:
        beats = ({**BLOCKED, "fence": 1}, {**BLOCKED, "fence": 1, "status": "unblocked"})
        board = Decided(stub, *beats, stop=stop, fence=1)
        board.answer = {"upstream_results": [{"id": "job_0"}]}
        board.decisions = [ASKED]
        code, reports = work(stub.url, tmp_path, script, once=False, stop=stop)
    assert code == 0
    assert [one["outcome"] for one in reports] == ["blocked", "completed"]
    resumed, (name, body) = board.writes()[-2:]
    assert resumed == ("resume", {"fence": 1})
    assert name == "complete"
    assert body["result"]["data"] == {"decisions": [ASKED], "upstream_results": [{"id": "job_0"}]}
    asked = [one for one in stub.asked if one.path.endswith("/decisions")]
    assert [one.query for one in asked][-1] == {"job": ["job_1"], "state": ["all"]}
    assert body["result"]["artifacts"][0]["uri"].endswith("job_1-1-2.log")
    assert len(list(tmp_path.glob("job_1-1*.log"))) == 2
    # what was worked under the claim before the question counts too
    assert board.used()[-1] > 0.2


def test_a_decision_before_the_command_had_ended_lets_it_run_again_too(tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Decided(stub, {**BLOCKED, "status": "unblocked"}, leaves="unblocked", stop=stop)
        code, reports = work(stub.url, tmp_path, "", once=False, stop=stop)
    assert (code, [one["outcome"] for one in reports]) == (0, ["blocked", "completed"])
    assert [name for name, _ in board.writes()] == ["complete", "resume", "complete"]


@pytest.mark.parametrize(("fence", "reads"), [(1, 0), (2, 1)])
def test_decisions_are_read_where_somebody_has_worked_on_the_job_before(fence, reads, tmp_path):
    with serving(Stub()) as stub:
        Board(stub, fence=fence)
        work(stub.url, tmp_path, "")
    assert len(stub.of("/decisions")) == reads


@pytest.mark.parametrize(
    "gone",
    [
        {**BLOCKED, "status": "in_progress"},
        {**BLOCKED, "status": "failed", "stop": {"code": "stop_requested", "detail": "stopped"}},
        {**BLOCKED, "status": "unblocked", "stop": {"code": "lease_lost", "detail": "lapsed"}},
    ],
)
def test_what_is_not_its_own_any_more_is_forgotten(gone, tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Decided(stub, BLOCKED, gone, stop=stop)
        code, reports = work(stub.url, tmp_path, "", once=False, stop=stop)
    assert (code, len(reports)) == (0, 1)
    assert "resume" not in [name for name, _ in board.writes()]


def test_a_resumption_that_comes_too_late_is_no_reason_to_end(tmp_path, capfd):
    stop = threading.Event()
    with serving(Stub()) as stub:
        Decided(
            stub, {**BLOCKED, "status": "unblocked"}, stop=stop, refuse={"resume": problem(409, "lease_lost")}
        )
        code, reports = work(stub.url, tmp_path, "", once=False, stop=stop)
    assert (code, [one["outcome"] for one in reports]) == (0, ["blocked"])
    assert "said lease_lost" in capfd.readouterr().err


def test_a_resumption_without_a_claim_is_none(tmp_path):
    stop = threading.Event()
    with serving(Stub()) as stub:
        gone = (200, {"job": {"id": "job_1", "status": "published"}, "claim": None})
        Decided(stub, {**BLOCKED, "status": "unblocked"}, stop=stop, refuse={"resume": gone})
        code, reports = work(stub.url, tmp_path, "", once=False, stop=stop)
    assert (code, [one["outcome"] for one in reports]) == (0, ["blocked"])


def test_a_decision_that_does_not_block_the_job_is_not_looked_at(tmp_path):
    enough = tmp_path / "enough"
    with serving(Stub()) as stub:
        board = Board(stub)
        board.beat, board.decisions = {**BLOCKED, "status": "in_progress"}, [BUDGET]

        def respond(asked):
            if len(stub.of("/heartbeat")) == 2:
                enough.touch()
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, until(enough))[0] == 0
    assert not [one for one in stub.asked if "/decisions/" in one.path]


def test_while_its_command_waits_for_an_answer_it_runs_on_and_no_seconds_pass(tmp_path):
    enough = tmp_path / "enough"
    script = until(enough)
    with serving(Stub()) as stub:
        board = Board(stub)
        board.decisions = [ASKED]
        beats = []

        def respond(asked):
            if asked.path.endswith("/heartbeat"):
                beats.append(asked.body)
                board.beat = {**BLOCKED, "status": "blocked"}
                if len(beats) == 4:
                    enough.touch()
            return Board.respond(board, asked)

        stub.answer = respond
        code, reports = work(stub.url, tmp_path, script)
    assert (code, reports[0]["outcome"]) == (0, "completed")
    # four beats of half a second, of which the job was blocked since the first
    assert board.used()[-1] < 1.0
    # the decision was looked at once
    assert len([one for one in stub.asked if "/decisions/" in one.path]) == 1


def test_a_spent_budget_ends_the_command_and_the_job_stays_blocked(tmp_path, capfd):
    marker = tmp_path / "went-on"
    script = f"import time, pathlib; time.sleep({LIMIT}); pathlib.Path({str(marker)!r}).touch()"
    with serving(Stub()) as stub:
        board = Board(stub, job={"budget": {"seconds": 1, "count": "reported"}})
        board.beat = {**BLOCKED, "decision": "dec_1_3"}
        board.decisions = [BUDGET]
        code, reports = work(stub.url, tmp_path, script)
        beats = stub.of("/heartbeat")
    assert (code, reports[0]["outcome"]) == (6, "blocked")
    assert not marker.exists()
    assert [name for name, _ in board.writes()] == ["artifacts"]
    assert "CMD was ended: The budget is spent\\u001b." in capfd.readouterr().err
    # beats report the seconds, because the budget counts them
    assert beats[0].body["jobs"][0]["usage"]["seconds"] >= 0.5


def test_a_decision_that_cannot_be_read_is_no_reason_to_end_the_command(tmp_path):
    enough = tmp_path / "enough"
    script = until(enough)
    with serving(Stub()) as stub:
        board = Board(stub)
        board.beat, looked = BLOCKED, []

        def respond(asked):
            if "/decisions/" in asked.path:
                looked.append(asked)
                if len(looked) == 2:
                    enough.touch()
                return problem(404, "not_found")
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, script)[0] == 0


@pytest.mark.parametrize(
    ("script", "ends"),
    [
        ("import time; time.sleep(0.3)", "complete"),
        ("import time; time.sleep(0.3); raise SystemExit(1)", "fail"),
    ],
)
def test_the_seconds_are_reported_when_the_job_ends(script, ends, tmp_path):
    with serving(Stub()) as stub:
        board = Board(stub)
        work(stub.url, tmp_path, script)
    assert board.writes()[-1][0] == ends
    assert 0.3 <= board.used()[-1] < LIMIT


def test_what_owners_say_is_passed_on_once(tmp_path, capfd):
    enough = tmp_path / "enough"
    script = until(enough)
    with serving(Stub()) as stub:
        board = Board(stub)
        board.notices = [
            {"code": "broadcast", "id": "brd_1", "detail": "the registry is down\x1b"},
            {"code": "overdue", "job": "job_1", "detail": "late"},
        ]

        def respond(asked):
            if len(stub.of("/heartbeat")) == 3:
                enough.touch()
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, script)[0] == 0
    said = capfd.readouterr().err
    assert said.count("owners say: the registry is down\\u001b") == 1
    assert "late" not in said


def test_what_is_in_the_way_is_said_once_and_again_when_it_comes_back(tmp_path, capfd):
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Board(stub, jobs=0)
        turns = ["stopped", "stopped", "stopped", "free", "stopped", "free"]

        def respond(asked):
            if not asked.path.endswith("/claims"):
                return Board.respond(board, asked)
            turn = turns.pop(0) if turns else stop.set()
            return problem(409, "stop_requested") if turn == "stopped" else Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "", once=False, stop=stop)[0] == 0
    assert capfd.readouterr().err.count("said stop_requested; asking again") == 2


def test_more_than_a_page_of_left_jobs_are_looked_after_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CLAIMS_PAGE", 2)
    stop = threading.Event()
    with serving(Stub()) as stub:
        board = Board(
            stub, jobs=3, job={"status": "blocked"}, refuse={"complete": problem(409, "wrong_state")}
        )
        named = []

        def respond(asked):
            if asked.path.endswith("/claims") and board.jobs:
                board.job = {**board.job, "id": f"job_{board.jobs}"}
            if asked.path.endswith("/heartbeat"):
                named.append([one["id"] for one in asked.body["jobs"]])
                if len(named) > 8:
                    stop.set()
                return 200, {"claims": [{**BLOCKED, "job": name} for name in named[-1]], "notices": []}
            return Board.respond(board, asked)

        stub.answer = respond
        assert work(stub.url, tmp_path, "", once=False, stop=stop)[0] == 0
    assert max(map(len, named)) == 2
    assert {name for names in named[-3:] for name in names} == {"job_1", "job_2", "job_3"}
