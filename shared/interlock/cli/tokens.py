"""`… token`, `… rotate`, `… revoke`: the same for agents and for both kinds of owners."""

from __future__ import annotations

from typing import Any

from interlock.cli import inputs, shapes
from interlock.cli.command import Session


def create(
    session: Session, area: str, whose: dict[str, str], name: str | None, expires_in: int | None
) -> None:
    """Make another token; it is shown once."""
    _show(
        session,
        session.call(f"{area}.token_create", inputs.sent(name=name, expires_in=expires_in), path=whose).value,
    )


def rotate(session: Session, area: str, whose: dict[str, str], token: str, grace: int | None) -> None:
    """Replace a token; the old one ends after ``grace`` seconds."""
    body = inputs.sent(grace_seconds=grace)
    _show(session, session.call(f"{area}.token_rotate", body, path={**whose, "token": token}).value)


def revoke(session: Session, area: str, whose: dict[str, str], token: str) -> None:
    """Revoke a token at once."""
    _show(session, session.call(f"{area}.token_revoke", path={**whose, "token": token}).value)


def _show(session: Session, answer: dict[str, Any]) -> None:
    session.show(answer, shapes.thing)
