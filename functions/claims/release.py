"""POST /v1/projects/{project}/jobs/{job}/release: give the job back to the board."""

from interlock.edges.http import handler_for

handler = handler_for("claims.release")
