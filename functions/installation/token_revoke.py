"""DELETE /v1/owners/{owner}/tokens/{token}: revoke a token at once."""

from interlock.edges.http import handler_for

handler = handler_for("installation.token_revoke")
