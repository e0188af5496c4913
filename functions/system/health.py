"""GET /health: whether the bus can reach its store."""

from interlock.edges.http import handler_for

handler = handler_for("system.health")
