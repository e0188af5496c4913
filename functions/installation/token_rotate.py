"""POST /v1/owners/{owner}/tokens/{token}/rotate: replace a token; the old one ends after a grace time."""

from interlock.edges.http import handler_for

handler = handler_for("installation.token_rotate")
