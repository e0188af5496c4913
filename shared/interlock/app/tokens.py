"""Tokens of agents and owners: make, rotate, revoke. Only the hash of a secret is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interlock.app.call import Answer, Call
from interlock.app.identity import SHOWN_ONCE, new_token, require_active
from interlock.app.settle import settle
from interlock.domain import ids, limits
from interlock.domain.identity import Agent, Owner, Token, live_tokens, remembered
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import InterlockError


def _person(call: Call) -> Agent | Owner:
    assert isinstance(call.target, Agent | Owner)
    return call.target


def _kind(person: Agent | Owner) -> tuple[str, str]:
    return ("agent", person.project) if isinstance(person, Agent) else ("owner", person.scope)


def _issue(call: Call, replaces: str | None) -> Answer:
    person = _person(call)
    kind, scope = _kind(person)
    body = call.body
    # derived where a key is sent, so that a repeat can name the token that the first call made
    token_id = ids.derived("tok", person.id, call.key.hex()) if call.key else None
    made, text = new_token(
        call.bus,
        kind,
        scope,
        person.id,
        now=call.now,
        name=body.get("name") or "",
        expires_in=body.get("expires_in"),
        token_id=token_id,
    )

    def decision(head: Any) -> Change:
        require_active(head)
        token, tokens, data = made, head.tokens, {"token": made.id}
        if replaces is not None:
            old = _find(head.tokens, replaces)
            if not old.live(call.now):
                raise InterlockError("wrong_state", "this token has ended; make a new one")
            grace_end = call.now + body["grace_seconds"] * limits.SECOND
            ended = replace(old, expires_at=min(old.expires_at or grace_end, grace_end))
            if body["grace_seconds"] == 0:
                ended = replace(old, revoked_at=call.now)
            token = replace(made, name=old.name)
            tokens = tuple(ended if known.id == old.id else known for known in tokens)
            data["replaces"] = old.id
        if len(live_tokens(tokens, call.now)) >= limits.LIVE_TOKENS + (replaces is not None):
            raise InterlockError("limit_reached", f"an identity has at most {limits.LIVE_TOKENS} live tokens")
        event = "token.rotated" if replaces else "token.created"
        return Change({"tokens": (*remembered(tokens, call.now), token)}, (Fact(event, data=data),))

    head, repeated = settle(call, person, decision)
    if repeated:
        return Answer({"id": made.id, "hint": SHOWN_ONCE}, replayed=True, version=head.version)
    return Answer({"id": made.id, "token": text}, created=True, version=head.version)


def _find(tokens: tuple[Token, ...], token_id: str) -> Token:
    for token in tokens:
        if token.id == token_id:
            return token
    raise InterlockError("not_found", "there is no such token")


def create(call: Call) -> Answer:
    """Make another token for an identity."""
    return _issue(call, None)


def rotate(call: Call) -> Answer:
    """Replace a token; the old one ends after a grace time (seconds)."""
    return _issue(call, call.params["token"])


def revoke(call: Call) -> Answer:
    """Revoke a token; it ends with the answer."""
    token_id = call.params["token"]

    def decision(head: Any) -> Change | None:
        token = _find(head.tokens, token_id)
        if token.revoked_at:
            return None
        ended = replace(token, revoked_at=call.now)
        tokens = tuple(ended if known.id == token_id else known for known in head.tokens)
        if head.id == call.actor.id and not live_tokens(tokens, call.now):
            raise InterlockError(
                "in_use",
                "an owner cannot revoke its own last token",
                hint="Rotate it, or let another owner revoke it.",
            )
        return Change({"tokens": tokens}, (Fact("token.revoked", data={"token": token_id}),))

    head, _ = settle(call, _person(call), decision)
    return Answer({"id": token_id, "revoked": True}, version=head.version)
