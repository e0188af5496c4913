"""GET /openapi.json: this API as OpenAPI 3.1."""

from interlock.edges.http import handler_for

handler = handler_for("system.openapi")
