"""POST /v1/projects/{project}/jobs/{job}/artifacts/{artifact}/verify: verify what was uploaded for an artifact."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.verify")
