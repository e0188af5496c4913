"""GET /v1/projects/{project}/agents: list the agents."""

from interlock.edges.http import handler_for

handler = handler_for("agents.list")
