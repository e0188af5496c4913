"""POST /v1/owners: enrol an owner of the installation."""

from interlock.edges.http import handler_for

handler = handler_for("installation.owner_create")
