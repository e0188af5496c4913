"""GET /v1/projects/{project}/attention: what needs a person, and what may be done about it."""

from interlock.edges.http import handler_for

handler = handler_for("system.attention")
