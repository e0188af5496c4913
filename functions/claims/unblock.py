"""POST /v1/projects/{project}/jobs/{job}/unblock: unblock a job; a resume window starts."""

from interlock.edges.http import handler_for

handler = handler_for("claims.unblock")
