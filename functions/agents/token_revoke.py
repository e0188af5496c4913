"""DELETE /v1/projects/{project}/agents/{agent}/tokens/{token}: revoke a token at once."""

from interlock.edges.http import handler_for

handler = handler_for("agents.token_revoke")
