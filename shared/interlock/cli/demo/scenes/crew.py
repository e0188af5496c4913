"""The workers: each an agent of its own that may take any job. One of them will not live long."""

from __future__ import annotations

from interlock.cli.demo import crew, steps
from interlock.cli.demo.scenes import takeover
from interlock.cli.demo.story import Story

WORKERS = ("ada", "ben", "cleo", "dora")
ROLES = ("developer", "qa", "reviewer", "ops")
TASK = (*steps.PYTHON, "-m", "interlock.cli.demo.task")


def play(story: Story) -> None:
    """Enrol and start them."""
    settings = story.client.settings
    heard = takeover.strike(story)
    for name in WORKERS:
        body = {"label": name, "roles": list(ROLES), "tool_family": "shell"}
        environment = {
            "INTERLOCK_URL": settings.url,
            "INTERLOCK_PROJECT": settings.project,
            "INTERLOCK_TOKEN": story.make("agents.create", body)["token"],
        }
        story.workers[name] = crew.start_worker(name, environment, story.stage, TASK, heard)
    story.show.say(f"{len(WORKERS)} workers started, each an agent of its own: {', '.join(WORKERS)}")
