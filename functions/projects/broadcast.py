"""POST /v1/projects/{project}/broadcasts: tell the project's agents something."""

from interlock.edges.http import handler_for

handler = handler_for("projects.broadcast")
