"""GET /v1/projects/{project}/decisions/{decision}: read a decision."""

from interlock.edges.http import handler_for

handler = handler_for("decisions.get")
