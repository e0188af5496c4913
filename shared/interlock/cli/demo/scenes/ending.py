"""The end: workers stop, every job is judged, the graph is drawn as it ended, the ledger is verified."""

from __future__ import annotations

from interlock.cli import audit
from interlock.cli.demo import crew, telling
from interlock.cli.demo.story import Story


def play(story: Story) -> None:
    """Judge what has become of everything."""
    codes = crew.end(*(worker.process for worker in story.workers.values()))
    killed = story.found.get("killed", {}).get("worker")
    # Why a job failed explains why a scene was not played to its end: it is said first.
    story.problems[:0] = _judged(story)
    for name, code in zip(story.workers, codes, strict=True):
        if code and name != killed:
            story.problems.append(f"worker {name} ended with exit code {code}")
    middle = {"job": story.ids["review"]}
    story.found["graph"] = story.client.call("jobs.graph", query={"depth": 50}, path=middle).value
    story.found["ledger"] = audit.of_bus(story.client)
    if not story.found["ledger"]["ok"]:
        story.problems.append("the ledger does not verify")


def _judged(story: Story) -> list[str]:
    problems = []
    victim, killed = next(iter(story.ids)), story.found.get("killed", {}).get("worker")
    for name, job in story.ids.items():
        found = story.jobs[job] = story.read(job)
        if found["status"] != "completed":
            problems.append(f"{name} is {found['status']}: {telling.brief(found.get('failure_reason'))}")
        if name == victim and (found["attempt"] < 2 or found["assignee_label"] == killed):
            problems.append(f"{name} should have been taken over: attempt {found['attempt']}")
    return problems
