"""POST /v1/projects/{project}/agents/{agent}/tokens: make another token."""

from interlock.edges.http import handler_for

handler = handler_for("agents.token_create")
