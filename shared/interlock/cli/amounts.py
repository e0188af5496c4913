"""Caps, budgets and usage on the command line: numbers of claims, tokens, US dollars and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import inputs, screen
from interlock.cli.exits import usage as misuse

_ALL = "of the job and its retries together"
BudgetUsd = Annotated[
    float | None, typer.Option("--budget-usd", min=0, help=f"US dollars that may be used, {_ALL}.")
]
BudgetTokens = Annotated[
    int | None, typer.Option("--budget-tokens", min=0, help=f"Tokens that may be used, {_ALL}.")
]
BudgetSeconds = Annotated[
    float | None, typer.Option("--budget-seconds", min=0, help=f"Seconds that may be used, {_ALL}.")
]
BudgetCount = Annotated[
    str | None,
    typer.Option(
        "--budget-count", help="reported (default: what agents report) or metered (seconds, by the bus)."
    ),
]
NoBudget = Annotated[bool, typer.Option("--no-budget", help="Take the budget away.")]
DailyUsd = Annotated[float | None, typer.Option("--daily-usd", min=0, help="US dollars a day (UTC).")]
DailyTokens = Annotated[int | None, typer.Option("--daily-tokens", min=0, help="Tokens a day (UTC).")]
DailySeconds = Annotated[float | None, typer.Option("--daily-seconds", min=0, help="Seconds a day (UTC).")]
NoDaily = Annotated[bool, typer.Option("--no-daily-budget", help="Take the daily budget away.")]
Cap = Annotated[
    int | None,
    typer.Option("--max-claims", min=0, help="How many claims may live at once; 0 takes the cap away."),
]
Usage = Annotated[
    str | None,
    typer.Option(
        "--usage",
        metavar="JSON|@FILE|-",
        help="What was used under this claim so far: input_tokens, output_tokens, usd, seconds, model.",
    ),
]


def budget(
    usd: float | None,
    tokens: int | None,
    seconds: float | None,
    count: str | None = None,
    *,
    none: bool = False,
    field: str = "budget",
) -> dict[str, Any]:
    """The field of a body, if any of its options was used; ``none`` takes the budget away."""
    given = inputs.sent(usd=usd, tokens=tokens, seconds=seconds, count=count)
    if none and given:
        raise misuse("name a budget, or take it away")
    return {field: given or None} if given or none else {}


def daily(
    usd: float | None, tokens: int | None, seconds: float | None, *, none: bool = False
) -> dict[str, Any]:
    """As :func:`budget`, of a day."""
    return budget(usd, tokens, seconds, none=none, field="daily_budget")


def cap(claims: int | None) -> dict[str, Any]:
    """The field `max_claims`, if the option was used."""
    return {} if claims is None else {"max_claims": claims or None}


def used(text: str | None) -> dict[str, Any]:
    """The field `usage`, if the option was used."""
    return inputs.sent(usage=inputs.document("--usage", text))


def shown(budget: Mapping[str, Any] | None) -> str | None:
    """A budget for people; None where there is none."""
    if not budget:
        return None
    amounts = _listed({name: budget.get(name) for name in ("tokens", "usd", "seconds")})
    count = f" ({screen.clean(budget['count'])})" if budget.get("count") else ""
    return f"{amounts}{count}{', spent' if budget.get('spent') else ''}"


def spent(usage: Mapping[str, Any] | None) -> str | None:
    """What was reported and what was metered, for people, never added up; None where nothing was used."""
    found = usage or {}
    parts = {
        "reported": _listed(found.get("reported")),
        "metered": _listed(found.get("metered")),
        "reported in earlier attempts": _listed(found.get("earlier")),
    }
    return "; ".join(f"{amounts} {how}" for how, amounts in parts.items() if amounts) or None


def _listed(amounts: Mapping[str, Any] | None) -> str:
    named = {name.replace("_", " "): value for name, value in (amounts or {}).items() if value}
    whole = {name: int(value) if value == int(value) else value for name, value in named.items()}
    return ", ".join(f"{value:,} {name}" for name, value in whole.items())
