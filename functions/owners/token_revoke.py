"""DELETE /v1/projects/{project}/owners/{owner}/tokens/{token}: revoke a token at once."""

from interlock.edges.http import handler_for

handler = handler_for("owners.token_revoke")
