"""DELETE /v1/projects/{project}/broadcasts/{broadcast}: take a broadcast back."""

from interlock.edges.http import handler_for

handler = handler_for("projects.unbroadcast")
