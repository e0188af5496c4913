"""`interlock events`: the project's events as they were written, one a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from interlock.cli import following, inputs, ring, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import usage


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(
        root,
        "events",
        "ledger.feed",
        text="Read the project's events as they were written.\n\nWith --follow for ever, until Ctrl-C: each event once, "
        "also those that become visible late. A bus that does not answer is asked again.",
    )
    def events(
        session: Session,
        last: Annotated[
            int | None,
            typer.Option(
                help=f"The last so many, 1–1,000 (default 100; with --follow 0–1,000, {following.LAST})."
            ),
        ] = None,
        after: Annotated[str | None, typer.Option(help="What came after this cursor.")] = None,
        limit: inputs.Limit = None,
        follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes.")] = False,
        as_ring: Annotated[
            bool,
            typer.Option(
                "--ring", help="One JSON line an event: ts, tenant, worker, level, msg, ticket, segment."
            ),
        ] = False,
    ) -> None:
        show = _printer(session, as_ring=as_ring)
        if follow:
            _follow(session, last, after, limit, show)
        answer = session.call("ledger.feed", query=inputs.sent(last=last, after=after, limit=limit)).value
        for event in answer["items"]:
            show(event)
        if answer.get("next_cursor"):
            screen.note(f"go on with: --after {screen.clean(answer['next_cursor'])}")


def _printer(session: Session, *, as_ring: bool) -> Callable[[dict[str, Any]], None]:
    if as_ring:
        return lambda event: screen.document(ring.line(event, session.settings.project))
    return screen.document if session.json else lambda event: screen.line(shapes.event_line(event))


def _follow(
    session: Session,
    last: int | None,
    after: str | None,
    limit: int | None,
    show: Callable[[dict[str, Any]], None],
) -> NoReturn:
    """Until Ctrl-C, or until nobody reads any more."""
    if limit is not None:
        raise usage("--limit is for one page: --follow reads them all")
    if last is not None and after is not None:
        raise usage("--last or --after, not both")
    if last is not None and not 0 <= last <= following.PAGE:
        raise usage(f"--last is 0–{following.PAGE:,}")

    def at_once(event: dict[str, Any]) -> None:
        show(event)
        sys.stdout.flush()

    follower = following.Follower(
        lambda query: session.call("ledger.feed", query=query).value,
        following.LAST if last is None else last,
        after,
    )
    following.follow(follower, at_once)
