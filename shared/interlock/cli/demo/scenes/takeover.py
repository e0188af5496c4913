"""The takeover: a worker is killed in mid-job, its lease lapses, another one finishes, and its late write is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from interlock.cli.client import Client, RefusedError
from interlock.cli.demo.crew import Worker
from interlock.cli.demo.story import Story
from interlock.cli.demo.task import BEGUN
from interlock.cli.settings import Settings


def strike(story: Story) -> Callable[[Worker, str], None]:
    """What hears the workers' lines (on their threads): the first that begins the first job is killed."""
    victim, begun = next(iter(story.ids)), threading.Lock()

    def heard(worker: Worker, line: str) -> None:
        if line.split() == [BEGUN, victim] and begun.acquire(blocking=False):
            story.found["killed"] = {"worker": worker.name, "at": round(story.show.seconds, 1)}
            worker.kill()

    story.look_on = lambda: _tell(story, victim)
    return heard


def _tell(story: Story, victim: str) -> None:
    """Say the kill after the claim that it hit, whose fence the late write will carry."""
    killed, job = story.found.get("killed"), story.ids[victim]
    if not killed or "fence" in killed:
        return
    fence = next((f for held, who, f in story.claims if held == job and who == killed["worker"]), None)
    if fence is not None:
        story.found["killed"] = {**killed, "job": job, "fence": fence}
        story.say(victim, f"kill -9 {killed['worker']}, in the middle of it; its lease runs on")


def play(story: Story) -> None:
    """Wait until somebody else holds the job, then let the killed worker's completion arrive after all."""
    victim = next(iter(story.ids))
    story.until(lambda: "fence" in story.found.get("killed", {}), f"nobody began {victim}")
    killed: dict[str, Any] = story.found["killed"]
    story.until(lambda: _taken_over(story.job(victim), killed), f"nobody took over {victim}")
    settings = story.client.settings
    worker = story.workers[killed["worker"]]
    late = Client(Settings(settings.url, settings.project, agent_token=worker.token), "agent")
    body = {"fence": killed["fence"], "result": {"summary": "done, I thought"}}
    try:
        late.call("claims.complete", body, path={"job": killed["job"]})
    except RefusedError as refused:
        found = {"status": refused.status, "code": refused.problem_code, "detail": refused.detail}
        story.say(
            victim,
            f"{worker.name}'s late write with fence {body['fence']} is refused: {found['status']} {found['code']}",
        )
    else:
        found = {"code": "taken"}
    story.found["late_write"] = found
    if found["code"] != "lease_lost":
        story.problems.append(f"the late write should answer lease_lost: {found}")


def _taken_over(job: dict[str, Any], killed: dict[str, Any]) -> bool:
    return job["fence"] > killed["fence"] and job["assignee_label"] not in {None, killed["worker"]}
