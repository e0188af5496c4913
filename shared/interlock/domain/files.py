"""Names of files: which ones callers may give, and how a download is named."""

from __future__ import annotations

from urllib.parse import quote

_SEPARATORS = "/\\"
_ODD = frozenset('/\\:*?"<>|%')
"""Separators of paths, and what some system gives a meaning to."""


def is_name(name: str) -> bool:
    """Whether this names a file and no path: no separator, no control character, not a folder's own name."""
    return name.isprintable() and name not in (".", "..") and not any(c in name for c in _SEPARATORS)


def safe_name(name: str, otherwise: str) -> str:
    """The name as every system can save it; never hidden, never a path. ``otherwise`` where nothing is left."""
    return "".join("_" if c in _ODD or not c.isprintable() else c for c in name).strip(". ") or otherwise


def disposition(name: str) -> str:
    """A Content-Disposition that saves a file of this safe name, for old readers of the header and for new ones."""
    plain = "".join(c if c.isascii() else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
