"""GET /v1/projects/{project}/jobs: list jobs, summaries only, page by page."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.list")
