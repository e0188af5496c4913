"""`interlock work`: a worker that runs a shell command for each job."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import uuid
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli import inputs, screen, stopping
from interlock.cli.command import Session, command
from interlock.cli.exits import usage


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(
        root,
        "work",
        text="Claim jobs and run CMD for each of them.\n\nCMD gets the job as JSON on its standard input and in the file "
        "INTERLOCK_JOB_FILE, with `upstream_results` (what the jobs that it waited for came to), `reopen_context` (why a "
        "review sent it back, else null) and `decisions` (what was decided about it). Exit 0 completes the job with the JSON "
        "object that CMD printed last; anything else fails it. While CMD runs the lease is kept; when the claim is lost CMD is "
        "ended and nothing is written. A job that CMD leaves blocked (`job ask`) stays so; when it is decided, CMD is run again. "
        "SIGTERM ends CMD and gives the job back.",
    )
    def work(
        session: Session,
        cmd: Annotated[list[str], typer.Argument(metavar="-- CMD …", help="The command and its arguments.")],
        role: Annotated[
            list[str] | None, typer.Option(help="A role to work for; repeatable (default: all of yours).")
        ] = None,
        once: Annotated[
            bool, typer.Option("--once", help="One job, then end; exit 3 when there is none.")
        ] = False,
        heartbeat: Annotated[
            int, typer.Option(min=1, help="Seconds between beats; the lease lasts three of them.")
        ] = 30,
        lease: Annotated[
            int | None, typer.Option(min=1, help="Seconds of the lease instead; it is renewed at a third.")
        ] = None,
        name: inputs.Session = None,
        grace: Annotated[
            float, typer.Option(min=0, help="Seconds that CMD has to end when it is told to.")
        ] = 10.0,
        logs: Annotated[Path | None, typer.Option(metavar="DIR", help="Where CMD's output is kept.")] = None,
    ) -> int:
        from interlock.cli import held, worker

        if shutil.which(cmd[0]) is None:
            raise usage(f"there is no command {cmd[0]}")
        session.client.side = session.client.side or "agent"
        return worker.run(
            held.Work(
                client=session.client,
                command=cmd,
                roles=role or [],
                session=name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"[-100:],
                heartbeat=heartbeat,
                lease=lease,
                once=once,
                grace=grace,
                logs=_logs(logs),
                stop=stopping.on_signals(),
                report=screen.document if session.json else lambda _: None,
            )
        )


def _logs(folder: Path | None) -> Path:
    """Where logs are kept: the folder asked for, else the user's state folder, else a temporary one."""
    if folder is None:
        from platformdirs import user_state_path

        folder = user_state_path("interlock", appauthor=False) / "logs"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return Path(tempfile.mkdtemp(prefix="interlock-logs-"))
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise usage(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder
