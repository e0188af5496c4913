"""POST /v1/projects/{project}/jobs/{job}/reject: send a reviewed job back, with a reason."""

from interlock.edges.http import handler_for

handler = handler_for("claims.reject")
