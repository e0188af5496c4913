"""DELETE /v1/owners/{owner}: remove an owner of the installation."""

from interlock.edges.http import handler_for

handler = handler_for("installation.owner_delete")
