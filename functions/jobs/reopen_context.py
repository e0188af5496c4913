"""GET /v1/projects/{project}/jobs/{job}/reopen-context: say why a review sent the work back."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.reopen_context")
