"""POST /v1/projects/{project}/jobs/{job}/complete: complete the held job."""

from interlock.edges.http import handler_for

handler = handler_for("claims.complete")
