"""Steps that look at a checkout: statistics, fingerprint, links. Run in it; the last line is the summary."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FILES = 5_000
"""At most so many files are looked at."""
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def tracked() -> Iterator[Path]:
    """The files that Git tracks here."""
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True)  # noqa: S607 - the user's git
    names = [name for name in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if name]
    return (path for path in map(Path, names[:FILES]) if path.is_file())


def statistics() -> str:
    """Files and lines by suffix."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            files[path.suffix or path.name] += 1
            lines[path.suffix or path.name] += content.count(b"\n")
    for suffix, count in lines.most_common(8):
        print(f"{suffix:<16} {files[suffix]:>6} files {count:>8} lines")
    return f"{lines.total()} lines in {files.total()} text files"


def fingerprint() -> str:
    """One digest over the names and contents of all files."""
    total = hashlib.sha256()
    count = 0
    for path in tracked():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{digest}  {path.as_posix()}\n".encode("utf-8", "surrogateescape"))
        count += 1
    return f"sha256 {total.hexdigest()[:16]}… over {count} files"


def links() -> str:
    """Relative links in Markdown pages that lead nowhere."""
    seen = broken = 0
    for page in tracked():
        if page.suffix != ".md":
            continue
        for target in _LINK.findall(page.read_text("utf-8", "replace")):
            path = target.partition("#")[0]
            if not path or ":" in path or path.startswith("/"):
                continue
            seen += 1
            if not (page.parent / path).exists():
                broken += 1
                print(f"{page}: {target} leads nowhere")
    return f"{seen} relative links, {broken} lead nowhere"


LOOKS = {"statistics": statistics, "fingerprint": fingerprint, "links": links}

if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a real stream here
    print(LOOKS[sys.argv[1]]())
