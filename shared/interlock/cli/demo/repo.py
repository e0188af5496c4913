"""The Git repository that the demo's jobs are about: a worktree of a real one, or a small one made on the spot."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.cli.exits import REFUSED, CommandError, usage


@dataclass(frozen=True, slots=True)
class Checkout:
    """What the jobs work on: ``path`` is a worktree of ``origin`` at ``commit``; ``made`` when the demo made it."""

    origin: Path
    path: Path
    commit: str
    made: bool


@contextmanager
def checkout(asked: Path | None, stage: Path, say: Callable[[str], object]) -> Iterator[Checkout]:
    """A temporary worktree below ``stage``; it is gone afterwards, and the repository does not remember it."""
    if shutil.which("git") is None:
        raise CommandError(REFUSED, "the demo needs git", "Install git and run it again.")
    origin, made = _origin(asked, stage, say)
    commit = git(origin, "rev-parse", "HEAD")
    path = stage / "worktree"
    try:
        git(origin, "worktree", "add", "--detach", "--quiet", str(path), commit)
        yield Checkout(origin, path, commit, made)
    finally:
        with contextlib.suppress(CommandError):
            git(origin, "worktree", "remove", "--force", "--force", str(path))
        remove(path)
        with contextlib.suppress(CommandError):
            git(origin, "worktree", "prune")


def _origin(asked: Path | None, stage: Path, say: Callable[[str], object]) -> tuple[Path, bool]:
    try:
        top = Path(git(asked or Path.cwd(), "rev-parse", "--show-toplevel"))
        git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except CommandError as error:
        if asked:
            raise usage(f"{asked} is not a Git repository with a commit", error.detail) from error
        say("no Git repository with a commit here: making a small one")
        return make(stage / "repository"), True
    return top, False


def git(where: Path, *arguments: str) -> str:
    """What git answers. CommandError with what it said when it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - git, with arguments of ours
            ["git", *arguments],  # noqa: S607 - the user's git
            cwd=where,
            env={**environment, "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CommandError(REFUSED, f"git {arguments[0]}: {error.strerror}") from error
    if done.returncode:
        raise CommandError(REFUSED, f"git {arguments[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def make(path: Path) -> Path:
    """Make a small repository with one commit: a signal box, its tests, and a page about it."""
    for name, text in _FILES.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    git(path, "init", "--quiet")
    git(path, "add", "--all")
    who = ("-c", "user.name=Interlock demo", "-c", "user.email=demo@example.invalid")
    git(path, *who, "-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-m", "A signal box")
    return path


def remove(path: Path) -> None:
    """Remove a folder and all in it, read-only files too."""

    def unlock(function: Callable[..., Any], name: str, _: object) -> None:
        with contextlib.suppress(OSError):
            Path(name).chmod(stat.S_IWRITE | stat.S_IREAD | stat.S_IEXEC)
            function(name)

    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=unlock)
    else:
        shutil.rmtree(path, onerror=unlock)


_FILES = {
    "README.md": """# Signal box

Routes through a small station, and which of them may be set together. See [the box](signalbox/box.py).
""",
    "signalbox/__init__.py": '"""A signal box for a small station."""\n',
    "signalbox/__main__.py": """from signalbox.box import ROUTES, conflicts

for name in ROUTES:
    print(name, "excludes", ", ".join(sorted(conflicts(name))))
""",
    "signalbox/box.py": '''"""Routes, the tracks they need, and a box that never sets two that share one."""

ROUTES = {
    "A1": {"points 1", "platform 1"},
    "A2": {"points 1", "points 2", "platform 2"},
    "B1": {"points 3", "platform 1"},
    "B2": {"points 3", "points 4", "platform 2"},
    "C2": {"points 2", "platform 2"},
    "C3": {"points 4", "platform 3"},
    "D1": {"points 1", "points 4"},
    "D3": {"points 5", "platform 3"},
}


def conflicts(route):
    """The routes that share a track with this one."""
    return {other for other, tracks in ROUTES.items() if other != route and tracks & ROUTES[route]}


class Box:
    """Sets and clears routes."""

    def __init__(self):
        self.set_routes = set()

    def set(self, route):
        """True when the route is set; False when another one holds a track of it."""
        if self.set_routes & conflicts(route):
            return False
        self.set_routes.add(route)
        return True
''',
    "tests/__init__.py": "",
    "tests/test_box.py": """import itertools
import unittest

from signalbox.box import ROUTES, Box, conflicts


class BoxTest(unittest.TestCase):
    def test_conflicts_are_mutual(self):
        for one, other in itertools.permutations(ROUTES, 2):
            self.assertEqual(one in conflicts(other), other in conflicts(one))

    def test_no_order_of_requests_sets_two_routes_over_one_track(self):
        for order in itertools.permutations(ROUTES):
            box = Box()
            for route in order:
                box.set(route)
            tracks = [track for route in box.set_routes for track in ROUTES[route]]
            self.assertEqual(len(tracks), len(set(tracks)))


if __name__ == "__main__":
    unittest.main()
""",
}
