"""POST /v1/projects/{project}/owners/{owner}/tokens/{token}/rotate: replace a token; the old one ends after a grace time."""

from interlock.edges.http import handler_for

handler = handler_for("owners.token_rotate")
