"""`interlock project …`, `interlock pause`, `interlock resume`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import amounts, inputs, names, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import usage
from interlock.cli.jobs import page

app = typer.Typer(name="project", help="Make, list and change projects.", no_args_is_help=True)
Settings = Annotated[str | None, typer.Option("--settings", metavar="JSON|@FILE|-", help="A JSON object.")]
Named = Annotated[str | None, typer.Argument(metavar="[PROJECT]", help="Its id (default: the current one).")]


@command(app, "create", "projects.create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    title: Annotated[str, typer.Option(help="What people call it.")],
    settings: Settings = None,
    max_claims: amounts.Cap = None,
    daily_usd: amounts.DailyUsd = None,
    daily_tokens: amounts.DailyTokens = None,
    daily_seconds: amounts.DailySeconds = None,
) -> None:
    limits = amounts.cap(max_claims) | amounts.daily(daily_usd, daily_tokens, daily_seconds)
    body = inputs.sent(id=name, title=title, settings=_settings(settings, limits))
    session.show(session.call("projects.create", body).value, shapes.thing)


@command(app, "list", "projects.list")
def list_(
    session: Session,
    limit: inputs.Limit = None,
    cursor: inputs.Cursor = None,
    everything: inputs.Everything = False,
) -> None:
    query = inputs.sent(limit=limit, cursor=cursor)
    session.show(page(session, "projects.list", query, everything), shapes.projects)


@command(app, "show", "projects.get")
def show(session: Session, name: Named = None) -> None:
    session.show(session.call("projects.get", path={"project": name} if name else None).value, shapes.thing)


@command(app, "edit", "projects.update")
def edit(
    session: Session,
    name: Named = None,
    title: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    settings: Settings = None,
    max_claims: amounts.Cap = None,
    daily_usd: amounts.DailyUsd = None,
    daily_tokens: amounts.DailyTokens = None,
    daily_seconds: amounts.DailySeconds = None,
    no_daily_budget: amounts.NoDaily = False,
) -> None:
    limits = amounts.cap(max_claims)
    limits |= amounts.daily(daily_usd, daily_tokens, daily_seconds, none=no_daily_budget)
    body = inputs.sent(title=title, settings=_settings(settings, limits))
    answer = session.call("projects.update", body, path={"project": name} if name else None)
    session.show(answer.value, shapes.thing)


def _settings(text: str | None, limits: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that were given, as a document and by options of their own; these win."""
    given = inputs.document("--settings", text)
    return {**(given or {}), **limits} if limits else given


def register(root: typer.Typer) -> None:
    """Add the commands that stand at the top."""

    @command(root, "pause", "projects.pause")
    def pause(
        session: Session,
        role: Annotated[str | None, typer.Option(help="Only this role.")] = None,
        agent: Annotated[str | None, typer.Option(help="Only this agent (id or label).")] = None,
        reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    ) -> None:
        _switch(session, "projects.pause", role, agent, reason)

    @command(root, "resume", "projects.resume")
    def resume(
        session: Session,
        role: Annotated[str | None, typer.Option(help="Only this role.")] = None,
        agent: Annotated[str | None, typer.Option(help="Only this agent (id or label).")] = None,
        reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    ) -> None:
        _switch(session, "projects.resume", role, agent, reason)


def _switch(
    session: Session, operation: str, role: str | None, agent: str | None, reason: str | None
) -> None:
    if role and agent:
        raise usage("name a role or an agent, not both")
    target = inputs.sent(role=role, agent=names.agent_id(session, agent) if agent else None)
    body = {**(target or {"project": True}), **inputs.sent(reason=reason)}
    session.show(session.call(operation, body).value, _paused)


def _paused(answer: Mapping[str, Any]) -> None:
    screen.table(
        ("PAUSED", "SINCE", "BY", "WHY"),
        ((one["target"], one.get("since"), one.get("by"), one.get("reason")) for one in answer["paused"]),
        "nothing is paused",
    )
