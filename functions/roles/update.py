"""PATCH /v1/projects/{project}/roles/{role}: change a role's defaults."""

from interlock.edges.http import handler_for

handler = handler_for("roles.update")
