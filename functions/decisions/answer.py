"""POST /v1/projects/{project}/decisions/{decision}/answer: answer a decision; exactly one answer counts."""

from interlock.edges.http import handler_for

handler = handler_for("decisions.answer")
