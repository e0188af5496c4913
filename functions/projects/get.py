"""GET /v1/projects/{project}: read a project."""

from interlock.edges.http import handler_for

handler = handler_for("projects.get")
