"""The cascade: a job fails, what waits for it fails with it, and comes back when an owner has mended the cause."""

from __future__ import annotations

import json

from interlock.cli.demo.desk import ORDER
from interlock.cli.demo.story import Story

ROOT, BELOW = "version", ("notes", "review")


def play(story: Story) -> None:
    """Wait for the failure to reach the end of the chain, mend it, retry its root."""
    root = story.ids[ROOT]
    story.until(
        lambda: all((story.job(name)["caused_by"] or {}).get("root") == root for name in BELOW),
        f"the failure of {ROOT} did not reach {' and '.join(BELOW)}",
    )
    failed = {name: story.ids[name] for name in BELOW}
    version = f"0.1.dev0+{story.checkout.commit[:7]}"
    (story.stage / ORDER).write_text(json.dumps({"version": version}), "utf-8")
    story.say(ROOT, f"an owner names the version, {version}, and retries the job")
    story.make("jobs.retry", {}, job=root)
    story.until(
        lambda: all(story.job(name)["caused_by"] is None for name in BELOW),
        f"{' and '.join(BELOW)} were not revived",
    )
    story.found["cascade"] = {"root": root, "failed": failed, "revived": True}
