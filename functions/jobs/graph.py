"""GET /v1/projects/{project}/jobs/{job}/graph: read the jobs around a job and their links."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.graph")
