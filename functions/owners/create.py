"""POST /v1/projects/{project}/owners: enrol an owner; the token is shown once."""

from interlock.edges.http import handler_for

handler = handler_for("owners.create")
