"""POST /v1/projects: make a project."""

from interlock.edges.http import handler_for

handler = handler_for("projects.create")
