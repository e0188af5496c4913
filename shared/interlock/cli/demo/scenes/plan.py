"""The plan: jobs side by side, one that needs all of them, and a review of that one. All are published, or none."""

from __future__ import annotations

from interlock.cli.demo import steps
from interlock.cli.demo.story import Story


def play(story: Story) -> None:
    """Check the plan, then publish it."""
    story.built.mkdir()
    jobs = [step.job(story.checkout, story.built) for step in steps.plan(story.checkout, story.built)]
    first = story.make("plans.create", {"jobs": jobs, "dry_run": True})
    story.begin()
    made = story.make("plans.create", {"jobs": jobs})
    for name, job in made["jobs"].items():
        story.adopt(name, job)
    story.found["plan"] = {
        "id": made["plan"],
        "claimable_first": first["claimable"],
        "waiting": first["pending"],
    }
    story.show.say(
        f"a plan of {len(jobs)} jobs is published: {', '.join(first['claimable'])} at once; "
        f"{' and '.join(first['pending'])} wait for what they need"
    )
