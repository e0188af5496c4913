"""Times at the edge of the domain: RFC 3339 in UTC with milliseconds, integers of milliseconds inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_FORM = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def rfc3339(at: int) -> str:
    """``2026-11-30T21:00:00.000Z`` for ms since 1970."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def parse_rfc3339(text: str) -> int:
    """Milliseconds since 1970, finer digits dropped. ValueError in any other form, or outside 1970–9999."""
    if not _FORM.fullmatch(text):
        raise ValueError("not a date, a time of day with seconds and an offset, for example Z")
    at = (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
    if not 0 <= at <= _LATEST:
        raise ValueError("a time before 1970 or after 9999")
    return at
