"""What the demo's workers run for each job: the command of its context, in its folder.

Reads the job on standard input (and hands it to a command that ``reads`` it), streams the command's output, uploads
what it built as evidence, and prints a JSON object last: that becomes the job's result. A command that ends with
:data:`SENDS_BACK` has reviewed, and its upstream job is rejected. Where the context says what to ask, owners are asked
first, and the command gets their answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from interlock.cli import files
from interlock.cli.client import Client
from interlock.cli.demo.crew import PROGRAM
from interlock.cli.demo.desk import SENDS_BACK
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
    if context.get("hangs") and os.environ["INTERLOCK_FENCE"] == "1":
        threading.Event().wait()
    if "asks" in context:
        job["answer"] = _ask(job["id"], context["asks"])
    started = time.monotonic()
    code, said = _run(context, job if context.get("reads") else None)
    if code == SENDS_BACK:
        _reject(job, said)
        return 0
    if code:
        return code
    outcome: dict[str, Any] = {
        "step": context["step"],
        "commit": context["commit"],
        "seconds": round(time.monotonic() - started, 2),
        **(json.loads(said) if context.get("reads") else {"says": said[:500] or "done"}),
    }
    if "artifact" in context:
        outcome |= _upload(job["id"], context["artifact"])
    print(json.dumps(outcome))
    return 0


def _run(context: dict[str, Any], job: dict[str, Any] | None) -> tuple[int, str]:
    """(exit code, the last line that the command printed); ``job`` is fed to it."""
    last = ""
    with subprocess.Popen(  # noqa: S603 - the command that the demo published
        context["command"],
        cwd=context["folder"],
        env=clean_environment(),
        stdin=subprocess.PIPE if job else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        if process.stdin:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                json.dump(job, process.stdin)
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True, file=sys.stderr)
            last = line.strip() or last
    return process.returncode, last


def _upload(job: str, wanted: dict[str, str]) -> dict[str, str]:
    """Upload the newest file that was built, under the claim of the worker that started this."""
    built = max(Path(wanted["folder"]).glob(wanted["pattern"]), key=lambda file: file.stat().st_mtime)
    described = files.described(built, None)
    body = {"fence": int(os.environ["INTERLOCK_FENCE"]), "type": wanted["type"], **described}
    files.attach(Client(load()), job, body, built)
    return {"built": built.name, "sha256": described["sha256"]}


def _ask(job: str, question: dict[str, Any]) -> str:
    """Ask, wait for the answer while the worker keeps the claim, and go on: as a script would do it."""
    texts = [part for name in ("prompt", "blocker", "risk") for part in (f"--{name}", question[name])]
    options = [part for option in question["options"] for part in ("--option", option)]
    command = [*PROGRAM, "job", "ask", job, *texts, *options, "--until-answered", "--resume", "--json"]
    asked = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8")  # noqa: S603 - this program
    return str(json.loads(asked.stdout)["decision"]["answer"])


def _reject(job: dict[str, Any], reason: str) -> None:
    """Send the reviewed job back; `interlock job reject` does the same."""
    (reviewed,) = job["upstream_results"]
    body = {"fence": int(os.environ["INTERLOCK_FENCE"]), "target": reviewed["id"], "reason": reason}
    Client(load()).call("claims.reject", body, path={"job": job["id"]})


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
