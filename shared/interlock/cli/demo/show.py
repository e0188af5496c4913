"""What a person sees while the demo runs: a line for each thing that happens, and the board below on a terminal."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TextIO

from interlock.cli.screen import clean

TIME = 9
"""Columns of a line's time."""
COLUMNS = ("JOB", "ROLE", "STATUS", "WHO", "TRIES", "SECONDS", "RESULT")
_GAP = 2
_LEAST = 12
"""Columns that are left to a result on a narrow terminal."""


class Show:
    """Says lines with the seconds since the start; on a terminal it keeps a live table of the jobs below them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self.stream = stream or sys.stdout
        self._terminal = terminal = self.stream.isatty()
        self._started = time.monotonic()
        self._console = Console(
            file=self.stream, highlight=False, markup=False, width=None if terminal else 200
        )
        self._live: Any = None
        if terminal:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Show:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.still()

    def still(self) -> None:
        """Take the live table away; lines go on."""
        if self._live:
            self._live.stop()
            self._live = None

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def say(self, text: str, indent: int = TIME) -> None:
        """One line, now; where it is broken, it goes on after ``indent`` columns."""
        self._print(f"{self.seconds:5.1f} s  {clean(text)}", indent)

    def board(self, rows: Sequence[Sequence[object]]) -> None:
        """The jobs as they stand."""
        if self._live:
            self._live.update(_table(rows, self._console.width))

    def summary(self, rows: Sequence[Sequence[object]]) -> None:
        """The jobs as they ended."""
        self._console.print()
        self._console.print(_table(rows, self._console.width))
        self._console.print()

    def line(self, text: str = "") -> None:
        """A line without the time."""
        self._print(clean(text), 0)

    def _print(self, text: str, indent: int) -> None:
        """On a terminal long lines are broken between words, below their beginning; elsewhere they stay whole."""
        if self._terminal:
            width = max(self._console.width, indent + 20)
            text = textwrap.fill(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)
        self._console.print(text, soft_wrap=True)


def _table(rows: Sequence[Sequence[object]], room: int) -> Any:
    """The rows in ``room`` columns: results are cut to what the rest leaves them."""
    from rich.table import Table
    from rich.text import Text

    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *cells, strict=True)]
    widths[-1] = min(widths[-1], max(_LEAST, room - sum(widths[:-1]) - _GAP * len(COLUMNS)))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name, width in zip(COLUMNS, widths, strict=True):
        table.add_column(
            name, justify="right" if name in {"TRIES", "SECONDS"} else "left", no_wrap=True, width=width
        )
    for row in cells:
        table.add_row(*map(Text, row))
    return table
