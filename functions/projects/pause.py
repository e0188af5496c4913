"""POST /v1/projects/{project}/pause: pause claims of the project, a role or an agent."""

from interlock.edges.http import handler_for

handler = handler_for("projects.pause")
