"""The guide as it stands in guide.md, and its sections by heading: all other texts are chosen from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

IN_SHORT = "In short"
OTHERS = "Texts of others"
"""Headings of sections that stand in more than one text."""


@cache
def guide() -> str:
    """The whole guide, as Markdown."""
    from importlib import resources

    return resources.files(__package__).joinpath("guide.md").read_text(encoding="utf-8")


@cache
def sections() -> Mapping[str, str]:
    """The guide's sections: the body of each by its heading, in order."""
    parts = guide().split("\n## ")[1:]
    return {heading: body.strip() for heading, _, body in (part.partition("\n") for part in parts)}


def section(heading: str) -> str:
    """The body of a section."""
    return sections()[heading]


def chapter(headings: Iterable[str]) -> str:
    """Sections with their headings, one after the other."""
    return "\n\n".join(f"## {heading}\n\n{section(heading)}" for heading in headings)
