"""Bounds of sort keys. Sort keys compare by their UTF-8 bytes, which is also the order of Python strings."""

from __future__ import annotations

_LAST = 0x10FFFF
_BEFORE_SURROGATES = 0xD7FF
_AFTER_SURROGATES = 0xE000


def prefix_end(prefix: str) -> str | None:
    """The least string above every string with this prefix; None when there is no such string."""
    for position in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[position])
        if point < _LAST:
            following = _AFTER_SURROGATES if point == _BEFORE_SURROGATES else point + 1
            return prefix[:position] + chr(following)
    return None
