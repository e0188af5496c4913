"""GET /v1/projects/{project}/jobs/{job}/events: read a job's events."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.timeline")
