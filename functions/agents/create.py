"""POST /v1/projects/{project}/agents: enrol an agent; its token is shown once."""

from interlock.edges.http import handler_for

handler = handler_for("agents.create")
