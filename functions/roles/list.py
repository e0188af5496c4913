"""GET /v1/projects/{project}/roles: list the roles."""

from interlock.edges.http import handler_for

handler = handler_for("roles.list")
