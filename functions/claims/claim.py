"""POST /v1/projects/{project}/jobs/{job}/claim: claim this job."""

from interlock.edges.http import handler_for

handler = handler_for("claims.claim")
