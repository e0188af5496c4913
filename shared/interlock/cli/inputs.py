"""JSON and lists from the command line, from a file, or from standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli.exits import usage

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Fence = Annotated[
    int | None,
    typer.Option(help="The claim's fence (default: INTERLOCK_FENCE, for the job of INTERLOCK_JOB)."),
]
Reason = Annotated[str, typer.Option(help="Why.")]
Document = Annotated[str | None, typer.Option(metavar="JSON|@FILE|-", help="A JSON object.")]
Documents = Annotated[list[str] | None, typer.Option(metavar="JSON|@FILE", help="A JSON object; repeatable.")]
Labels = Annotated[list[str] | None, typer.Option(help="Repeatable.")]
Session = Annotated[
    str | None,
    typer.Option("--session", help="Names this process; a claim is repeated only by its own session."),
]
Heartbeat = Annotated[int | None, typer.Option(help="Seconds between beats; the lease lasts three of them.")]
Lease = Annotated[int | None, typer.Option(help="Seconds of the lease, where no heartbeat is named.")]
Limit = Annotated[int | None, typer.Option(help="How many at most.")]
Cursor = Annotated[str | None, typer.Option(help="Go on where a page ended.")]
Everything = Annotated[bool, typer.Option("--all", help="Every page.")]


def text_of(value: str) -> str:
    """The text itself, of ``@FILE``, or of standard input for ``-``."""
    if value == "-":
        return sys.stdin.read()
    if value.startswith("@"):
        try:
            return Path(value[1:]).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise usage(f"cannot read {value[1:]}: {type(error).__name__}") from error
    return value


def document(option: str, value: str | None) -> dict[str, Any] | None:
    """The JSON object of an option; None when the option was not used."""
    if value is None:
        return None
    parsed = any_value(option, value)
    if not isinstance(parsed, dict):
        raise usage(f"{option} is not a JSON object")
    return parsed


def any_value(option: str, value: str) -> Any:
    """The JSON value of an option."""
    try:
        return json.loads(text_of(value), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise usage(f"{option} is not valid JSON: {error}") from error


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of these pairs; ValueError when a key comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a key twice")
    return found


def listed(option: str, values: Sequence[str] | None) -> list[Any] | None:
    """The JSON objects of a repeatable option, each of whose values may also be a list of them."""
    if not values:
        return None
    found: list[Any] = []
    for value in values:
        parsed = any_value(option, value)
        found += parsed if isinstance(parsed, list) else [parsed]
    if not all(isinstance(one, dict) for one in found):
        raise usage(f"{option} is neither a JSON object nor a list of them")
    return found


def documents(option: str, values: Sequence[str] | None) -> list[dict[str, Any]] | None:
    """The JSON objects of a repeatable option; None when it was not used."""
    return [parsed for value in values if (parsed := document(option, value)) is not None] if values else None


def sent(**fields: Any) -> dict[str, Any]:
    """A body of the fields that were given. A repeatable option that was not used counts as not given."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def fence_of(job: str, fence: int | None) -> int | None:
    """The fence that was given, else the one that `interlock work` gave to this process for this very job."""
    if fence is None and os.environ.get("INTERLOCK_JOB") == job:
        given = os.environ.get("INTERLOCK_FENCE", "")
        return int(given) if given.isascii() and given.isdigit() else None
    return fence


def held_fence(job: str, fence: int | None) -> int:
    """As :func:`fence_of`, for operations that need one."""
    found = fence_of(job, fence)
    if found is None:
        raise usage("--fence is needed", "The claim's answer names it; `interlock whoami` lists your claims.")
    return found
