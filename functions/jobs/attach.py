"""POST /v1/projects/{project}/jobs/{job}/artifacts: attach an artifact: a reference, or a slot for an upload."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.attach")
