"""DELETE /v1/projects/{project}/roles/{role}: delete a role; it takes no new jobs."""

from interlock.edges.http import handler_for

handler = handler_for("roles.delete")
