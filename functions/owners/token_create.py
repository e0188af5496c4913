"""POST /v1/projects/{project}/owners/{owner}/tokens: make another token."""

from interlock.edges.http import handler_for

handler = handler_for("owners.token_create")
