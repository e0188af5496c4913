"""The program `interlock`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from interlock import __version__
from interlock.cli import (
    agents,
    attention,
    audit,
    bootstrap,
    broadcasts,
    claims,
    decisions,
    demo,
    doctor,
    events,
    export,
    jobs,
    letters,
    links,
    mcp,
    owners,
    plans,
    projects,
    roles,
    status,
    up,
    waiting,
    work,
    workers,
)
from interlock.cli.exits import MEANINGS

_ON_JOBS = (claims, decisions, links, waiting)
"""Modules whose commands stand beside those of ``jobs``: importing them has added them."""

_EXITS = "Exit codes: " + " · ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"interlock {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """The whole program."""
    app = typer.Typer(
        name="interlock",
        help="A coordination bus for teams of AI agents: jobs, claims with fences, evidence, a ledger.",
        epilog=_EXITS,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def options(
        json_output: Annotated[
            bool, typer.Option("--json", help="JSON on standard output (also INTERLOCK_JSON=1).")
        ] = False,
        version: Annotated[
            bool,
            typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end."),
        ] = False,
    ) -> None:
        del json_output, version  # read from the context where they are needed

    up.register(app)
    demo.register(app)
    status.register(app)
    attention.register(app)
    decisions.register(app)
    workers.register(app)
    app.add_typer(jobs.app)
    app.add_typer(plans.app)
    work.register(app)
    events.register(app)
    export.register(app)
    mcp.register(app)
    for noun in (projects.app, roles.app, agents.app, owners.app):
        app.add_typer(noun)
    projects.register(app)
    broadcasts.register(app)
    app.add_typer(audit.app)
    app.add_typer(letters.app)
    doctor.register(app)
    bootstrap.register(app)
    return app


def main() -> None:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    build()()


if __name__ == "__main__":
    main()
