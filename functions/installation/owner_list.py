"""GET /v1/owners: list the installation's owners."""

from interlock.edges.http import handler_for

handler = handler_for("installation.owner_list")
