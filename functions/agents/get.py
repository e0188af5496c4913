"""GET /v1/projects/{project}/agents/{agent}: read an agent."""

from interlock.edges.http import handler_for

handler = handler_for("agents.get")
