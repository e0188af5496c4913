"""POST /v1/projects/{project}/agents/{agent}/tokens/{token}/rotate: replace a token; the old one ends after a grace time."""

from interlock.edges.http import handler_for

handler = handler_for("agents.token_rotate")
