"""The stop: an agent hangs, an owner stops it, somebody else takes its job, and the owner lets it claim again."""

from __future__ import annotations

from typing import Any

from interlock.cli.demo.story import Story

HANGS = "links"
REASON = "it hangs"


def play(story: Story) -> None:
    """Stop whoever claimed the job first; wait for another one to take it over."""
    job = story.ids[HANGS]
    story.until(lambda: _holders(story, job), f"nobody claimed {HANGS}")
    held = story.read(job)
    agent, who = held["assignee"], held["assignee_label"]
    story.say(
        HANGS, f"{who} beats, but does not move: an owner stops the agent, and its job goes back to the board"
    )
    story.make("agents.stop", {"reason": REASON, "then": "publish"}, agent=agent)
    story.until(lambda: _holders(story, job) - {who}, f"nobody took {HANGS} from {who}")
    story.make("projects.resume", {"agent": agent, "reason": "started anew"})
    story.say(HANGS, f"an owner lets {who} claim again")
    workers: dict[str, Any] = {
        one["label"]: one for one in story.client.call("system.workers", query={"limit": 100}).value["items"]
    }
    story.found["stopped"] = {"worker": who, "job": job, "taken_by": sorted(_holders(story, job) - {who})}
    if workers[who]["stop"] is not None:
        story.problems.append(f"{who} should be free to claim again: {workers[who]}")


def _holders(story: Story, job: str) -> set[str]:
    return {who for held, who, _ in story.claims if held == job}
