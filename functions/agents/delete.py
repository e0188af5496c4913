"""DELETE /v1/projects/{project}/agents/{agent}: retire an agent: revoke its tokens, give its jobs back."""

from interlock.edges.http import handler_for

handler = handler_for("agents.delete")
