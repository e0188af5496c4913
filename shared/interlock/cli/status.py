"""`interlock status`, `whoami`, `stats`, `heartbeat`: where one stands, in one screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import amounts, attention, inputs, screen, shapes
from interlock.cli.client import RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import CONFLICT, OK, usage


def register(root: typer.Typer) -> None:
    """Add the commands to the top."""

    @command(
        root,
        "status",
        text="Where you stand, in one screen.\n\nThe bus, the project, what you hold, its counts, what needs a person.",
    )
    def status(session: Session) -> None:
        url = session.settings.url
        answer = {"url": url, "mcp": f"{url}/mcp", "project": session.settings.project, **_standing(session)}
        session.show(answer, _status)

    @command(root, "whoami", "system.me")
    def whoami(session: Session, cursor: inputs.Cursor = None) -> None:
        session.show(session.call("system.me", query=inputs.sent(cursor=cursor)).value, shapes.me)

    @command(root, "stats", "system.stats")
    def stats(session: Session) -> None:
        session.show(session.call("system.stats").value, _stats)

    @command(root, "heartbeat", "claims.heartbeat")
    def heartbeat(
        session: Session,
        name: inputs.Session = None,
        job: Annotated[
            list[str] | None, typer.Option(help="Say how this job stands too, whoever holds it; repeatable.")
        ] = None,
        used: amounts.Usage = None,
    ) -> int:
        if used is not None and len(job or []) != 1:
            raise usage("--usage is that of one --job")
        named = [
            inputs.sent(id=one, fence=inputs.fence_of(one, None), **amounts.used(used)) for one in job or []
        ]
        body = inputs.sent(session=name, jobs=named)
        answer = session.call("claims.heartbeat", body).value
        session.show(answer, _beaten)
        over = [claim for claim in answer["claims"] if "stop" in claim]
        for claim in over:
            why = f"{screen.clean(claim['stop']['detail'])} ({screen.clean(claim['stop']['code'])})"
            screen.note(f"interlock: {screen.clean(claim['job'])}: {why}")
        return CONFLICT if over else OK


def _beaten(answer: Mapping[str, Any]) -> None:
    shapes.held(answer["claims"])
    shapes.notices(answer)


def _standing(session: Session) -> dict[str, Any]:
    me = session.call("system.me").value
    stats, needs = session.call("system.stats").value, attention.counts(session)
    return {"me": me, "health": _health(session), "stats": stats, "attention": needs}


def _health(session: Session) -> dict[str, Any]:
    """The bus's own word on its store; a sick bus still answers."""
    try:
        return session.call("system.health").value
    except RefusedError as sick:
        return sick.problem


def _status(answer: Mapping[str, Any]) -> None:
    health = answer["health"]
    screen.line(
        f"bus      {screen.clean(answer['url'])} ({screen.clean(health.get('detail') or health.get('status'))})"
    )
    screen.line(f"MCP      {screen.clean(answer['mcp'])}")
    screen.line(f"project  {screen.clean(answer['project'])}")
    shapes.me(answer["me"])
    screen.line()
    _stats(answer["stats"])
    if answer["attention"] is not None:
        screen.line(f"attention: {attention.line(answer['attention'])}")


def _stats(answer: Mapping[str, Any]) -> None:
    """What is on the board: ready jobs by role, then the other statuses."""
    counts = answer["stats"]
    screen.table(
        ("READY", "JOBS", "OLDEST"),
        (
            (role, _count(found), shapes.span(found["oldest_age_seconds"]))
            for role, found in counts["published"].items()
        ),
        "no roles",
    )
    others = {status: found for status, found in counts.items() if status != "published"}
    screen.line(", ".join(f"{screen.clean(status)} {_count(found)}" for status, found in others.items()))


def _count(found: Mapping[str, Any]) -> str:
    return f"{found['count']}{'+' if found['more'] else ''}"
