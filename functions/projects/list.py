"""GET /v1/projects: list the projects."""

from interlock.edges.http import handler_for

handler = handler_for("projects.list")
