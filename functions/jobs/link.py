"""POST /v1/projects/{project}/jobs/{job}/links: let a job wait for another one."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.link")
