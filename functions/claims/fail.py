"""POST /v1/projects/{project}/jobs/{job}/fail: fail the held job, with a reason."""

from interlock.edges.http import handler_for

handler = handler_for("claims.fail")
