"""POST /v1/projects/{project}/jobs/{job}/retry: publish a failed job again."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.retry")
