"""`interlock events`: the project's events as they were written, one a line."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import inputs, screen, shapes
from interlock.cli.command import Session, command


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(root, "events", "ledger.feed")
    def events(
        session: Session,
        last: Annotated[int | None, typer.Option(help="The last so many, 1–1,000 (default 100).")] = None,
        after: Annotated[str | None, typer.Option(help="What came after this cursor.")] = None,
        limit: inputs.Limit = None,
    ) -> None:
        answer = session.call("ledger.feed", query=inputs.sent(last=last, after=after, limit=limit)).value
        for event in answer["items"]:
            if session.json:
                screen.document(event)
            else:
                screen.line(shapes.event_line(event))
        if answer.get("next_cursor"):
            screen.note(f"go on with: --after {screen.clean(answer['next_cursor'])}")
