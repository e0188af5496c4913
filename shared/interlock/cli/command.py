"""What every command shares: the common options, the session, and one way to end."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from interlock.cli import screen
from interlock.cli.client import Client, RefusedError, Reply
from interlock.cli.exits import INTERRUPTED, OK, USAGE, CommandError, usage
from interlock.cli.settings import Settings, load
from interlock.edges.operations import OPERATIONS

_PANEL = "Common options"
_COMMON: dict[str, tuple[Any, Any]] = {
    "json_output": (
        Annotated[
            bool, typer.Option("--json", help="One JSON document on standard output.", rich_help_panel=_PANEL)
        ],
        False,
    ),
    "url": (
        Annotated[
            str | None, typer.Option(help="The bus, instead of INTERLOCK_URL.", rich_help_panel=_PANEL)
        ],
        None,
    ),
    "project": (
        Annotated[
            str | None,
            typer.Option(help="The project, instead of INTERLOCK_PROJECT.", rich_help_panel=_PANEL),
        ],
        None,
    ),
    "profile": (Annotated[str | None, typer.Option(help="A profile by name.", rich_help_panel=_PANEL)], None),
    "side": (
        Annotated[
            str | None,
            typer.Option(
                "--as",
                metavar="agent|owner",
                help="Whose credential, where both are at hand.",
                rich_help_panel=_PANEL,
            ),
        ],
        None,
    ),
    "token_stdin": (
        Annotated[
            bool,
            typer.Option("--token-stdin", help="Read the token from standard input.", rich_help_panel=_PANEL),
        ],
        False,
    ),
}
_KEY = (
    Annotated[
        str | None,
        typer.Option("--key", help="Idempotency-Key, to repeat an earlier call.", rich_help_panel=_PANEL),
    ],
    None,
)


@dataclass(slots=True)
class Session:
    """One invocation: how it prints, and the bus it speaks to (found when it is first needed)."""

    json: bool = False
    url: str | None = None
    project: str | None = None
    profile: str | None = None
    side: str | None = None
    token: str | None = None
    key: str | None = None
    _client: Client | None = field(default=None, init=False)

    @property
    def settings(self) -> Settings:
        """Where this invocation is directed."""
        return self.client.settings

    @property
    def client(self) -> Client:
        """The client of this invocation."""
        if self._client is None:
            settings = load(
                url=self.url, project=self.project, profile=self.profile, token=self.token, side=self.side
            )
            self._client = Client(settings, self.side)
            if self.key:
                self._client.key = self.key
        return self._client

    def call(self, operation: str, body: Mapping[str, Any] | None = None, **more: Any) -> Reply:
        """Carry out one operation of the bus."""
        return self.client.call(operation, body, **more)

    def show(self, value: Mapping[str, Any], human: Callable[[Mapping[str, Any]], None]) -> None:
        """Print an answer: as JSON when asked, else as ``human`` prints it."""
        if self.json:
            screen.document(value)
        else:
            human(value)


def wants_json(flag: bool, ctx: typer.Context) -> bool:
    """Whether --json (before or after the command) or INTERLOCK_JSON=1 asks for JSON."""
    before = ctx.find_root().params.get("json_output", False)
    return bool(flag or before or os.environ.get("INTERLOCK_JSON", "") not in {"", "0", "false"})


def command(
    app: typer.Typer, name: str, operation: str = "", *, text: str = "", without: Container[str] = ()
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Register a command: ``function(session, …)`` with the common options added to its own.

    The help text is the operation's summary, or ``text`` where a command is more than one operation; its first
    paragraph stands in the list of commands. Commands that a key makes repeatable take ``--key``; ``without`` names common options that
    would mean nothing. What the function returns is the exit code; CommandError is printed and ends it.
    """
    row = OPERATIONS.get(operation)
    common_ones = {**_COMMON, "key": _KEY} if row and row.keyed else _COMMON
    options = {name: option for name, option in common_ones.items() if name not in without}
    about = text or (row.summary if row else "")

    def register(function: Callable[..., int | None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added + [context]

        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            common = {name: values.pop(name) for name in options}
            as_json = wants_json(common.pop("json_output", False), ctx)
            raise typer.Exit(_end(as_json, lambda: function(_session(as_json, common), **values)))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, help=about, short_help=about.partition("\n\n")[0])(run)
        return run

    return register


def _session(as_json: bool, common: dict[str, Any]) -> Session:
    if common.get("side") not in {None, "agent", "owner"}:
        raise usage("--as is agent or owner")
    token = sys.stdin.readline().strip() if common.pop("token_stdin", False) else None
    if token == "":
        raise usage("--token-stdin: standard input is empty")
    return Session(json=as_json, token=token, **common)


def _end(as_json: bool, run: Callable[[], int | None]) -> int:
    """Run a command and say what went wrong: the problem document on standard output with --json."""
    try:
        code = run() or OK
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough; the interpreter must not complain when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except CommandError as error:
        problem = error.problem if isinstance(error, RefusedError) else {}
        screen.problem(problem, error.detail, error.hint)
        if as_json and error.code != USAGE:
            screen.document(problem or {"detail": error.detail, "hint": error.hint, "exit": error.code})
        return error.code
