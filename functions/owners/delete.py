"""DELETE /v1/projects/{project}/owners/{owner}: remove an owner; the tokens are revoked."""

from interlock.edges.http import handler_for

handler = handler_for("owners.delete")
