"""`interlock workers`: who works, when each was last seen, what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from interlock.cli import inputs, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.jobs import page

_HELD = 3
"""Jobs that a row names; the rest is counted."""


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(root, "workers", "system.workers")
    def workers(
        session: Session,
        limit: inputs.Limit = None,
        cursor: inputs.Cursor = None,
        everything: inputs.Everything = False,
    ) -> None:
        query = inputs.sent(limit=limit, cursor=cursor)
        session.show(page(session, "system.workers", query, everything), _table)


def _table(answer: Mapping[str, Any]) -> None:
    screen.table(
        ("AGENT", "STATE", "SEEN", "MISSED", "SESSION", "HOLDS", "ROLES"),
        (
            (
                one["label"],
                one["state"] if not one.get("stop") else f"stopped: {one['stop']['reason']}",
                _ago(one.get("seconds_since_seen")),
                one.get("beats_missed"),
                one.get("session"),
                _held(one),
                ", ".join(map(str, one["roles"])),
            )
            for one in answer["items"]
        ),
        "no agents",
    )
    shapes.more(answer)


def _ago(seconds: Any) -> str:
    return "never" if seconds is None else f"{shapes.span(seconds)} ago"


def _held(worker: Mapping[str, Any]) -> str:
    jobs = worker["holds"]
    shown = ", ".join(f"{job['job']} ({job['status']})" for job in jobs[:_HELD])
    rest = len(jobs) - _HELD
    more = f" and {rest}{' or' if worker.get('holds_more') else ''} more" if rest > 0 else ""
    return shown + more or "–"
