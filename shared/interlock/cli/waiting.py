"""`interlock job wait`: until a job has ended, or waits for an owner."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from interlock.cli import inputs, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import LATER, OK, OWNER, REFUSED
from interlock.cli.jobs import app

_EXITS = {"completed": OK, "failed": REFUSED, "cancelled": REFUSED, "blocked": OWNER}
_FIRST, _LONGEST = 0.1, 3.0
"""Seconds between looks: short at first, longer while nothing happens."""


@command(
    app,
    "wait",
    text="Wait until a job has ended.\n\nExit 0: completed; 1: failed or cancelled, by itself or as an upstream did; 6: blocked, an owner is needed; 75: timeout.",
)
def wait(
    session: Session,
    job: inputs.Job,
    timeout: Annotated[float, typer.Option(help="Seconds to wait at most.")] = 3_600,
    through_blocks: Annotated[
        bool, typer.Option("--through-blocks", help="Go on waiting while it is blocked.")
    ] = False,
) -> int:
    until, pause = time.monotonic() + timeout, _FIRST
    while True:
        answer = session.call("jobs.get", path={"job": job}).value
        code = _EXITS.get(answer["job"]["status"])
        if code is not None and not (code == OWNER and through_blocks):
            break
        left = until - time.monotonic()
        if left <= 0:
            code = LATER
            screen.note(f"interlock: after {timeout:g} s the job is {screen.clean(answer['job']['status'])}")
            break
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST)
    session.show(answer, shapes.job)
    if code == OWNER and answer["job"].get("decision"):
        screen.note(f"interlock: it waits for: interlock decisions {screen.clean(answer['job']['decision'])}")
    cause = answer["job"].get("caused_by")
    if cause:
        screen.note(
            f"interlock: {screen.clean(answer['job']['status'])} because an upstream did; it began with {screen.clean(cause['root'])}"
        )
    return code
