"""Times at the edge of the domain: RFC 3339 in UTC with milliseconds, integers of milliseconds inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(at: int) -> str:
    """``2026-11-30T21:00:00.000Z`` for ms since 1970."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def parse_rfc3339(text: str) -> int:
    """Milliseconds since 1970, finer digits dropped. ValueError without an offset, or outside 1970–9999."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset, for example Z")
    at = (moment - _EPOCH) // timedelta(milliseconds=1)
    if at < 0:
        raise ValueError("a time before 1970")
    return at
