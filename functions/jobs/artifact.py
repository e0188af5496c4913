"""GET /v1/projects/{project}/jobs/{job}/artifacts/{artifact}: read one artifact, and where to download an upload."""

from interlock.edges.http import handler_for

handler = handler_for("jobs.artifact")
