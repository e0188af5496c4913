"""POST /v1/projects/{project}/decisions/{decision}/withdraw: take a decision back; nobody has to answer it any more."""

from interlock.edges.http import handler_for

handler = handler_for("decisions.withdraw")
