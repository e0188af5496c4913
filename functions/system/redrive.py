"""POST /v1/dead-letters/redrive: handle dead letters again."""

from interlock.edges.http import handler_for

handler = handler_for("system.redrive")
