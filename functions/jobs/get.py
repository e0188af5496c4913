"""GET /v1/projects/{project}/jobs/{job}: read a whole job."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.get")
