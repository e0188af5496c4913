"""GET /v1/projects/{project}/workers: who works: last seen, what each agent holds, who is stale."""

from interlock.edges.http import handler_for

handler = handler_for("system.workers")
