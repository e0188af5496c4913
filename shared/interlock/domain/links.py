"""Links as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Upstream:
    """A job that another one waits for, or waited for: ``state`` is open, satisfied, failed or replaced."""

    id: str
    state: str
    replaced_by: str | None = None
