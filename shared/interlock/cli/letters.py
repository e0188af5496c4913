"""`interlock dead-letters …`: messages and records that could not be handled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import OK, REFUSED

app = typer.Typer(
    name="dead-letters", help="Count and handle again what could not be handled.", no_args_is_help=True
)


@command(app, "list", "system.dead_letters")
def list_(session: Session) -> None:
    session.show(session.call("system.dead_letters").value, shapes.thing)


@command(app, "redrive", "system.redrive")
def redrive(
    session: Session,
    queue: Annotated[str | None, typer.Option(help="Only this queue (default: each that holds any).")] = None,
) -> int:
    held = session.call("system.dead_letters").value["queues"]
    wanted = [queue] if queue else [name for name, depth in held.items() if depth]
    done = [_redrive(session, name) for name in wanted]
    session.show({"queues": done}, _redriven)
    return REFUSED if any(one["failed"] for one in done) else OK


def _redrive(session: Session, queue: str) -> dict[str, Any]:
    """Call until a queue holds no more that can be handled."""
    total = {"queue": queue, "redriven": 0, "failed": 0}
    while True:
        key = f"{session.client.key}-{queue}-{total['redriven']}"
        answer = session.call("system.redrive", {"queue": queue}, key=key).value
        total["redriven"] += answer["redriven"]
        total["failed"] = answer["failed"]
        if not answer["redriven"] or answer["failed"]:
            return total


def _redriven(answer: Mapping[str, Any]) -> None:
    screen.table(
        ("QUEUE", "REDRIVEN", "FAILED"), (one.values() for one in answer["queues"]), "no dead letters"
    )
