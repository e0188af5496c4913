"""The follow-up: a rule of the review makes the next job, because its guard holds of the result."""

from __future__ import annotations

from interlock.cli.demo.scenes.review import REVIEW
from interlock.cli.demo.story import Story

NEXT = "release"


def play(story: Story) -> None:
    """Wait for the job that the rule made."""
    story.until(lambda: NEXT in story.ids, f"no {NEXT} followed {REVIEW}")
    made = story.job(NEXT)
    story.found["routed"] = {"by": made["routed_from"], "job": made["id"], "role": made["role"]}
    if made["routed_from"] != story.ids[REVIEW]:
        story.problems.append(f"{NEXT} does not come from {REVIEW}")
