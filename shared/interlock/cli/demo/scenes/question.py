"""The question: before it releases, an agent asks an owner, who decides; the agent goes on with the answer."""

from __future__ import annotations

from interlock.cli.demo.scenes.routing import NEXT
from interlock.cli.demo.story import Story

ANSWER = "preview"


def play(story: Story) -> None:
    """Wait for the question, answer it, and wait until every job has ended."""
    story.until(lambda: story.job(NEXT)["decision"], f"{NEXT} asked nothing")
    job = story.job(NEXT)
    path = {"decision": job["decision"]}
    asked = story.client.call("decisions.get", path=path).value["decision"]
    choices = " or ".join(asked["options"])
    story.say(NEXT, f"{asked['prompt']} ({choices}) An owner types: interlock decide {asked['id']} {ANSWER}")
    settled = story.make("decisions.answer", {"answer": ANSWER, "note": "one week there first"}, **path)
    story.until(story.all_ended, "not every job has ended")
    story.found["decision"] = {
        "id": asked["id"],
        "asked_by": asked["asked_by"]["label"],
        "answer": settled["decision"]["answer"],
        "status_then": settled["job"]["status"],
    }
    if story.job(NEXT)["fence"] != job["fence"]:
        story.problems.append(f"{NEXT} should have gone on under the same claim: {story.job(NEXT)['fence']}")
