"""The function without a route that makes the first owner; whoever may invoke it is the account's owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.app import bootstrap
from interlock.edges import problems, runtime
from interlock.errors import InterlockError


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """``{"recover": bool}`` in; ``{"token"}`` or ``{"problem"}`` out. The token is shown once."""
    try:
        token = bootstrap.first_owner(runtime.bus(), recover=bool((event or {}).get("recover")))
    except InterlockError as error:
        return {"problem": problems.document(error, "bootstrap")}
    return {"token": token}
