"""Files of other programs, changed in one place: everything else in them stays, or nothing is changed.

JSON is read, changed and written anew; a file with comments cannot be, and is left as it is. TOML is changed as text, and
what came of it is read back and compared before it is written: comments stay, but for one beside a value that is replaced.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.cli.exits import REFUSED, CommandError

PRIVATE = 0o600
_ORDINARY = 0o644


class _LeftError(CommandError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            REFUSED, f"{file} is left as it is: {why}", "Add what is printed without --write by hand."
        )


def shown(file: Path, table: str, name: str, entry: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """What a file holds that has this entry only."""
    if file.suffix == ".toml":
        return _toml(table, name, entry)
    return json.dumps({**first, table: {name: entry}}, indent=2) + "\n"


def merged(file: Path, table: str, name: str, entry: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """The file's text with the entry in it, all else as it was. Raises CommandError where that cannot be done."""
    text = _read(file)
    if not text.strip():
        return shown(file, table, name, entry, first)
    return (_merged_toml if file.suffix == ".toml" else _merged_json)(file, text, table, name, entry)


def write(file: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file in one step, so that nobody ever reads half of it.

    ``mode`` None keeps the one it has, and a link stays one; with a mode, what is written lies in this very place.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        target = file.resolve() if mode is None else file
        kept = mode if mode is not None else target.stat().st_mode & 0o777 if target.exists() else _ORDINARY
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as new:
                new.write(text)
            os.chmod(name, kept)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as problem:
        raise CommandError(REFUSED, f"{file} cannot be written: {problem.strerror}") from None


def between(file: Path, text: str, begin: str, end: str) -> str:
    """A file's text with ``text`` (which begins and ends with the two marks) in the place of what they hold, or at its end."""
    before = _read(file)
    head, found, rest = before.partition(begin)
    _, closed, tail = rest.partition(end)
    if found and closed:
        return head + text.strip("\n") + tail
    if found or end in before:
        raise _LeftError(file, f"it has one of the marks {begin!r} and {end!r} only")
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    return before + gap + text


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", newline="") as there:
            return there.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise _LeftError(file, f"it cannot be read ({problem})") from None


def _merged_json(file: Path, text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    try:
        whole = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        raise _LeftError(file, f"it is not plain JSON ({problem}), perhaps as it has comments") from None
    servers = whole.get(table, {}) if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise _LeftError(file, f"it has no object {table!r}")
    if servers.get(name) == entry:
        return text
    found = re.search(r"\n([ \t]+)\S", text)
    indent = found[1] if found else "  "
    new = {**whole, table: {**servers, name: entry}}
    try:
        after = json.dumps(new, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
        after.encode()
    except (ValueError, RecursionError) as problem:
        raise _LeftError(file, f"it holds a value that cannot be written again ({problem})") from None
    return _ended_as(text, after)


def _ended_as(text: str, new: str) -> str:
    """``new`` with the ends of lines that ``text`` has."""
    return new.replace("\n", "\r\n") if "\r\n" in text else new


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _merged_toml(file: Path, text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _LeftError(file, f"it is not TOML ({problem})") from None
    servers = before.get(table, {})
    if isinstance(servers, dict) and servers.get(name) == entry:
        return text
    lines = re.split(r"(?<=\n)", text)  # splitlines would end one at other signs too
    header = f"[{table}.{name}]"
    at = next((place for place, line in enumerate(lines) if line.split("#")[0].strip() == header), None)
    new = _ended_as(text, _toml(table, name, entry))
    if at is None:
        gap = _ended_as(text, "\n" if text.endswith("\n") else "\n\n")
        after = f"{text}{gap}{new}"
    else:
        end = next(
            (place for place in range(at + 1, len(lines)) if lines[place].lstrip().startswith("[")),
            len(lines),
        )
        fields = new.partition("\n")[2]
        opened = lines[at] if lines[at].endswith("\n") else f"{lines[at]}\n"
        kept = [line for line in lines[at + 1 : end] if line.lstrip()[:1] in ("", "#")]
        after = "".join([*lines[:at], opened, fields, *kept, *lines[end:]])
    wanted = {**before, table: {**servers, name: dict(entry)}} if isinstance(servers, dict) else None
    try:
        sound = tomllib.loads(after) == wanted
    except tomllib.TOMLDecodeError:
        sound = False
    if not sound:
        raise _LeftError(file, f"{header} cannot be put into it without changing something else")
    return after


def _toml(table: str, name: str, entry: Mapping[str, Any]) -> str:
    """One table. Its values are text and lists of text, which TOML writes as JSON does."""
    lines = [f"{field} = {json.dumps(value)}" for field, value in entry.items()]
    return "\n".join([f"[{table}.{name}]", *lines, ""])
