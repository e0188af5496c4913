"""POST /v1/projects/{project}/claims: claim the best job that the caller may take."""

from interlock.edges.http import handler_for

handler = handler_for("claims.next")
