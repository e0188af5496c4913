"""The scenes of the demo, one a module, in the order in which they are played.

A scene waits for what it is about, acts where it has a part in it, and says what it found. What happens meanwhile is
told by the story; what a scene waits for may have happened before it began.
"""

from __future__ import annotations

from interlock.cli.demo.scenes import cascade, crew, ending, plan, question, review, routing, stop, takeover
from interlock.cli.demo.story import NothingMoreError, Story

SCENES = (
    plan.play,
    crew.play,
    cascade.play,
    stop.play,
    takeover.play,
    review.play,
    routing.play,
    question.play,
)


def play(story: Story) -> None:
    """From the plan to the verified ledger. What is not as it should be is in the story's ``problems``."""
    try:
        for scene in SCENES:
            scene(story)
    except NothingMoreError as over:
        story.problems.append(f"{over}, and nothing happens any more")
    ending.play(story)
