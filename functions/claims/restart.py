"""POST /v1/projects/{project}/jobs/{job}/restart: start a failed job again, as its last holder."""

from interlock.edges.http import handler_for

handler = handler_for("claims.restart")
