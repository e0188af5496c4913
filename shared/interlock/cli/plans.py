"""`interlock plan …`: many jobs at once, from a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from interlock.cli import screen
from interlock.cli.command import Session, command
from interlock.cli.screen import clean

app = typer.Typer(name="plan", help="Publish many jobs that wait for each other.", no_args_is_help=True)
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE|-", help="YAML or JSON: {jobs: [{ref, summary, role, blocked_by: [ref], …}]}."
    ),
]


@command(app, "apply", "plans.create")
def apply(session: Session, file: File) -> None:
    session.show(_send(session, file, dry_run=False), _made)


@command(
    app,
    "check",
    "plans.create",
    text="Check a plan, and say what would be claimable first.\n\nNothing is published.",
)
def check(session: Session, file: File) -> None:
    session.show(_send(session, file, dry_run=True), _rehearsed)


def _send(session: Session, file: str, *, dry_run: bool) -> dict[str, Any]:
    from interlock.cli import documents

    return session.call("plans.create", {**documents.of_file(file), "dry_run": dry_run}).value


def _made(answer: Any) -> None:
    screen.line(f"{clean(answer['plan'])}  {len(answer['jobs'])} jobs")
    screen.facts((f"  {clean(ref)}", job) for ref, job in answer["jobs"].items())


def _rehearsed(answer: Any) -> None:
    first, later = answer["claimable"], answer["pending"]
    screen.line(f"the plan is good: {len(first) + len(later)} jobs, nothing published")
    screen.facts([("  claimable first", ", ".join(first)), ("  waiting", ", ".join(later))])
