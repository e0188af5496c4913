"""POST /v1/projects/{project}/plans: publish many jobs that wait for each other, all or none."""

from interlock.edges.http import handler_for

handler = handler_for("plans.create")
