"""The shortest form of the guide: for a server's instructions, and for a project's AGENTS.md."""

from __future__ import annotations

from interlock.guide import text

BEGIN = "<!-- interlock:begin -->"
END = "<!-- interlock:end -->"
"""Marks around the snippet, so that a later one replaces it."""


def instructions() -> str:
    """What a client tells its model of the server: at most 2 KiB, as some clients cut what is longer."""
    return text.section(text.IN_SHORT)


def snippet() -> str:
    """The part of an AGENTS.md that is about Interlock, between its marks."""
    return f"{BEGIN}\n## Interlock\n\n{text.section(text.IN_SHORT)}\n{END}\n"
