"""GET /v1/projects/{project}/stats: counts and ages of what is on the board."""

from interlock.edges.http import handler_for

handler = handler_for("system.stats")
