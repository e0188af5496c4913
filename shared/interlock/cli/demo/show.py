"""What a person sees while the demo runs: a line for each thing that happens, and the board below on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TextIO

from interlock.cli.screen import clean


class Show:
    """Says lines with the seconds since the start; on a terminal it keeps a live table of the jobs below them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self.stream = stream or sys.stdout
        terminal = self.stream.isatty()
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

    def say(self, text: str) -> None:
        """One line, now."""
        self._console.print(f"{self.seconds:5.1f} s  {clean(text)}", soft_wrap=True)

    def board(self, rows: Sequence[Sequence[object]]) -> None:
        """The jobs as they stand."""
        if self._live:
            self._live.update(_table(rows))

    def summary(self, rows: Sequence[Sequence[object]]) -> None:
        """The jobs as they ended."""
        self._console.print()
        self._console.print(_table(rows))
        self._console.print()

    def line(self, text: str) -> None:
        """A line without the time."""
        self._console.print(clean(text), soft_wrap=True)


COLUMNS = ("JOB", "ROLE", "STATUS", "WHO", "ATTEMPTS", "SECONDS", "RESULT")


def _table(rows: Sequence[Sequence[object]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(
            column,
            justify="right" if column in {"ATTEMPTS", "SECONDS"} else "left",
            no_wrap=True,
        )
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table
