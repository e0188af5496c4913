"""POST /v1/projects/{project}/resume: let claims go on."""

from interlock.edges.http import handler_for

handler = handler_for("projects.resume")
