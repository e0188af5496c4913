"""Answers that fit into a model's attention: what is empty is left out, what is long is cut, and it is said where.

A tool's answer stays below :data:`TOKENS`. Nothing is lost: whoever needs a body whole reads it window by window
(`get_job` with `part`), or as the resource ``interlock://jobs/{id}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOKENS = 2_000
"""Of one answer, at most."""
BYTES_PER_TOKEN = 2.5
"""Of weight (:func:`weight`). Answers of every tool were measured at 3.0 to 3.5 with OpenAI's o200k and cl100k, base64 and
hashes at 2.7; other tokenizers make up to a fifth more tokens. Text that is made to be costly (rare scripts, piled-up
accents, random signs) has 1.0 to 2.0."""
ROOM = int(TOKENS * BYTES_PER_TOKEN)
"""Weight of an answer's JSON."""
PAGE_ROOM = int(ROOM * 0.7)
"""Weight of a page's items: as many as fit, whole, so that its cursor goes on after the last one that is shown."""
WINDOW = 3_000
"""Characters of a body that one answer shows."""
KEPT = 80
"""Strings up to this length are never cut: ids, states, times."""

_NOISE = frozenset({"digest", "prev", "rev", "traceparent", "lease_seconds", "on_expire", "session"})
_ROW = (
    "id", "external_id", "summary", "status", "role", "priority", "source_label", "assignee_label", "created_at", "not_before",
    "deadline",
)  # fmt: skip
_BODIES = frozenset({"constraints", "context", "artifacts", "result", "routing"})
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_RUNS = re.compile(r"[\w+/=-]{20,}", re.ASCII)
_DIGIT = re.compile("[0-9]")
_PATHS = 10
_STEPS = ((4_000, 200, 64), (2_000, 100, 16), (1_000, 60, 12), (500, 40, 8), (250, 25, 6), (120, 12, 5),
          (KEPT, 6, 4), (KEPT, 3, 3), (KEPT, 2, 2))  # fmt: skip
"""How far an answer is cut, until it fits: characters of a text, entries of a list or object, levels."""


def text(value: Any) -> str:
    """JSON as a model reads it: compact, and in the characters that were meant."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return written.encode("utf-8", "replace").decode("utf-8")


def weight(value: Any) -> int:
    """Bytes of a value as JSON; those of ids, hashes and base64 count twice.

    A tokenizer knows no such run of letters and digits: it needs a token for every 1.5 to 1.8 bytes of it, of prose and
    of the names in JSON for 3 to 4.
    """
    written = text(value)
    unknown = sum(len(run) for run in _RUNS.findall(written) if _DIGIT.search(run))
    return len(written.encode()) + unknown


def job(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A job without what is empty, and without what only machines compare."""
    shown = {name: value for name, value in whole.items() if name not in _NOISE and not _is_empty(value)}
    if shown.get("upstream"):
        shown["upstream"] = [up for up in shown["upstream"] if up["state"] != "satisfied"]
    if not shown.get("upstream"):
        shown.pop("upstream", None)
    used = shown.get("usage") or {}
    if not any((used.get("reported") or {}).values()) and not used.get("earlier"):
        shown.pop("usage", None)
    if shown.get("on_upstream_failure") == "match":
        del shown["on_upstream_failure"]
    for name in ("overdue", "independent", "fence", "retry_count", "downstream_more"):
        if not shown.get(name):
            shown.pop(name, None)
    return shown


def row(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A job in a list: what one chooses by."""
    shown = {name: summary[name] for name in _ROW if not _is_empty(summary[name])}
    return (
        shown
        | ({"attempt": summary["attempt"]} if summary["attempt"] > 1 else {})
        | ({"overdue": True} if summary["overdue"] else {})
    )


def state(whole: Mapping[str, Any]) -> dict[str, Any]:
    """How a job stands, without its bodies: for a caller who has just written or read them."""
    return {name: value for name, value in job(whole).items() if name not in _BODIES}


def plain(value: Any) -> Any:
    """A value without empty members, one level deep in lists."""
    if isinstance(value, Mapping):
        return {name: each for name, each in value.items() if name not in _NOISE and not _is_empty(each)}
    return [plain(each) for each in value] if isinstance(value, list) else value


def _is_empty(value: Any) -> bool:
    return any(value is each or (value == each and type(value) is type(each)) for each in _EMPTY)


@dataclass(slots=True)
class _Knife:
    longest: int
    most: int
    deepest: int
    cuts: dict[str, None] = field(default_factory=dict)

    def cut(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            if len(value) <= self.longest:
                return value
            self._note(path)
            return value[: self.longest - 1] + "…"
        if not isinstance(value, dict | list):
            return value
        if len(path) >= self.deepest and value:
            self._note(path)
            return type(value)()
        if isinstance(value, list):
            if len(value) > self.most:
                self._note(path)
            return [self.cut(each, (*path, str(at))) for at, each in enumerate(value[: self.most])]
        kept = [name for name in value if len(name) <= self.longest][: self.most if len(path) > 1 else None]
        if len(kept) < len(value):
            self._note(path)
        return {name: self.cut(value[name], (*path, name)) for name in kept}

    def _note(self, path: tuple[str, ...]) -> None:
        if len(self.cuts) < _PATHS:
            self.cuts["/".join(path[:2])] = None


def fit(value: dict[str, Any], room: int = ROOM) -> tuple[dict[str, Any], list[str]]:
    """The value cut as little as is needed to fit, and the parts (`job/context`) that are shown shortened. A list that
    fits a page stays whole."""
    shown, cuts = value, list[str]()
    if weight(value) <= room:
        return value, cuts
    pages = {
        name: part for name, part in value.items() if isinstance(part, list) and weight(part) <= PAGE_ROOM
    }
    if weight(pages) > room:
        pages = {}
    for step in _STEPS:
        knife = _Knife(*step)
        shown = {**knife.cut({name: part for name, part in value.items() if name not in pages}, ()), **pages}
        cuts = list(knife.cuts)
        if weight(shown) <= room:
            break
    return shown, cuts


def window(whole: Any, offset: int) -> dict[str, Any]:
    """A part of a value's JSON text, from a character on: what was cut, piece by piece."""
    written = text(whole)
    shown = written[offset : offset + WINDOW]
    while (heavy := weight(shown) / (ROOM // 2)) > 1:
        shown = shown[: int(len(shown) / heavy)]
    return {"text": shown, "from": offset, "to": offset + len(shown), "of": len(written)}
