"""The graph by the command line against a real bus: plans, links, cascades, reviews, and workers in the midst of it."""

import json
import sys

import pytest
from tests.acceptance.cli_bus import PROGRAM, eventually, running_bus
from tests.unit.cli_stub import cli

PLAN = """
jobs:
  - {ref: lint, summary: Lint the code, role: qa}
  - {ref: tests, summary: Run the tests, role: qa}
  - ref: notes
    summary: Write the notes
    role: developer
    blocked_by: [lint, tests]
  - ref: review
    summary: Review the notes
    role: reviewer
    blocked_by: [notes]
    routing:
      - {role: ops, summary: Release it, on: completed, when: {field: data.ok, op: eq, value: true}}
"""


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("graph")) as running:
        yield running


@pytest.fixture
def plan(bus, tmp_path):
    """A plan that was applied: ref → id."""
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return bus.json("plan", "apply", str(file))["jobs"]


def status(bus, job):
    return bus.job(job)["status"]


def becomes(bus, job, wanted):
    eventually(lambda: status(bus, job) == wanted)


def done(bus, job, data='{"ok": true}', **who):
    fence = str(bus.json("job", "claim", job, **who)["claim"]["fence"])
    bus.json("job", "complete", job, "--fence", fence, "--data", data, **who)


def test_a_plan_is_checked_and_applied_once(bus, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    before = len(bus.json("job", "list", "--all", "--as", "owner")["items"])
    assert bus.json("plan", "check", str(file)) == {
        "claimable": ["lint", "tests"],
        "pending": ["notes", "review"],
    }
    assert len(bus.json("job", "list", "--all", "--as", "owner")["items"]) == before
    made = bus.json("plan", "apply", str(file), "--key", "once")
    assert bus.json("plan", "apply", str(file), "--key", "once") == made
    assert len(bus.json("job", "list", "--all", "--as", "owner")["items"]) == before + 4
    file.write_text(PLAN.replace("blocked_by: [lint, tests]", "blocked_by: [review]"))
    circle = bus.il("plan", "check", str(file))
    assert circle.code == 4
    assert "jobs/2/blocked_by" in circle.err


def test_the_graph_is_drawn(bus, plan):
    lines = bus.il("job", "graph", plan["notes"]).out.splitlines()
    assert [line.split(maxsplit=3)[:3] for line in lines[::2]] == [
        ["1", "○", "published"],
        ["2", "○", "published"],
        ["3", "◌", "pending"],
        ["4", "◌", "pending"],
    ]
    assert lines[4].endswith("Write the notes  (this job)")
    assert lines[5].split(maxsplit=2) == ["developer", plan["notes"], "blocked by 1, 2"]
    near = bus.json("job", "graph", plan["lint"], "--depth", "1")
    assert {node["id"] for node in near["nodes"]} == {plan["lint"], plan["notes"]}
    assert near["truncated"]
    shown = bus.il("job", "show", plan["notes"]).out
    assert f"blocked by  {plan['tests']}  open" in shown
    assert f"blocks      {plan['review']}" in shown


def test_a_failure_cascades_and_is_revived(bus, plan):
    root = plan["tests"]
    fence = str(bus.claim(root))
    bus.json("job", "fail", root, "--fence", fence, "--reason", "boom")
    waited = bus.il("job", "wait", plan["review"])
    assert waited.code == 1
    assert f"it began with {root}" in waited.err
    shown = bus.job(plan["review"])
    assert shown["caused_by"] == {"upstreams": [plan["notes"]], "root": root}
    refused = bus.il("job", "retry", plan["review"])
    assert refused.code == 4
    assert root in refused.err
    bus.json("job", "retry", root)
    becomes(bus, plan["review"], "pending")
    done(bus, root)
    done(bus, plan["lint"])
    becomes(bus, plan["notes"], "published")


def test_a_link_holds_back_and_never_in_a_circle(bus):
    first, second = bus.publish("first"), bus.publish("second")
    assert bus.json("job", "link", second, first)["job"]["status"] == "pending"
    assert bus.il("job", "link", first, second).code == 4
    assert bus.il("job", "link", first, first).code == 4
    assert bus.il("job", "link", first, "job_" + "0" * 26).code == 1
    waits = bus.il("job", "claim", second)
    assert (waits.code, "waiting_upstream" in waits.err) == (4, True)
    done(bus, first)
    becomes(bus, second, "published")
    bound = bus.publish(
        "bound", "--blocked-by", first, "--blocked-by", second, "--on-upstream-failure", "continue"
    )
    assert status(bus, bound) == "pending"
    fence = str(bus.claim(second))
    bus.json("job", "cancel", second, "--fence", fence, "--reason", "not needed")
    becomes(bus, bound, "published")


def test_a_review_sends_back_and_accepts_the_retry(bus, plan):
    for check in ("lint", "tests", "notes"):
        eventually(lambda check=check: status(bus, plan[check]) == "published")
        done(bus, plan[check])
    becomes(bus, plan["review"], "published")
    own = bus.il("job", "claim", plan["review"])
    assert (own.code, "excluded" in own.err) == (4, True)
    judge = bus.agent("judge", "reviewer")
    claimed = bus.json("job", "claim", plan["review"], **judge)
    assert [up["result"]["data"] for up in claimed["upstream_results"]] == [{"ok": True}]
    fence = str(claimed["claim"]["fence"])
    sent = ("job", "reject", plan["review"], plan["notes"], "--reason", "no checksums", "--fence", fence)
    retry = bus.json(*sent, **judge)["retry"]["id"]
    assert bus.il(*sent, **judge).code == 4
    context = bus.json("job", "reopen-context", retry)
    assert (context["original"], context["reason"]) == (plan["notes"], "no checksums")
    assert "no checksums" in bus.il("job", "reopen-context", retry).out
    assert bus.il("job", "reopen-context", plan["lint"]).code == 1
    assert f"retried by  {retry}" in " ".join(bus.il("job", "show", plan["notes"]).out.split("\n"))
    becomes(bus, plan["review"], "pending")
    done(bus, retry)
    becomes(bus, plan["review"], "published")
    done(bus, plan["review"], **judge)
    graph = eventually(lambda: routed(bus, plan["review"]))
    assert {(e["from"], e["to"], e["type"]) for e in graph["edges"]} >= {
        (plan["notes"], retry, "reopen_of"),
        (retry, plan["review"], "blocks"),
    }


def routed(bus, job):
    """The graph, once the rule has made its job."""
    graph = bus.json("job", "graph", job)
    return graph if any(e["type"] == "routed_from" for e in graph["edges"]) else None


def test_workers_get_results_and_reasons_and_may_send_back(bus, tmp_path):
    """A review as a command: it rejects what has no data, which the retry's command mends with the reason it gets."""
    bus.json("role", "add", "writes")
    bus.json("role", "add", "judges", "--independent")
    writer, judge = bus.agent("writer", "writes"), bus.agent("judging", "judges")
    write = "import json, sys; job = json.load(sys.stdin); why = job['reopen_context']; print(json.dumps({'text': why['reason'] if why else None}))"
    judges = (
        "import json, subprocess, sys; job = json.load(sys.stdin); (up,) = job['upstream_results']; "
        f"text = up['result']['data']['text']; text and sys.exit(print(json.dumps({{'read': text}}))); "
        f"sys.exit(subprocess.run([*{PROGRAM!r}, 'job', 'reject', job['id'], up['id'], '--reason', 'say something']).returncode)"
    )

    def once(script, who, role):
        command = (sys.executable, "-c", script)
        ended = cli(
            "work",
            "--role",
            role,
            "--once",
            "--json",
            "--logs",
            str(tmp_path),
            "--",
            *command,
            token=None,
            **who,
        )
        return ended.code, json.loads(ended.out)["outcome"]

    work = bus.publish("write", role="writes")
    review = bus.publish("judge", "--blocked-by", work, role="judges")
    assert once(write, writer, "writes") == (0, "completed")
    becomes(bus, review, "published")
    assert once(judges, judge, "judges") == (0, "rejected")
    assert once(write, writer, "writes") == (0, "completed")
    becomes(bus, review, "published")
    assert once(judges, judge, "judges") == (0, "completed")
    assert bus.job(review)["result"]["data"] == {"read": "say something"}
