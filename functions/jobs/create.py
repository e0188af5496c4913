"""POST /v1/projects/{project}/jobs: publish a job."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.create")
