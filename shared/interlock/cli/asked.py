"""How decisions look to a person: what is asked, who may answer, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.cli import screen, shapes
from interlock.cli.screen import clean

Value = Mapping[str, Any]

_CHOICES = 4
"""Answers that get a line each; where there are more, one line stands for all."""
_LIST = 100
"""Characters of a prompt in a list."""
_RAISE = "--usd N"
"""What the answer `raise` of a budget's decision needs, in a line to type; --tokens and --seconds go as well."""


def decision(answer: Value) -> None:
    """One decision, and how to answer it while it is open; the job where it was moved."""
    found = answer["decision"]
    screen.line(
        f"{clean(found['id'])}  {clean(found['state'])}  {clean(found['kind'])} on {clean(found['job'])}"
    )
    by = found.get("answered_by") or found.get("closed_by")
    cause = found.get("cause")
    screen.facts(
        [
            ("  asked by", f"{shapes.who(found.get('asked_by'))}, {found.get('asked_at')}"),
            ("  because", None if cause == "asked" else cause),
            (
                "  about",
                f"rev {found['subject']['rev']}"
                + ("" if found.get("current", True) else ": the job has moved on"),
            ),
            ("  prompt", found["prompt"]),
            ("  blocker", found.get("blocker")),
            ("  risk", found.get("risk")),
            ("  options", ", ".join(map(str, found.get("options") or []))),
            ("  schema", found.get("schema")),
            ("  roles", ", ".join(map(str, found.get("roles") or []))),
            ("  expires in", shapes.span(found.get("expires_in"))),
            ("  answer", found.get("answer")),
            ("  data", found.get("data")),
            ("  note", found.get("note")),
            ("  closed by", by and f"{shapes.who(by)}, {found.get('answered_at') or found.get('closed_at')}"),
        ]
    )
    for finding in found.get("findings") or []:
        place = ":".join(str(finding[part]) for part in ("file", "line") if finding.get(part) is not None)
        fix = f"; fix: {clean(finding['fix'])}" if finding.get("fix") else ""
        screen.line(
            f"  found  {clean(finding['kind'])}  {clean(place)}  {clean(finding['description'])}{fix}"
        )
    for line in next_lines(found):
        screen.line(f"  type  {line}")
    if answer.get("job"):
        job = answer["job"]
        screen.line(f"{clean(job['id'])}  {clean(job['status'])}  {clean(job['summary'])}")


def next_lines(found: Value) -> Iterator[str]:
    """What to type to answer an open decision: a line for each choice. An agent's words are quoted for the shell."""
    if found["state"] != "open":
        return
    start = f"interlock decide {clean(found['id'])}"
    choices = found.get("options") or ([] if found["kind"] == "question" else ["approve", "reject"])
    if not choices:
        yield f"{start} --json-answer JSON" if found.get("schema") is not None else f"{start} 'YOUR ANSWER'"
    elif len(choices) > _CHOICES:
        yield f"{start} OPTION"
    for choice in choices if len(choices) <= _CHOICES else ():
        more = f" {_RAISE}" if found.get("cause") == "budget" and choice == "raise" else ""
        word = shlex.quote(clean(choice))
        yield f"{start} {'-- ' if word.startswith('-') else ''}{word}{more}"


def decisions(answer: Value) -> None:
    """A page of decisions."""
    screen.table(
        ("ID", "KIND", "STATE", "JOB", "ASKED BY", "FOR", "LEFT", "PROMPT"),
        (
            (
                one["id"],
                one["kind"],
                one["state"],
                one["job"],
                shapes.who(one.get("asked_by")),
                ", ".join(map(str, one.get("roles") or [])) or "owners",
                shapes.span(one.get("expires_in")),
                one["prompt"] if len(one["prompt"]) <= _LIST else f"{one['prompt'][:_LIST]}…",
            )
            for one in answer["items"]
        ),
        "no decisions",
    )
    shapes.more(answer)
