"""The demo's processes: the bus and the workers. Whatever happens, they are ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.cli.demo.steps import PYTHON, clean_environment
from interlock.cli.exits import REFUSED, CommandError

PROGRAM = (*PYTHON, "-m", "interlock.cli.main")
START_SECONDS = 30.0
END_SECONDS = 8.0
BEAT = 1
"""Seconds between a worker's heartbeats: its lease lasts three."""
_LOOK = 0.05


@dataclass(slots=True)
class Worker:
    """One `interlock work` process. ``lines`` is what it and its commands said."""

    name: str
    token: str = field(repr=False)
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def kill(self) -> None:
        """``kill -9``: it cannot say goodbye."""
        self.process.kill()

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None


def start_bus(data: Path, port: int, log: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start `interlock up` and wait until it serves: (process, what it said about itself)."""
    out = log.with_suffix(".json")
    with out.open("w") as said, log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - this program
            [*PROGRAM, "up", "--json", "--port", str(port), "--data", str(data)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=errors,
            text=True,
            env=clean_environment(),
            **_apart(),
        )
    try:
        return process, _greeting(process, out, log)
    except BaseException:
        end(process)
        raise


def _greeting(process: subprocess.Popen[str], out: Path, log: Path) -> dict[str, Any]:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        line, newline, _ = out.read_text("utf-8", "replace").partition("\n")
        if newline:
            greeting: dict[str, Any] = json.loads(line)
            return greeting
        if process.poll() is not None:
            break
        time.sleep(_LOOK)
    said = log.read_text("utf-8", "replace").strip()
    raise CommandError(REFUSED, f"the bus did not start: {said[-800:] or 'it said nothing'}")


def start_worker(
    name: str,
    settings: Mapping[str, str],
    folder: Path,
    command: Sequence[str],
    heard: Callable[[Worker, str], object],
) -> Worker:
    """Start a worker with a credential of its own; ``heard`` gets each line it says (on a thread of its own)."""
    process = subprocess.Popen(  # noqa: S603 - this program
        [
            *PROGRAM,
            "work",
            "--heartbeat",
            str(BEAT),
            "--grace",
            "2",
            "--session",
            name,
            "--logs",
            str(folder / "logs"),
            "--",
            *command,
        ],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**clean_environment(), **settings, **_temporary(folder)},
        **_apart(),
    )
    worker = Worker(name, settings["INTERLOCK_TOKEN"], process)
    threading.Thread(target=_listen, args=(worker, heard), daemon=True).start()
    return worker


def _temporary(folder: Path) -> dict[str, str]:
    """Temporary files go where they are removed, also those of a worker that could not do so itself."""
    place = folder / "tmp"
    place.mkdir(exist_ok=True)
    return dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(place))


def _listen(worker: Worker, heard: Callable[[Worker, str], object]) -> None:
    assert worker.process.stderr
    with contextlib.suppress(ValueError), worker.process.stderr:
        for line in worker.process.stderr:
            worker.lines.append(line.rstrip())
            del worker.lines[:-500]
            heard(worker, line)


def end(*processes: subprocess.Popen[str]) -> list[int]:
    """Ask processes to end, make those that do not; answers their exit codes."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                process.terminate()
    until = time.monotonic() + END_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, until - time.monotonic()))
    for process in processes:
        _kill_group(process)
    return [process.wait() for process in processes]


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _apart() -> dict[str, Any]:
    """Options that keep a terminal's Ctrl-C from a child: the demo ends its children itself, in order."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
