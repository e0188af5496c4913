"""Opaque cursors, bound to the list and the filters they came from."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from interlock.errors import InterlockError


def _binding(scope: str, filters: Mapping[str, Any]) -> str:
    text = json.dumps([scope, filters], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def write(scope: str, filters: Mapping[str, Any], position: str) -> str:
    """A cursor that goes on after ``position``."""
    return base64.urlsafe_b64encode(f"{_binding(scope, filters)}.{position}".encode()).decode().rstrip("=")


def read(scope: str, filters: Mapping[str, Any], cursor: str | None) -> str | None:
    """The position of a cursor of this list; None without one. Raises ``bad_cursor``."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        raise InterlockError("bad_cursor") from None
    binding, _, position = text.partition(".")
    if binding != _binding(scope, filters) or not position:
        raise InterlockError("bad_cursor")
    return position
