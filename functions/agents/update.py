"""PATCH /v1/projects/{project}/agents/{agent}: change an agent's label, roles, capabilities."""

from interlock.edges.http import handler_for

handler = handler_for("agents.update")
