"""POST /v1/projects/{project}/jobs/{job}/artifacts: attach an artifact by reference."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.attach")
