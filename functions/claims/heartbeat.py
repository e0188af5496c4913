"""POST /v1/projects/{project}/heartbeat: renew the caller's leases."""

from interlock.edges.http import handler_for

handler = handler_for("claims.heartbeat")
