"""`interlock up`: start the bus on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli.command import wants_json


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @root.command(
        "up",
        help="Start the bus on this machine.\n\nWith -- CMD it runs CMD beside the bus and ends with its exit code.",
        short_help="Start the bus on this machine.",
    )
    def up(
        ctx: typer.Context,
        command: Annotated[
            list[str] | None, typer.Argument(metavar="[-- CMD …]", help="Run beside the bus.")
        ] = None,
        host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8787,
        data: Annotated[str, typer.Option(metavar="DIR", help="The data folder.")] = ".interlock",
        engine: Annotated[str, typer.Option(help="embedded, moto or aws.")] = "embedded",
        log: Annotated[
            str, typer.Option(help="How requests are logged on standard error: human or json.")
        ] = "human",
        json_output: Annotated[
            bool, typer.Option("--json", help="Print where it serves as one line of JSON.")
        ] = False,
    ) -> None:
        from interlock.local import up as local

        raise typer.Exit(
            local.run(
                host=host,
                port=port,
                data=data,
                engine=engine,
                json=wants_json(json_output, ctx),
                log=log,
                command=command or [],
            )
        )
