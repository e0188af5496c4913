"""POST /v1/projects/{project}/jobs/{job}/cancel: cancel a job."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.cancel")
