"""POST /v1/projects/{project}/jobs/{job}/decisions: ask for a decision on the held job."""

from interlock.edges.http import handler_for

handler = handler_for("decisions.ask")
