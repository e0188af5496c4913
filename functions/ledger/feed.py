"""GET /v1/projects/{project}/events: read the project's events as they were written."""

from interlock.edges.http import handler_for

handler = handler_for("ledger.feed")
