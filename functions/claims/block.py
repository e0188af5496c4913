"""POST /v1/projects/{project}/jobs/{job}/block: block the held job; the lease pauses."""

from interlock.edges.http import handler_for

handler = handler_for("claims.block")
