"""GET /v1/projects/{project}/jobs/{job}/explain: say why a job is or is not claimable."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.explain")
