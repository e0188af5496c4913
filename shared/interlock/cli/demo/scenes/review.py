"""The review: somebody who did not write the notes sends them back with a reason, and accepts the retry."""

from __future__ import annotations

from typing import Any

from interlock.cli.demo.story import Story

WORK, REVIEW = "notes", "review"


def play(story: Story) -> None:
    """Wait for the rejection, ask why its author may not review, and wait for the acceptance."""
    story.until(lambda: story.job(WORK)["retried_by"], f"{WORK} were not sent back")
    author, retry = story.job(WORK), story.job(WORK)["retried_by"]
    told = story.client.call("jobs.reopen_context", path={"job": retry}).value
    excluded = _excluded(story, author)
    story.until(lambda: story.job(REVIEW)["status"] == "completed", f"{WORK} were not accepted")
    again, judge = story.read(retry), story.job(REVIEW)
    story.found["review"] = {
        "of": author["id"],
        "written_by": author["assignee_label"],
        "rejected_by": told["rejected_by"]["label"],
        "reason": told["reason"],
        "retry": retry,
        "mended_by": again["assignee_label"],
        "accepted_by": judge["assignee_label"],
        "author_excluded": excluded,
    }
    authors = {author["assignee_label"], again["assignee_label"]}
    if judge["assignee_label"] in authors or told["rejected_by"]["label"] == author["assignee_label"]:
        story.problems.append(f"somebody reviewed their own work: {story.found['review']}")


def _excluded(story: Story, author: dict[str, Any]) -> bool:
    """Whether the bus keeps the author from reviewing; it says so."""
    query = {"agent": author["assignee"]}
    answer = story.client.call("jobs.explain", query=query, path={"job": story.ids[REVIEW]}).value
    excluded = any(reason["code"] == "excluded" for reason in answer["reasons"])
    if excluded:
        story.say(REVIEW, f"{author['assignee_label']} wrote the notes and may not review them: excluded")
    else:
        story.problems.append(f"the author may review: {answer['reasons']}")
    return excluded
