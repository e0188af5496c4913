"""`interlock up`: the bus in this process, until it is told to stop or the command beside it has ended."""

from __future__ import annotations

import json as jsonlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from interlock.errors import StoreError
from interlock.local import logs
from interlock.local.engines import ENGINES
from interlock.local.folder import FolderError

if TYPE_CHECKING:
    from interlock.local.bus import LocalBus, Settings

OK, REFUSED, USAGE = 0, 1, 2
NOT_FOUND, KILLED = 127, 128
"""What shells answer for a command that is not there, and add to the signal that ended one."""
GRACE_SECONDS = 10.0
_METRICS_OFF = "POWERTOOLS_METRICS_DISABLED"
"""Metrics are lines on standard output; they mean something on AWS only."""


def run(
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    data: str | Path = ".interlock",
    engine: str = "embedded",
    json: bool = False,
    log: str = "human",
    threads: int | None = None,
    command: Sequence[str] = (),
) -> int:
    """Run the bus and answer the process's exit code.

    With ``json`` the first line on standard output, printed once it serves, is one JSON object. With ``command``
    the bus ends with it, by its exit code.
    """
    if engine not in ENGINES or log not in logs.FORMATS:
        _say(f"--engine is one of {', '.join(ENGINES)}; --log is one of {', '.join(logs.FORMATS)}")
        return USAGE
    os.environ[_METRICS_OFF] = "true"
    logs.configure(log)
    # Powertools and the handlers read the environment while they are imported
    from interlock.local.bus import LocalBus, Settings
    from interlock.local.engines import EngineError
    from interlock.local.server import THREADS, PortBusyError
    from interlock.local.template import TemplateError

    stop = threading.Event()
    _stop_on_signals(stop)
    settings = Settings(Path(data), host, port, engine, threads or THREADS)
    try:
        with LocalBus(settings) as bus:
            # beside a command standard output is the command's own, but for the line that --json promises
            shown = sys.stderr if command and not json else sys.stdout
            print(_line(bus) if json else _panel(bus, settings), file=shown, flush=True)
            return _beside(bus, command, stop) if command else _until(stop)
    except FolderError as problem:
        _say(str(problem))
        return problem.exit_code
    except (EngineError, PortBusyError, StoreError, TemplateError) as problem:
        _say(str(problem))
        return REFUSED


def _say(text: str) -> None:
    print(f"interlock up: {text}", file=sys.stderr)


def _stop_on_signals(stop: threading.Event) -> None:
    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # the last is Windows's
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), told)


def _until(stop: threading.Event) -> int:
    while not stop.wait(1.0):  # Windows looks at signals between waits only
        pass
    return OK


def _beside(bus: LocalBus, command: Sequence[str], stop: threading.Event) -> int:
    """Run the command with the bus's address and credentials in its environment."""
    given = bus.credentials
    environment = {
        **os.environ,
        "INTERLOCK_URL": given.url,
        "INTERLOCK_PROJECT": given.project,
        "INTERLOCK_TOKEN": given.agent_token,
        "INTERLOCK_OWNER_TOKEN": given.owner_token,
    }
    try:
        child = subprocess.Popen(list(command), env=environment)  # noqa: S603  the caller's own command
    except OSError as problem:
        _say(f"cannot run {command[0]}: {problem}")
        return NOT_FOUND
    threading.Thread(target=_tell_end, args=(child, stop), daemon=True).start()
    _until(stop)
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    code = child.returncode
    return code if code >= 0 else KILLED - code


def _tell_end(child: subprocess.Popen[bytes], stop: threading.Event) -> None:
    child.wait()
    stop.set()


def _line(bus: LocalBus) -> str:
    given = asdict(bus.credentials)
    shown = {name: given[name] for name in ("url", "project", "owner_token", "agent_token")}
    return jsonlib.dumps({**shown, "mcp": _mcp(given["url"]), "pid": os.getpid()})


def _mcp(url: str) -> str:
    """Where agents that speak MCP find the bus."""
    return f"{url}/mcp"


def _panel(bus: LocalBus, settings: Settings) -> str:
    given = bus.credentials
    kept = "in memory, gone when it stops" if settings.engine == "moto" else f"kept in {settings.data}"
    return f"""Interlock is up: {given.url}   project {given.project}, {kept}

  owner  {given.owner_token}
  agent  {given.agent_token}
  MCP    {_mcp(given.url)}

Try it, in another terminal:
  interlock status
  interlock agent connect claude --as NAME
  curl -H 'Authorization: Bearer {given.agent_token}' {given.url}/v1/projects/{given.project}/me

Below: one line per request. Ctrl-C stops the bus.
"""
