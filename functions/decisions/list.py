"""GET /v1/projects/{project}/decisions: list decisions: the open ones, those of a job, or all."""

from interlock.edges.http import handler_for

handler = handler_for("decisions.list")
