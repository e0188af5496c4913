"""GET /v1/projects/{project}/owners: list the owners."""

from interlock.edges.http import handler_for

handler = handler_for("owners.list")
