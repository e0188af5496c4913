"""`interlock owner …`: owners of a project, or with --installation of the installation."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import inputs, names, shapes, tokens
from interlock.cli.command import Session, command
from interlock.cli.jobs import page

app = typer.Typer(name="owner", help="Enrol and list owners, and their tokens.", no_args_is_help=True)
Owner = Annotated[str, typer.Argument(metavar="OWNER", help="The owner's id or label.")]
Token = Annotated[str, typer.Argument(metavar="TOKEN-ID", help="The token's id, never the token itself.")]
Installation = Annotated[
    bool, typer.Option("--installation", help="Of the whole installation, not of one project.")
]


@command(app, "add", "owners.create")
def add(
    session: Session,
    label: Annotated[str, typer.Argument(help="What people call them.")],
    rights: Annotated[str, typer.Option(help="owner or viewer.")] = "owner",
    installation: Installation = False,
) -> None:
    operation = "installation.owner_create" if installation else "owners.create"
    session.show(session.call(operation, {"label": label, "rights": rights}).value, shapes.thing)


@command(app, "list", "owners.list")
def list_(
    session: Session,
    limit: inputs.Limit = None,
    cursor: inputs.Cursor = None,
    everything: inputs.Everything = False,
    installation: Installation = False,
) -> None:
    operation = "installation.owner_list" if installation else "owners.list"
    session.show(page(session, operation, inputs.sent(limit=limit, cursor=cursor), everything), shapes.owners)


@command(app, "remove", "owners.delete")
def remove(session: Session, owner: Owner, installation: Installation = False) -> None:
    operation = "installation.owner_delete" if installation else "owners.delete"
    session.show(session.call(operation, path=_whose(session, owner, installation)).value, shapes.thing)


@command(app, "token", "owners.token_create")
def token(
    session: Session,
    owner: Owner,
    name: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    expires_in: Annotated[int | None, typer.Option(help="Seconds until it ends.")] = None,
    installation: Installation = False,
) -> None:
    tokens.create(session, _area(installation), _whose(session, owner, installation), name, expires_in)


@command(app, "rotate", "owners.token_rotate")
def rotate(
    session: Session,
    owner: Owner,
    token: Token,
    grace: Annotated[
        int | None, typer.Option(help="Seconds that the old one goes on (default 3,600).")
    ] = None,
    installation: Installation = False,
) -> None:
    tokens.rotate(session, _area(installation), _whose(session, owner, installation), token, grace)


@command(app, "revoke", "owners.token_revoke")
def revoke(session: Session, owner: Owner, token: Token, installation: Installation = False) -> None:
    tokens.revoke(session, _area(installation), _whose(session, owner, installation), token)


def _area(installation: bool) -> str:
    return "installation" if installation else "owners"


def _whose(session: Session, owner: str, installation: bool) -> dict[str, str]:
    return {"owner": names.owner_id(session, owner, installation=installation)}
