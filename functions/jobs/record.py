"""POST /v1/projects/{project}/jobs/{job}/events: record a custom event on a job."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.record")
