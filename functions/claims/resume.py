"""POST /v1/projects/{project}/jobs/{job}/resume: go on with a blocked or unblocked job."""

from interlock.edges.http import handler_for

handler = handler_for("claims.resume")
