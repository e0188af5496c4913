"""`interlock broadcast`: what an owner tells the agents of a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import inputs, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import usage


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(root, "broadcast", "projects.broadcast")
    def broadcast(
        session: Session,
        text: Annotated[str | None, typer.Argument(metavar="TEXT", help="What to tell them.")] = None,
        role: Annotated[
            list[str] | None, typer.Option(help="Only agents of this role; repeatable (default: all).")
        ] = None,
        expires_in: Annotated[
            int | None, typer.Option(help="Seconds that it is shown (default a day).")
        ] = None,
        withdraw: Annotated[
            str | None,
            typer.Option(metavar="ID", help="Take this one back; `interlock project show` lists them."),
        ] = None,
    ) -> None:
        body = inputs.sent(text=text, roles=role, expires_in=expires_in)
        if (text is None) == (withdraw is None) or (withdraw is not None and body):
            raise usage("name what to tell, or --withdraw and the id of a broadcast")
        if withdraw is None:
            answer = session.call("projects.broadcast", body).value
        else:
            answer = session.call("projects.unbroadcast", path={"broadcast": withdraw}).value
        session.show(answer, _broadcast)


def _broadcast(answer: Mapping[str, Any]) -> None:
    found = answer["broadcast"]
    screen.line(f"{screen.clean(found['id'])}  {screen.clean(found['text'])}")
    screen.facts(
        [
            ("  for", ", ".join(map(str, found.get("roles") or [])) or "all agents"),
            ("  by", shapes.who(found.get("by"))),
            ("  until", found.get("expires_at")),
        ]
    )
