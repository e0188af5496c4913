"""POST /v1/projects/{project}/repair: send again what an entity's head implies."""

from interlock.edges.http import handler_for

handler = handler_for("system.repair")
