"""What a command prints: one JSON document, NDJSON, or compact text.

Text from agents is data: control characters are shown escaped, markup is never interpreted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line separators, marks that reorder text, lone surrogates."""
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
WIDE = 4_000
"""Columns where nobody looks: rows are never wrapped or cut in a pipe."""


Step = Callable[[int], object]
"""Counts something that was done."""


def clean(value: object) -> str:
    """One line of text that a terminal shows and never obeys."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return _ACTIVE.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value)
    return str(value)


def document(value: Any) -> None:
    """One JSON document (or one line of NDJSON) on standard output."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def line(text: str = "") -> None:
    """A line on standard output. The caller cleans what came from elsewhere."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], nothing: str = "nothing") -> None:
    """A compact table on standard output; ``nothing`` when there are no rows."""
    listed = [[clean(cell) for cell in row] for row in rows]
    if not listed:
        line(nothing)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(Text(column), overflow="fold")
    for row in listed:
        shown.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout, width=None if terminal else WIDE, highlight=False, no_color=not terminal).print(
        shown
    )


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Named values, one a line; those that are None or empty are left out."""
    kept = [(name, clean(value)) for name, value in pairs if value not in (None, "", [], {}, ())]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        line(f"{name:<{width}}  {value}")


def problem(document_: Mapping[str, Any], detail: str, hint: str) -> None:
    """Why a call was refused, on standard error."""
    code = document_.get("code")
    note(f"interlock: {clean(detail)}" + (f" ({clean(code)})" if code else ""))
    for error in document_.get("errors") or []:
        note(f"  {clean(error.get('path'))}: {clean(error.get('message'))}")
    if hint:
        note(f"  {clean(hint)}")


@contextmanager
def bar(what: str, total: int) -> Iterator[Step]:
    """How many of ``total`` bytes are done, on standard error while a person looks; silent otherwise."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def counter(what: str) -> Iterator[Step]:
    """Counts on standard error while a person looks; silent otherwise."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)
