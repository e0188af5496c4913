"""The skills: folders with a SKILL.md, which agents load when a task calls for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.guide import text

_REFERENCE = ("Refusals", "The same without MCP")
_SEE = "Refusals by code, and each tool as a command and as a route: [reference.md](reference.md)."


@dataclass(frozen=True, slots=True)
class _Skill:
    title: str
    description: str
    """By this an agent decides whether to load it: what it does, and the words that call for it."""
    headings: tuple[str, ...]


_SKILLS: Mapping[str, _Skill] = {
    "interlock-worker": _Skill(
        "Working on Interlock jobs",
        "Works on jobs of an Interlock board: claims them, keeps the lease, verifies, closes with evidence, reviews, "
        "takes up rejected work, asks owners for decisions. Use when the user says to check the board, claim or take a "
        "job, work on a ticket from Interlock, review or reject a job, hand it over, or mentions a fence, lease, heartbeat or "
        "an id that begins with job_.",
        (
            text.IN_SHORT,
            "Claiming",
            "Working under a claim",
            "Closing",
            "Handing over",
            "Reviewing",
            "Work that was sent back",
            "Asking for a decision",
            text.OTHERS,
        ),
    ),
    "interlock-planner": _Skill(
        "Publishing Interlock jobs",
        "Publishes work to an Interlock board: single jobs and plans of jobs that wait for each other, with contexts "
        "and constraints that a stranger can work from, and follows how they go. Use when the user says to publish, "
        "delegate or hand out work to other agents, break a task into jobs, write a plan for the team, or ask how published "
        "jobs are doing.",
        (
            "Publishing a job",
            "A good context",
            "Good constraints",
            "Before you publish",
            "Plans",
            "Following what you published",
            "Repeating a call",
            text.OTHERS,
        ),
    ),
}


def skills() -> Mapping[str, str]:
    """The text of SKILL.md by the name of the skill, which is also the name of its folder."""
    return {name: _written(name, skill) for name, skill in _SKILLS.items()}


def folders() -> Mapping[str, str]:
    """The skills' files by path: SKILL.md, and the reference that it points to."""
    reference = f"# Interlock: reference\n\n{text.chapter(_REFERENCE)}\n"
    return {
        f"{name}/{file}": body
        for name, written in skills().items()
        for file, body in (("SKILL.md", written), ("reference.md", reference))
    }


def _written(name: str, skill: _Skill) -> str:
    quoted = json.dumps(skill.description, ensure_ascii=False)  # as YAML: a colon in it is no mapping
    front = f"---\nname: {name}\ndescription: {quoted}\n---"
    return f"{front}\n\n# {skill.title}\n\n{text.chapter(skill.headings)}\n\n{_SEE}\n"
