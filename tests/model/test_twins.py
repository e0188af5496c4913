"""The same call several times at once: one effect, and every other answer is marked as a repeat of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.outcome import outcome
from tests.sim.race import Race, Sent, explore
from tests.sim.requests import FIXTURES
from tests.sim.world import world

POSTS = [
    name
    for name, (operation, _) in FIXTURES.items()
    if not operation.endswith(("update", "delete", "edit", "revoke", "unbroadcast"))
]


@cache
def alone(name: str) -> list[tuple[Any, ...]]:
    """What the call comes to when it is made once."""
    w = world()
    FIXTURES[name][1](w).send(w)
    w.clock.advance(6)
    oracle.settle(w)
    return outcome(w)


def twins_of(name: str, race: Race) -> None:
    """Three of them."""
    request = FIXTURES[name][1](race.w)
    sent = [race.calls(f"twin{n}", *_positional(request), **_named(request)) for n in range(3)]
    race.run()
    race.settle()
    assert all(s.status in (200, 201) for s in sent), [str(s) for s in sent]
    if request.replays:
        first = [s for s in sent if not s.replayed and not _nothing(s)]
        assert len(first) == 1, [str(s) for s in sent]
        assert all(s.status == 200 for s in sent if s.replayed)
        # claim-next may find nothing, but not once its twin has answered
        assert all(s.replayed or s.ended <= first[0].ended for s in sent)
    assert outcome(race.w) == alone(name)


def _nothing(sent: Sent) -> bool:
    return sent.path.endswith("/claims") and sent.reply.body["job"] is None


def _positional(request: Any) -> tuple[Any, ...]:
    return request.method, request.path, request.body


def _named(request: Any) -> dict[str, Any]:
    return {"token": request.token, "key": request.key, "headers": request.headers}


def _scenario(name: str) -> Any:
    def twins(race: Race) -> None:
        twins_of(name, race)

    return twins


def _lag(name: str) -> bool:
    """What claim-next has just freed it finds by the index, the next time if need be."""
    return not name.startswith("claims.next of")


@pytest.mark.parametrize("name", POSTS)
def test_twins(name: str) -> None:
    explore(_scenario(name), 4, lag=_lag(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTS)
def test_many_twins(name: str) -> None:
    explore(_scenario(name), 20, lag=_lag(name))
