"""What the demo's workers run for each job: the command of its context, in its folder.

Reads the job on standard input, streams the command's output, attaches what it built as evidence, and prints a
JSON object last: that becomes the job's result.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from interlock.cli.client import Client
from interlock.cli.demo.steps import clean_environment
from interlock.cli.settings import load

BEGUN = "▶"
"""Begins the line that says that a step runs."""
_LOOK = 0.2


def main() -> int:
    """Run one job's step; the exit code is the command's."""
    _end_with(os.getppid())
    job = json.load(sys.stdin)
    context = job["context"]
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a real stream here
    print(BEGUN, context["step"], flush=True, file=sys.stderr)
    started = time.monotonic()
    code, said = _run(context)
    if code:
        return code
    outcome: dict[str, Any] = {
        "step": context["step"],
        "commit": context["commit"],
        "seconds": round(time.monotonic() - started, 2),
        "says": said[:500] or "done",
    }
    if "artifact" in context:
        outcome["built"] = _attach(job["id"], context["artifact"])
    print(json.dumps(outcome))
    return 0


def _run(context: dict[str, Any]) -> tuple[int, str]:
    """(exit code, the last line that the command printed)."""
    last = ""
    with subprocess.Popen(  # noqa: S603 - the command that the demo published
        context["command"],
        cwd=context["folder"],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True, file=sys.stderr)
            last = line.strip() or last
    return process.returncode, last


def _attach(job: str, wanted: dict[str, str]) -> str:
    """Attach the newest file that was built, under the claim of the worker that started this."""
    built = max(Path(wanted["folder"]).glob(wanted["pattern"]), key=lambda file: file.stat().st_mtime)
    content = built.read_bytes()
    body = {
        "fence": int(os.environ["INTERLOCK_FENCE"]),
        "type": wanted["type"],
        "uri": built.resolve().as_uri(),
        "checksum": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "metadata": {"bytes": len(content)},
    }
    Client(load()).call("jobs.attach", body, path={"job": job})
    return built.name


def _end_with(parent: int) -> None:
    """End this process group when the worker that started it is gone: after its ``kill -9`` nothing may go on."""
    if sys.platform == "win32":
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
