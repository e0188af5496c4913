"""A running `interlock up` for tests of the command line, and the command line against it."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.unit.cli_stub import Ended, cli

from interlock.cli.demo import crew

LIMIT = 60.0
PROGRAM = [sys.executable, "-m", "interlock.cli.main"]


class RunningBus:
    """`il(…)` runs a command in this process with the credentials of up's credentials.json."""

    def __init__(self, folder: Path, greeting: dict[str, Any]) -> None:
        self.folder = folder
        self.greeting = greeting
        self.url: str = greeting["url"]

    def il(self, *args: str, **more: Any) -> Ended:
        return cli(*args, token=None, **more)

    def json(self, *args: str, code: int = 0, **more: Any) -> Any:
        """The document that a command prints; it must end with ``code``."""
        ended = self.il(*args, "--json", **more)
        assert ended.code == code, ended
        return ended.document

    def publish(self, summary: str = "do it", *args: str, role: str = "qa") -> str:
        return str(self.json("job", "publish", summary, "--role", role, *args)["job"]["id"])

    def claim(self, job: str, *args: str) -> int:
        return int(self.json("job", "claim", job, *args)["claim"]["fence"])

    def job(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("job", "show", job, "--as", "owner")["job"]
        return found

    def agent(self, label: str, *roles: str) -> dict[str, str]:
        """Enrol an agent; answers the environment of a process that is it."""
        options = [option for role in roles for option in ("--role", role)]
        token = self.json("agent", "add", label, *options)["token"]
        return {"INTERLOCK_URL": self.url, "INTERLOCK_TOKEN": token}

    def start(self, *args: str, environment: dict[str, str]) -> "subprocess.Popen[str]":
        clean = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        return subprocess.Popen(
            [*PROGRAM, *args],
            env={**clean, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextlib.contextmanager
def running_bus(folder: Path) -> Iterator[RunningBus]:
    """Start a bus whose data and credentials are in ``folder``/.interlock, and work in ``folder`` meanwhile."""
    process, greeting = crew.start_bus(folder / ".interlock", 0, folder / "bus.log")
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield RunningBus(folder, greeting)
    finally:
        os.chdir(before)
        crew.end(process)


def eventually(find: Callable[[], Any], limit: float = LIMIT) -> Any:
    """What ``find`` finds, as soon as it finds something."""
    until = time.monotonic() + limit
    while not (found := find()):
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.05)
    return found


def lines(text: str) -> list[Any]:
    """NDJSON."""
    return [json.loads(line) for line in text.splitlines()]
