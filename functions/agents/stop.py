"""POST /v1/projects/{project}/agents/{agent}/stop: stop an agent: end its claims, and let it claim nothing until it is resumed."""

from interlock.edges.http import handler_for

handler = handler_for("agents.stop")
