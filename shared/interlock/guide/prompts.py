"""The prompts: what a person asks an agent to do here, as sections of the guide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.guide import text

LONGEST = 100
"""Characters of an argument that a text shows."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: how it is listed, how its text begins, and the sections that follow.

    ``arguments`` are ``{name, description, required}``; ``opening`` holds each as ``{name}``.
    """

    name: str
    title: str
    description: str
    arguments: tuple[dict[str, Any], ...]
    opening: str
    headings: tuple[str, ...]


_ROLE: dict[str, Any] = {
    "name": "role",
    "description": "One of your roles; all of them when left out.",
    "required": False,
}
_JOB: dict[str, Any] = {"name": "job", "description": "The job's id.", "required": True}
_LEFT_OUT = {"role": "all of your roles"}

_ROWS = (
    Prompt(
        "board",
        "Look at the board",
        "Show what is free to claim, without claiming it.",
        (_ROLE,),
        "Look at the Interlock board for {role}, and say what is there. Claim nothing.",
        ("The board",),
    ),
    Prompt(
        "claim",
        "Claim and work",
        "Take the best job and do it.",
        (_ROLE,),
        "Claim the best job on the Interlock board for {role}, do it, and end it. One job, then report.",
        ("Claiming", "Working under a claim", "Closing"),
    ),
    Prompt(
        "close",
        "Close a job",
        "Verify a job that you hold, and end it with evidence or a reason.",
        (_JOB,),
        "Close the Interlock job {job}: verify it, and end it in the way that is true.",
        ("Closing",),
    ),
    Prompt(
        "handoff",
        "Hand a job over",
        "Leave a job so that whoever comes next can go on.",
        (_JOB,),
        "Hand the Interlock job {job} over, so that whoever comes next needs nothing of this conversation.",
        ("Handing over", "A good context"),
    ),
    Prompt(
        "review",
        "Review work",
        "Hold a review: accept the work, or send it back with a reason.",
        (_JOB,),
        "Do the Interlock review {job}: judge the work that it waited for by that job's constraints.",
        ("Reviewing",),
    ),
    Prompt(
        "reopen",
        "Take up work that was sent back",
        "Do again what a review has sent back, by its reason.",
        (_JOB,),
        "A review has sent work back: take up its retry, the Interlock job {job}.",
        ("Work that was sent back",),
    ),
)

PROMPTS: Mapping[str, Prompt] = {row.name: row for row in _ROWS}


def prompt(name: str, arguments: Mapping[str, str]) -> str:
    """The text of a prompt for these arguments. Raises KeyError for a name, or a missing argument, that is required."""
    row = PROMPTS[name]
    given = {
        each["name"]: _shown(arguments, each["name"], required=each["required"]) for each in row.arguments
    }
    bodies = (text.section(heading) for heading in row.headings)
    return "\n\n".join((row.opening.format_map(given), *bodies, text.section(text.OTHERS)))


def _shown(arguments: Mapping[str, str], name: str, *, required: bool) -> str:
    """An argument as a quotation: on one line, so that it cannot look like a part of the text."""
    value = arguments[name] if required else arguments.get(name)
    if not value:
        return _LEFT_OUT.get(name, "``")
    return "`" + "".join(each for each in value if each.isprintable() and each != "`")[:LONGEST] + "`"
