"""POST /v1/projects/{project}/roles: make a role."""

from interlock.edges.http import handler_for

handler = handler_for("roles.create")
