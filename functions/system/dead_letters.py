"""GET /v1/dead-letters: count the messages and records that could not be handled."""

from interlock.edges.http import handler_for

handler = handler_for("system.dead_letters")
