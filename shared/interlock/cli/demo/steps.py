"""What the demo asks for: a release of a checkout, rehearsed, as a plan of jobs that run real commands."""

from __future__ import annotations

import importlib.util
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.cli.demo.desk import NOTES
from interlock.cli.demo.repo import Checkout

PYTHON = (sys.executable, "-P")
"""Without the working directory on the path: a module of the repository must not take the place of ours."""
TESTS = 4
"""Files of unit tests that the demo runs, the smallest first."""


@dataclass(frozen=True, slots=True)
class Step:
    """One job: ``command`` runs in the checkout; ``makes`` is evidence that completion must show.

    ``reads``: the command gets the job on standard input, and prints a JSON object last. ``asks``: what is asked of
    owners before it begins; the command gets the ``answer``. ``hangs``: its first claim comes to nothing.
    """

    name: str
    summary: str
    role: str
    command: tuple[str, ...]
    priority: str = "normal"
    makes: tuple[str, str] | None = None
    """(artifact type, file pattern in the output folder)."""
    constraints: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    """Names of steps."""
    reads: bool = False
    routing: tuple[Mapping[str, Any], ...] = ()
    independent: bool = False
    asks: Mapping[str, Any] | None = None
    hangs: bool = False

    def context(self, checkout: Checkout, output: Path) -> dict[str, Any]:
        """What the worker's command needs to know."""
        context: dict[str, Any] = {
            "step": self.name,
            "command": list(self.command),
            "folder": str(checkout.path),
            "commit": checkout.commit,
            "reads": self.reads,
        }
        if self.asks:
            context["asks"] = dict(self.asks)
        if self.hangs:
            context["hangs"] = True
        if self.makes:
            context["artifact"] = {"type": self.makes[0], "folder": str(output), "pattern": self.makes[1]}
        return context

    def job(self, checkout: Checkout, output: Path) -> dict[str, Any]:
        """It as a job of a plan."""
        return {
            "ref": self.name,
            "summary": self.summary,
            "role": self.role,
            "priority": self.priority,
            "context": self.context(checkout, output),
            "constraints": list(self.constraints),
            "requires": [self.makes[0]] if self.makes else [],
            "blocked_by": list(self.blocked_by),
            "routing": list(self.routing),
            "independent": self.independent,
        }


def plan(checkout: Checkout, output: Path) -> list[Step]:
    """The steps for a checkout, by what it holds and what this Python can run. The first one is to be interrupted.

    Checks and the build run side by side; the notes need all of them, the review needs the notes, and what follows
    an accepted review is a rule of its job.
    """
    checks = _checks(checkout, output)
    notes = Step(
        "notes",
        "Write the release notes",
        "developer",
        _desk("notes", output),
        makes=("notes", NOTES),
        constraints=("Whoever downloads what was built can check it by the notes.",),
        blocked_by=tuple(step.name for step in checks),
        reads=True,
    )
    review = Step(
        "review",
        "Review the release notes",
        "reviewer",
        _desk("review", output),
        blocked_by=("notes",),
        reads=True,
        routing=(_release(checkout, output),),
        independent=True,
    )
    return [*checks, notes, review]


def _checks(checkout: Checkout, output: Path) -> list[Step]:
    tests = _tests(checkout)
    steps = [
        *([tests] if tests else []),
        _build(checkout.path, output),
        _lint(),
        Step("version", "Find the version to release", "ops", _desk("version", output), "high", reads=True),
        Step(
            "fingerprint",
            "Fingerprint every tracked file",
            "developer",
            _look("fingerprint"),
            "high" if not tests else "normal",
        ),
        Step("statistics", "Count files and lines by language", "developer", _look("statistics")),
        Step("links", "Check the relative links of the Markdown pages", "qa", _look("links"), hangs=True),
        Step("compile", "Compile every Python file", "qa", (*PYTHON, "-m", "compileall", "-q", "."), "low"),
    ]
    return sorted(steps, key=lambda step: ("urgent", "high", "normal", "low").index(step.priority))


def _release(checkout: Checkout, output: Path) -> dict[str, Any]:
    """The rule that an accepted review is followed by the release."""
    step = Step(
        "release",
        "Release what was accepted",
        "ops",
        _desk("release", output),
        reads=True,
        asks={
            "prompt": "To which shelf does this release go?",
            "blocker": "Nothing is copied before that.",
            "risk": "Whoever takes from the stable shelf gets it at once.",
            "options": ["stable", "preview"],
        },
    )
    return {
        "role": step.role,
        "summary": step.summary,
        "context": step.context(checkout, output),
        "on": "completed",
        "when": {"field": "data.verdict", "op": "eq", "value": "accepted"},
    }


def _desk(what: str, output: Path) -> tuple[str, ...]:
    return (*PYTHON, "-m", "interlock.cli.demo.desk", what, str(output))


def _look(what: str) -> tuple[str, ...]:
    return (*PYTHON, "-m", "interlock.cli.demo.look", what)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _tests(checkout: Checkout) -> Step | None:
    """A part of the unit tests; None when there are none that this Python can run."""
    if checkout.made:
        command: tuple[str, ...] = (sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", ".")
        return Step("tests", "Run the unit tests", "qa", command, "urgent")
    folder = checkout.path / "tests" / "unit"
    files = sorted(folder.glob("test_*.py"), key=lambda file: (file.stat().st_size, file.name))
    # Tests of the command line start processes of their own; the demo has enough of those.
    chosen = [file for file in files if not file.name.startswith("test_cli")][:TESTS]
    if not chosen or not _has("pytest"):
        return None
    plain = ("-n", "0") if _has("xdist") else ()
    names = [file.relative_to(checkout.path).as_posix() for file in sorted(chosen)]
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plain, *names)
    return Step(
        "tests",
        f"Run a part of the unit tests ({len(names)} files)",
        "qa",
        command,
        "urgent",
        constraints=("Every test passes.",),
    )


def _lint() -> Step:
    if _has("ruff"):
        command: tuple[str, ...] = (
            *PYTHON,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--exit-zero",
            ".",
        )
    else:
        command = (*PYTHON, "-m", "tabnanny", ".")
    return Step("lint", "Lint the code", "qa", command, "high")


def _build(path: Path, output: Path) -> Step:
    """The wheel where its builder is installed (nothing is fetched), else an archive of the commit."""
    constraints = ("The built file is attached, with its checksum.",)
    if _backend(path) == "hatchling.build" and _has("hatchling"):
        command: tuple[str, ...] = (*PYTHON, "-m", "hatchling", "build", "-t", "wheel", "-d", str(output))
        return Step("wheel", "Build the wheel", "ops", command, "high", ("wheel", "*.whl"), constraints)
    archive = output / "source.zip"
    command = ("git", "archive", "--format=zip", f"--output={archive}", "HEAD")
    return Step(
        "archive",
        "Build an archive of the sources",
        "ops",
        command,
        "high",
        ("archive", "*.zip"),
        constraints,
    )


def _backend(path: Path) -> str:
    try:
        document = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    return str(document.get("build-system", {}).get("build-backend", ""))


def clean_environment() -> dict[str, str]:
    """The environment without what Interlock put there: a step's own tests must not meet the demo's bus."""
    return {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
