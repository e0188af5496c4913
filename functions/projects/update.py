"""PATCH /v1/projects/{project}: change a project's title and settings."""

from interlock.edges.http import handler_for

handler = handler_for("projects.update")
