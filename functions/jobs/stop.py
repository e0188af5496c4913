"""POST /v1/projects/{project}/jobs/{job}/stop: take a held job from its holder."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.stop")
