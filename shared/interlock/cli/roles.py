"""`interlock role …`."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import amounts, inputs, shapes
from interlock.cli.command import Session, command

app = typer.Typer(name="role", help="Make, list and change roles.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(metavar="KEY", help="The role's key.")]
Lease = Annotated[int | None, typer.Option(help="Default lease of its jobs, in seconds.")]
Expire = Annotated[str | None, typer.Option(help="What a lapse does: publish, fail or ask.")]
Label = Annotated[str | None, typer.Option(help="What people call it.")]
Capabilities = Annotated[
    list[str] | None, typer.Option("--capability", help="Its jobs ask for this; repeatable.")
]

Independent = Annotated[
    bool | None,
    typer.Option(
        "--independent/--no-independent",
        help="Whoever worked on what a job of it waits for may not claim it.",
    ),
]


@command(app, "add", "roles.create")
def add(
    session: Session,
    role: Key,
    label: Label = None,
    lease_seconds: Lease = None,
    on_expire: Expire = None,
    capabilities: Capabilities = None,
    independent: Independent = None,
    max_claims: amounts.Cap = None,
    daily_usd: amounts.DailyUsd = None,
    daily_tokens: amounts.DailyTokens = None,
    daily_seconds: amounts.DailySeconds = None,
) -> None:
    body = inputs.sent(
        key=role,
        label=label or role,
        lease_seconds=lease_seconds,
        on_expire=on_expire,
        capabilities=capabilities,
        independent=independent,
    )
    body |= amounts.cap(max_claims) | amounts.daily(daily_usd, daily_tokens, daily_seconds)
    session.show(session.call("roles.create", body).value, shapes.thing)


@command(app, "list", "roles.list")
def list_(session: Session) -> None:
    session.show(session.call("roles.list").value, shapes.roles)


@command(app, "edit", "roles.update")
def edit(
    session: Session,
    role: Key,
    label: Label = None,
    lease_seconds: Lease = None,
    on_expire: Expire = None,
    capabilities: Capabilities = None,
    independent: Independent = None,
    max_claims: amounts.Cap = None,
    daily_usd: amounts.DailyUsd = None,
    daily_tokens: amounts.DailyTokens = None,
    daily_seconds: amounts.DailySeconds = None,
    no_daily_budget: amounts.NoDaily = False,
) -> None:
    body = inputs.sent(
        label=label,
        lease_seconds=lease_seconds,
        on_expire=on_expire,
        capabilities=capabilities,
        independent=independent,
    )
    body |= amounts.cap(max_claims)
    body |= amounts.daily(daily_usd, daily_tokens, daily_seconds, none=no_daily_budget)
    session.show(session.call("roles.update", body, path={"role": role}).value, shapes.thing)


@command(app, "delete", "roles.delete")
def delete(session: Session, role: Key) -> None:
    session.show(session.call("roles.delete", path={"role": role}).value, shapes.thing)
