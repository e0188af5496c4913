"""Coordination on a real bus with real shell workers: a crash, a sleeper that comes back, a question, stops, budgets."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.acceptance.cli_bus import eventually, lines, running_bus
from tests.unit.cli_stub import cli

PYTHON = sys.executable
NUMBERS = itertools.count(1)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")

SCRIPT = """
import json, os, pathlib, subprocess, sys, time
job = json.load(sys.stdin)
what, _, folder = job["summary"].partition(" in ")
place = pathlib.Path(folder)
il = [sys.executable, "-m", "interlock.cli.main"]
first = not (place / what).exists()
(place / what).write_text(str(os.getpid()))
with (place / "runs").open("a") as runs:
    print(what, file=runs)
if what in {"crash", "hang"} and first:
    time.sleep(120)
if what == "sleep" and first:
    while not (place / "go").exists():
        time.sleep(0.05)
if what == "ask":
    texts = ["--prompt", "Which colour?", "--blocker", "the paint", "--risk", "paint it twice"]
    options = ["--option", "red", "--option", "blue"]
    asked = subprocess.run(
        [*il, "job", "ask", job["id"], *texts, *options, "--until-answered", "--resume", "--json"], stdout=subprocess.PIPE
    )
    print(json.dumps({"exit": asked.returncode, "colour": json.loads(asked.stdout)["decision"]["answer"]}))
elif what == "spend" and first:
    subprocess.run([*il, "heartbeat", "--job", job["id"], "--usage", '{"usd": 2, "model": "m"}'], check=True, stdout=2)
    time.sleep(120)
else:
    print(json.dumps({"done": what, "decided": [one["answer"] for one in job["decisions"]]}))
"""


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("coordination")) as running:
        yield running


class Team:
    """Workers of one role, with beats of two seconds; whatever still runs at the end is killed."""

    def __init__(self, bus, role, folder):
        self.bus, self.role, self.folder = bus, role, folder
        self.processes = []
        bus.json("role", "add", role)

    def worker(self, label, *args):
        environment = {**self.bus.agent(label, self.role), "TMPDIR": str(self.folder)}
        logs = str(self.folder / "logs")
        options = ("--role", self.role, "--json", "--logs", logs, "--heartbeat", "2", "--grace", "1")
        process = self.bus.start("work", *options, *args, "--", PYTHON, "-c", SCRIPT, environment=environment)
        process.token = environment["INTERLOCK_TOKEN"]
        self.processes.append(process)
        return process

    def publish(self, what, *args):
        return self.bus.publish(f"{what} in {self.folder}", *args, role=self.role)

    def begun(self, what):
        """The process id of the command that runs for it."""
        return int(eventually(lambda: (self.folder / what).exists() and (self.folder / what).read_text()))

    def runs(self):
        return (self.folder / "runs").read_text().split()

    def workers(self):
        return {one["label"]: one for one in self.bus.json("workers", "--all")["items"]}

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def team(bus, tmp_path):
    made = Team(bus, f"team-{next(NUMBERS)}", tmp_path)
    yield made
    made.end()


def types(bus, job):
    return [event["type"].removeprefix("job.") for event in bus.json("job", "events", job)["items"]]


def test_a_crash_a_sleeper_and_a_question_come_to_one_end_each(bus, team):
    slow = bus.publish("never beats", role=team.role)
    by_hand = bus.agent("by-hand", team.role)
    slow_fence = cli("job", "claim", slow, "--lease", "3600", "--json", token=None, **by_hand).document[
        "claim"
    ]["fence"]
    crash = team.publish("crash")
    crashing = team.worker("crashing")
    victim = team.begun("crash")
    sleep = team.publish("sleep")
    sleeping = team.worker("sleeping")
    team.begun("sleep")
    ask = team.publish("ask")
    asking = team.worker("asking")
    lost = {crash: bus.job(crash)["fence"], sleep: bus.job(sleep)["fence"]}

    crashing.send_signal(signal.SIGKILL)
    os.kill(victim, signal.SIGKILL)
    sleeping.send_signal(signal.SIGSTOP)

    question = eventually(lambda: bus.json("decisions", "--job", ask)["items"])[0]
    assert (question["prompt"], question["options"], question["state"]) == (
        "Which colour?",
        ["red", "blue"],
        "open",
    )
    assert bus.job(ask)["status"] == "blocked"
    assert f"interlock decide {question['id']} blue" in bus.il("decisions", question["id"]).out
    assert question["id"] in [one.get("decision") for one in bus.json("attention", "--all")["items"]]
    held = team.workers()
    assert [one["job"] for one in held["asking"]["holds"]] == [ask]
    # whoever holds the job may not answer
    own = cli("decide", question["id"], "red", "--json", url=bus.url, token=asking.token)
    assert own.code == 5
    assert bus.json("decide", question["id"], "blue")["job"]["id"] == ask
    again = bus.json("decide", question["id"], "red", code=4)
    assert again["code"] == "decision_closed"
    assert bus.json("job", "wait", ask, "--through-blocks")["job"]["result"]["data"] == {
        "exit": 0,
        "colour": "blue",
    }
    assert bus.job(ask)["fence"] == 1

    # the one that is left takes over what the others held, when their leases are over
    for job, what in ((crash, "crash"), (sleep, "sleep")):
        done = bus.json("job", "wait", job, "--timeout", "60")["job"]
        assert (done["assignee_label"], done["attempt"]) == ("asking", 2)
        assert done["result"]["data"]["done"] == what
    for name in ("crashing", "sleeping"):
        eventually(lambda name=name: team.workers()[name]["state"] == "stale")
    assert team.workers()["asking"]["state"] in {"idle", "working"}

    # the sleeper comes back: its command has ended, what it says is not taken
    (team.folder / "go").touch()
    sleeping.send_signal(signal.SIGCONT)
    report = json.loads(sleeping.stdout.readline())
    assert (report["job"], report["outcome"]) == (sleep, "lost")
    late = cli(
        "job", "complete", sleep, "--fence", str(lost[sleep]), "--json", url=bus.url, token=sleeping.token
    )
    assert (late.code, late.document["code"]) == (4, "lease_lost")
    assert eventually(lambda: team.workers()["sleeping"]["state"] != "stale")

    # nothing twice
    for job in (ask, crash, sleep):
        assert types(bus, job).count("completed") == 1
    assert types(bus, sleep).count("lease_expired") == types(bus, crash).count("lease_expired") == 1
    assert sorted(team.runs()) == ["ask", "crash", "crash", "sleep", "sleep"]

    # a claim that never beats has stayed what it was
    done = cli("job", "complete", slow, "--fence", str(slow_fence), "--json", token=None, **by_hand)
    assert done.document["job"]["status"] == "completed"
    assert types(bus, slow) == ["created", "claimed", "completed"]
    assert bus.il("audit", "verify").code == 0


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_an_owner_stops_a_job_in_flight_and_the_worker_goes_on(bus, team):
    job = team.publish("hang")
    process = team.worker("halted")
    pid = team.begun("hang")
    bus.json("job", "stop", job, "--reason", "enough", "--then", "cancel")
    report = json.loads(process.stdout.readline())
    assert (report["job"], report["outcome"]) == (job, "lost")
    assert eventually(lambda: gone(pid))
    assert bus.job(job)["status"] == "cancelled"
    other = team.publish("other")
    assert bus.json("job", "wait", other)["job"]["assignee_label"] == "halted"


def test_an_owner_stops_an_agent_until_it_is_resumed(bus, team):
    job = team.publish("hang")
    process = team.worker("stopped-agent")
    pid = team.begun("hang")
    bus.json("agent", "stop", "stopped-agent", "--reason", "wrong model")
    assert json.loads(process.stdout.readline())["outcome"] == "lost"
    assert eventually(lambda: gone(pid))
    assert (bus.job(job)["status"], bus.job(job)["fence"]) == ("published", 2)
    shown = team.workers()["stopped-agent"]
    assert (shown["stop"]["reason"], shown["holds"]) == ("wrong model", [])
    refused = cli("job", "claim", job, "--json", url=bus.url, token=process.token)
    assert (refused.code, refused.document["code"]) == (4, "stop_requested")
    bus.json("resume", "--agent", "stopped-agent")
    assert bus.json("job", "wait", job, "--timeout", "60")["job"]["assignee_label"] == "stopped-agent"


BUDGETS = {
    "reported": ("spend", ("--budget-usd", "1"), ("--usd", "10")),
    "metered": ("hang", ("--budget-seconds", "1", "--budget-count", "metered"), ("--seconds", "3600")),
}


@pytest.mark.parametrize("count", list(BUDGETS))
def test_a_spent_budget_ends_the_command_and_an_owner_raises_it(count, bus, team):
    what, budget, new = BUDGETS[count]
    job = team.publish(what, *budget)
    process = team.worker(f"spender-{count}")
    pid = team.begun(what)
    report = json.loads(process.stdout.readline())
    assert (report["job"], report["outcome"]) == (job, "blocked")
    assert eventually(lambda: gone(pid))
    found = bus.job(job)
    assert (found["status"], found["budget"]["spent"]) == ("blocked", True)
    assert found["usage"]["reported"]["usd"] == (2 if count == "reported" else 0)
    decision = bus.json("decisions", found["decision"])["decision"]
    assert (decision["cause"], decision["options"]) == ("budget", ["raise", "stop", "cancel"])
    assert bus.json("job", "wait", job, code=6)["job"]["status"] == "blocked"
    bus.json("decide", decision["id"], "raise", *new)
    done = bus.json("job", "wait", job, "--through-blocks", "--timeout", "60")["job"]
    assert (done["status"], done["fence"]) == ("completed", 1)
    # run again under the same claim, the command sees what was decided
    assert done["result"]["data"] == {"done": what, "decided": ["raise"]}
    assert types(bus, job).count("budget_exceeded") == 1


def test_a_command_that_asks_and_ends_is_run_again_with_the_answer(bus, team, tmp_path):
    environment = {**bus.agent("asks-and-ends", team.role), "TMPDIR": str(tmp_path)}
    script = (
        "import json, os, subprocess, sys; job = json.load(sys.stdin)\n"
        "if job['decisions']: print(json.dumps({'told': job['decisions'][0]['answer']})); sys.exit(0)\n"
        "il = [sys.executable, '-m', 'interlock.cli.main', 'job', 'ask', job['id'], '--kind', 'approval', '--prompt', 'May I?']\n"
        "sys.exit(subprocess.run(il).returncode)\n"
    )
    job = bus.publish("asks", role=team.role)
    process = bus.start(
        "work", "--role", team.role, "--json", "--heartbeat", "2", "--logs", str(tmp_path / "logs"), "--", PYTHON, "-c", script,
        environment=environment,
    )  # fmt: skip
    team.processes.append(process)
    question = eventually(lambda: bus.json("decisions", "--job", job)["items"])[0]
    assert json.loads(process.stdout.readline())["outcome"] == "blocked"
    # meanwhile it works on other jobs
    other = bus.publish("other", role=team.role)
    eventually(lambda: bus.job(other)["status"] == "blocked")
    bus.json("decide", question["id"], "approve")
    assert bus.json("job", "wait", job, "--through-blocks")["job"]["result"]["data"] == {"told": "approve"}
    process.terminate()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert [one["outcome"] for one in lines(out)] == ["blocked", "completed"]
    assert Path(tmp_path / "logs").exists()
