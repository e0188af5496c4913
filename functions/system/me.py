"""GET /v1/projects/{project}/me: who the caller is and what it holds."""

from interlock.edges.http import handler_for

handler = handler_for("system.me")
