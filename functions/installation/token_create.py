"""POST /v1/owners/{owner}/tokens: make another token."""

from interlock.edges.http import handler_for

handler = handler_for("installation.token_create")
