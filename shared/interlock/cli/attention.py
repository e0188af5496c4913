"""`interlock attention`: what needs a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import typer

from interlock.cli import inputs, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import RIGHT, CommandError
from interlock.cli.jobs import page


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(root, "attention", "system.attention")
    def attention(
        session: Session,
        limit: inputs.Limit = None,
        cursor: inputs.Cursor = None,
        everything: inputs.Everything = False,
    ) -> None:
        query = inputs.sent(limit=limit, cursor=cursor)
        session.show(page(session, "system.attention", query, everything), shapes.attention)


def counts(session: Session) -> dict[str, Any] | None:
    """{kinds: {kind: n}, more}: what the first page holds, and whether there may be more; None for those who are not
    asked about it."""
    try:
        found = session.call("system.attention", query={"limit": 100}).value
    except CommandError as refused:
        if refused.code != RIGHT:
            raise
        return None
    kinds = Counter(item["kind"] for item in found["items"])
    return {"kinds": dict(kinds), "more": found["next_cursor"] is not None}


def line(found: Mapping[str, Any]) -> str:
    """The counts in one line."""
    more = " or more: `interlock attention --all`" if found["more"] else ""
    listed = ", ".join(f"{screen.clean(kind)} {count}" for kind, count in found["kinds"].items())
    return (listed or "nothing needs a person") + more
