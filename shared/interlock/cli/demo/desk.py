"""Steps that read what came before: the release's version, its notes, their review, the release itself.

Each reads its job on standard input, as `interlock work` gives it, and prints a JSON object last. The review ends
with :data:`SENDS_BACK` to send the notes back; the last line is the reason.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SENDS_BACK = 10
"""Exit code: what was reviewed is to be done again."""
NOTES = "release-notes.md"
ORDER = "release.json"
"""What an owner writes to say which version is to be released."""
_CHANGES = 5

Job = Mapping[str, Any]
Said = dict[str, Any]


def version(_: Job, built: Path) -> Said:
    """The version that an owner has named. Fails while there is none."""
    order = built.parent / ORDER
    if not order.exists():
        sys.exit(f"{ORDER} is missing: no owner has named the version")
    found = json.loads(order.read_text("utf-8"))["version"]
    return {"says": f"version {found}", "version": found}


def notes(job: Job, built: Path) -> Said:
    """Write the notes from what the upstream jobs came to; a retry mends what the review found missing."""
    page = built / NOTES
    why = job["reopen_context"]
    if why:
        sums = [f"- `{file.name}` sha256 `{_digest(file)}`" for file in _products(built)]
        text = page.read_text("utf-8") + "\n".join(["", "## Checksums", "", *sums, ""])
        says = f"mended: {_count(sums, 'checksum')} added"
    else:
        checks = [up["result"]["data"] for up in job["upstream_results"]]
        found = next((check["version"] for check in checks if "version" in check), "?")
        rows = [f"| {check['step']} | {check['says'].replace('|', '/')} |" for check in checks]
        changes = [f"- {line}" for line in _log()]
        lines = [f"# Release {found}", "", f"Commit {job['context']['commit']}", ""]
        lines += ["| check | result |", "|---|---|", *rows, "", "## Changes", "", *changes, ""]
        text = "\n".join(lines)
        says = f"release {found}: {len(rows)} results, {len(changes)} changes"
    page.write_text(text, "utf-8")
    return {"says": says}


def review(job: Job, built: Path) -> Said:
    """Whoever downloads what was built must be able to check it by the notes."""
    (reviewed,) = job["upstream_results"]
    text = (built / NOTES).read_text("utf-8")
    if _digest(built / NOTES) != reviewed["result"]["data"]["sha256"]:
        sys.exit("the notes are not those that were delivered")
    missing = [file.name for file in _products(built) if _digest(file) not in text]
    if missing:
        print(f"the notes do not name the checksum of {', '.join(missing)}")
        sys.exit(SENDS_BACK)
    return {"says": f"{_count(_products(built), 'checksum')} compared", "verdict": "accepted"}


def release(job: Job, built: Path) -> Said:
    """Put what was built and the accepted notes on the shelf that an owner has chosen, and compare every checksum there."""
    shelf = built.parent / "release" / job["answer"]
    shelf.mkdir(parents=True, exist_ok=True)
    text = (built / NOTES).read_text("utf-8")
    for file in (*_products(built), built / NOTES):
        shutil.copy(file, shelf)
    wrong = [file.name for file in _products(shelf) if _digest(file) not in text]
    if wrong:
        sys.exit(f"the checksum of {', '.join(wrong)} is not that of the notes")
    return {"says": f"{_count(list(shelf.iterdir()), 'file')} released to {shelf.name}, the checksums fit"}


def _products(folder: Path) -> list[Path]:
    """What was built there; not what is written about it."""
    return sorted(file for file in folder.iterdir() if file.is_file() and file.name != NOTES)


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _log() -> list[str]:
    command = ["git", "log", f"-{_CHANGES}", "--format=%s (%h)"]
    listed = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", errors="replace")  # noqa: S603 - the user's git
    return listed.stdout.splitlines()


STEPS = {"version": version, "notes": notes, "review": review, "release": release}

if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a real stream here
    print(json.dumps(STEPS[sys.argv[1]](json.load(sys.stdin), Path(sys.argv[2]))))
