"""PATCH /v1/projects/{project}/jobs/{job}: edit a job that nobody has started."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.edit")
