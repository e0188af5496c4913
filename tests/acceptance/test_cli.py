"""The command line against a real bus: every command, as a user would type it."""

import json
import subprocess
import threading
import uuid

import pytest
from tests.acceptance.cli_bus import PROGRAM, eventually, lines, running_bus

from interlock.cli.client import Client
from interlock.cli.settings import load


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("cli")) as running:
        yield running


def test_credentials_are_found_from_the_folder_upwards(bus):
    assert bus.json("whoami")["actor"]["kind"] == "agent"
    assert bus.json("whoami", "--as", "owner")["actor"]["kind"] == "owner"
    status = bus.json("status")
    assert status["url"] == bus.url
    assert status["health"]["status"] == "ok"
    assert "agent-1" in bus.il("status").out


def test_a_job_from_publish_to_complete(bus):
    job = bus.publish(
        "first",
        "--context",
        '{"k": [1, null]}',
        "--constraint",
        "green",
        "--external-id",
        "X-1",
        "--priority",
        "urgent",
    )
    assert bus.json("job", "list", "--external-id", "X-1")["items"][0]["id"] == job
    assert bus.json("job", "explain", job)["claimable"]
    claimed = bus.json("job", "next", "--role", "qa", "--session", "s", "--heartbeat", "30")
    assert claimed["job"]["context"] == {"k": [1, None]}
    fence = str(claimed["claim"]["fence"])
    assert bus.json("whoami")["claims"][0]["job"] == job
    assert bus.json("heartbeat", "--session", "s")["claims"][0]["fence"] == int(fence)
    attached = bus.json(
        "job", "attach", job, "--type", "report", "--uri", "https://example.invalid/r", "--fence", fence
    )["artifact"]
    assert bus.json("job", "artifact", job, attached["id"])["artifact"] == attached
    assert (
        bus.json("job", "record", job, "custom.note", "--data", '{"n": 1}')["event"]["type"] == "custom.note"
    )
    done = bus.json("job", "complete", job, "--fence", fence, "--summary", "done", "--data", '{"ok": true}')[
        "job"
    ]
    assert (done["status"], done["result"]["data"]) == ("completed", {"ok": True})
    again = bus.json("job", "complete", job, "--fence", fence, "--summary", "done", "--data", '{"ok": true}')[
        "job"
    ]
    assert again["version"] == done["version"]
    types = [event["type"] for event in bus.json("job", "events", job)["items"]]
    assert types == ["job.created", "job.claimed", "job.artifact_added", "custom.note", "job.completed"]
    text = bus.il("job", "show", job).out
    assert "completed  first" in text
    assert "must  green" in text


def test_block_unblock_resume_release(bus):
    job = bus.publish()
    fence = ("--fence", str(bus.claim(job)))
    assert bus.json("job", "block", job, *fence, "--reason", "waiting")["job"]["status"] == "blocked"
    assert bus.json("job", "wait", job, code=6)["job"]["blocked_reason"] == "waiting"
    assert bus.json("job", "unblock", job, "--reason", "go on")["job"]["status"] == "unblocked"
    assert bus.json("job", "resume", job, *fence)["job"]["status"] == "in_progress"
    assert bus.json("job", "release", job, *fence)["job"]["status"] == "published"
    assert bus.json("job", "release", job, *fence, code=4)["code"] == "lease_lost"


def test_fail_restart_retry_stop_cancel(bus):
    job = bus.publish("hard", "--max-retries", "5")
    fence = str(bus.claim(job))
    failed = bus.json("job", "fail", job, "--fence", fence, "--reason", "no", "--data", '{"why": 1}')["job"]
    assert failed["failure_reason"] == "no"
    assert bus.json("job", "wait", job, code=1)["job"]["status"] == "failed"
    again = bus.json("job", "restart", job)
    bus.json("job", "fail", job, "--fence", str(again["claim"]["fence"]), "--reason", "no")
    assert bus.json("job", "retry", job, "--max-retries", "7")["job"]["max_retries"] == 7
    fence = str(bus.claim(job))
    stopped = bus.json("job", "stop", job, "--reason", "enough", "--then", "publish", "--role", "ops")["job"]
    assert (stopped["status"], stopped["role"]) == ("published", "ops")
    assert bus.json("job", "complete", job, "--fence", fence, code=4)["code"] == "stop_requested"
    assert bus.json("job", "cancel", job, "--reason", "never mind")["job"]["status"] == "cancelled"
    assert bus.il("job", "wait", job).code == 1


def test_edit_asks_for_the_version_that_was_read(bus):
    job = bus.publish("old")
    assert bus.json("job", "edit", job, "--summary", "new", "--priority", "low")["job"]["summary"] == "new"
    assert (
        bus.json("job", "edit", job, "--summary", "x", "--if-match", '"v1"', code=4)["code"]
        == "version_mismatch"
    )
    bus.json("job", "cancel", job, "--reason", "tidy")


def test_wait_sees_a_completion_that_comes_later_and_gives_up_in_time(bus):
    job = bus.publish()
    assert bus.json("job", "wait", job, "--timeout", "0.1", code=75)["job"]["status"] == "published"
    fence = str(bus.claim(job))
    waiting = bus.start("job", "wait", job, "--json", environment={})
    try:
        bus.json("job", "complete", job, "--fence", fence)
        out, _ = waiting.communicate(timeout=30)
    finally:
        waiting.kill()
        waiting.wait()
    assert waiting.returncode == 0
    assert json.loads(out)["job"]["status"] == "completed"


def test_a_repeat_with_the_same_key_makes_nothing_new(bus):
    one = bus.json("job", "publish", "once", "--role", "ops", "--key", "k1")["job"]
    other = bus.json("job", "publish", "once", "--role", "ops", "--key", "k1")["job"]
    assert one["id"] == other["id"]
    assert (
        bus.json("job", "publish", "twice", "--role", "ops", "--key", "k1", code=1)["code"]
        == "idempotency_mismatch"
    )
    bus.json("job", "cancel", one["id"], "--reason", "tidy")


def test_nothing_to_claim_is_3(bus):
    assert bus.json("job", "next", "--role", "reviewer", code=3)["job"] is None
    assert bus.json("job", "next", "--role", "nobody", code=1)["code"] == "unknown_role"


def test_roles(bus):
    assert (
        bus.json("role", "add", "docs", "--label", "Writers", "--lease-seconds", "60")["role"][
            "lease_seconds"
        ]
        == 60
    )
    assert bus.json("role", "edit", "docs", "--on-expire", "fail")["role"]["on_expire"] == "fail"
    assert "docs" in [role["key"] for role in bus.json("role", "list")["items"]]
    assert "Writers" in bus.il("role", "list").out
    bus.json("role", "delete", "docs")
    assert bus.json("job", "publish", "x", "--role", "docs", code=1)["code"] == "unknown_role"


def test_agents_and_their_tokens(bus):
    made = bus.json("agent", "add", "ada", "--role", "qa", "--capability", "linux", "--tool-family", "shell")
    assert made["token"].startswith("il_agt_default.")
    assert "ada" in bus.il("agent", "list").out
    assert bus.json("agent", "show", "ada")["agent"]["capabilities"] == ["linux"]
    assert bus.json("agent", "edit", "ada", "--role", "qa", "--role", "ops")["agent"]["roles"] == [
        "qa",
        "ops",
    ]
    second = bus.json("agent", "token", "ada", "--name", "laptop", "--expires-in", "3600")
    rotated = bus.json("agent", "rotate", "ada", second["id"], "--grace", "0")

    def who(token):
        return bus.il("whoami", url=bus.url, INTERLOCK_TOKEN=token)

    assert who(rotated["token"]).code == 0
    assert who(second["token"]).code == 5
    bus.json("agent", "revoke", "ada", rotated["id"])
    assert "token_revoked" in who(rotated["token"]).err
    assert bus.json("agent", "retire", "ada")["agent"]["retired_at"]
    assert who(made["token"]).code == 5
    assert bus.il("whoami", "--token-stdin", url=bus.url, stdin=made["token"]).code == 5


@pytest.mark.parametrize("where", [(), ("--installation",)])
def test_owners_and_their_tokens(bus, where):
    label = f"olga{len(where)}"
    made = bus.json("owner", "add", label, "--rights", "viewer", *where)
    assert made["owner"]["rights"] == "viewer"
    assert label in [owner["label"] for owner in bus.json("owner", "list", *where)["items"]]
    token = bus.json("owner", "token", label, *where)
    rotated = bus.json("owner", "rotate", label, token["id"], *where)
    assert bus.il("job", "list", url=bus.url, INTERLOCK_TOKEN=rotated["token"]).code == 0
    assert (
        bus.il("job", "publish", "x", "--role", "qa", url=bus.url, INTERLOCK_TOKEN=rotated["token"]).code == 5
    )
    bus.json("owner", "revoke", label, rotated["id"], *where)
    assert bus.json("owner", "remove", label, *where)["owner"]["removed_at"]
    assert bus.il("job", "list", url=bus.url, INTERLOCK_TOKEN=made["token"]).code == 5


def test_projects(bus):
    assert bus.json("project", "create", "blue", "--title", "Blue")["project"]["id"] == "blue"
    assert {"default", "blue"} <= {project["id"] for project in bus.json("project", "list")["items"]}
    assert (
        bus.json("project", "edit", "blue", "--settings", '{"lease_seconds": 90}')["project"]["settings"][
            "lease_seconds"
        ]
        == 90
    )
    assert bus.json("project", "show", "--project", "blue")["project"]["title"] == "Blue"
    assert bus.json("role", "list", "--project", "blue")["items"] == []
    assert bus.json("project", "create", "blue", "--title", "Blue", code=4)["code"] == "already_exists"


def test_pause_and_resume(bus):
    job = bus.publish(role="reviewer")
    assert bus.json("pause", "--role", "reviewer", "--reason", "lunch")["paused"][0]["reason"] == "lunch"
    assert bus.json("job", "next", "--role", "reviewer", code=3)["skipped"]["paused"] == 1
    assert bus.json("job", "claim", job, code=4)["code"] == "paused"
    assert not bus.json("job", "explain", job)["claimable"]
    assert "paused" in bus.il("job", "explain", job).out
    assert bus.json("resume", "--role", "reviewer")["paused"] == []
    bus.json("pause")
    bus.json("resume")
    bus.json("job", "cancel", job, "--reason", "tidy")


def test_attention_names_what_waits_for_an_owner(bus):
    job = bus.publish()
    fence = bus.json("job", "claim", job)["claim"]["fence"]
    bus.json("job", "block", job, "--fence", str(fence), "--reason", "which database?")
    (item,) = [one for one in bus.json("attention", "--all")["items"] if one.get("job") == job]
    assert (item["kind"], item["allowed"]) == ("blocked", ["unblock", "stop", "cancel"])
    assert "which database?" in bus.il("attention").out
    assert bus.json("status")["attention"]["kinds"]["blocked"] >= 1
    bus.json("job", "cancel", job, "--reason", "tidy")
    assert job not in bus.il("attention", "--all").out


def test_stats_events_and_dead_letters(bus):
    job = bus.publish(role="ops")
    assert bus.json("stats")["stats"]["published"]["ops"]["count"] >= 1
    assert "READY" in bus.il("stats").out
    ended = bus.il("events", "--last", "5", "--json")
    assert len(lines(ended.out)) == 5
    cursor = ended.err.rsplit(" ", 1)[1].strip()
    bus.json("job", "cancel", job, "--reason", "tidy")
    after = eventually(lambda: lines(bus.il("events", "--after", cursor, "--json").out))
    assert after[-1]["type"] == "job.cancelled"
    assert "job.cancelled published → cancelled by local owner" in bus.il("events", "--after", cursor).out
    assert bus.json("dead-letters", "list")["total"] == 0
    assert bus.json("dead-letters", "redrive") == {"queues": []}
    assert bus.json("dead-letters", "redrive", "--queue", "lease-dead")["queues"][0]["redriven"] == 0


def test_an_agents_hostile_text_is_shown_as_data(bus):
    job = bus.publish("\x1b[2J[red]boo[/red]\u202e", role="ops")
    shown = bus.il("job", "list", "--status", "published").out + bus.il("job", "show", job).out
    assert "\x1b" not in shown
    assert "\\u001b[2J[red]boo[/red]\\u202e" in shown
    bus.json("job", "cancel", job, "--reason", "tidy")


def test_rights_are_the_buss_to_judge(bus):
    assert bus.json("role", "add", "x", "--as", "agent", code=5)["code"] == "forbidden"
    assert bus.json("job", "next", "--as", "owner", code=5)["code"] == "forbidden"
    assert bus.json("job", "show", "job_nobody", code=1)["code"] == "not_found"
    assert (
        bus.json("whoami", url=bus.url, INTERLOCK_TOKEN="il_agt_default.agt_x.y", code=5)["code"]
        == "token_invalid"
    )


def test_doctor_and_audit_find_nothing_wrong(bus):
    doctor = bus.json("doctor")
    assert doctor["ok"], doctor
    assert {check["state"] for check in doctor["checks"]} == {"ok"}
    assert bus.json("doctor", "--repair")["repairs"] == []
    assert bus.json("audit", "verify")["ok"]
    assert "all digests fit" in bus.il("audit", "verify").out


def test_audit_verifies_hundreds_of_jobs_while_more_are_written(bus):
    stop = threading.Event()

    def write():
        client = Client(load(environment={}, folder=bus.folder))
        while not stop.is_set():
            client.call("jobs.create", {"summary": "more", "role": "developer"}, key=uuid.uuid4().hex)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        eventually(lambda: bus.json("stats")["stats"]["published"]["developer"]["count"] >= 120)
        report = bus.json("audit", "verify")
    finally:
        stop.set()
        thread.join()
    assert report["ok"], report["findings"][:3]
    assert report["entities"] > 120


def test_an_export_of_the_events_verifies_and_a_tampered_one_does_not(bus, tmp_path):
    job = bus.publish("evidence")
    bus.json("job", "cancel", job, "--reason", "tidy")
    events = bus.json("job", "events", job)["items"]
    file = tmp_path / "export.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert bus.json("audit", "verify", "--file", str(file)) == {
        "ok": True,
        "entities": 1,
        "events": 2,
        "findings": [],
        "heads": False,
    }
    events[1]["actor"]["label"] = "somebody else"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    found = bus.json("audit", "verify", "--file", str(file), code=1)["findings"]
    assert found == [
        {"entity": f"job/{job}", "seq": 2, "kind": "broken", "detail": "its content does not fit its digest"}
    ]


def test_the_installed_program_speaks_json_on_stdout_and_the_rest_on_stderr(bus):
    done = subprocess.run([*PROGRAM, "whoami", "--json"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["project"] == "default"
    refused = subprocess.run([*PROGRAM, "job", "show", "job_x"], capture_output=True, check=False, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "not_found" in refused.stderr


def test_up_with_a_command_hands_it_both_credentials(tmp_path):
    inner = [*PROGRAM, "job", "publish", "inside", "--role", "qa", "--json"]
    done = subprocess.run(
        [*PROGRAM, "up", "--port", "0", "--data", str(tmp_path / "d"), "--json", "--", *inner],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[1])["job"]["source_label"] == "local owner"


def test_a_reader_that_has_enough_is_no_error(bus):
    done = subprocess.run(
        f"{' '.join(PROGRAM)} events --last 1000 | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "0", done
    assert "Traceback" not in done.stderr
