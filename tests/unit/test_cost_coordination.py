"""What beats, decisions and usage cost on DynamoDB, in request units (tests/sim/meter.py): docs/coordination.md says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.meter import Meter
from tests.sim.world import World

QUESTION = {
    "kind": "question",
    "prompt": "Which port?",
    "blocker": "cannot bind",
    "risk": "clash",
    "options": ["1", "2"],
}


def spent(w: World, meter: Meter, work: Callable[[], Any]) -> tuple[float, float]:
    """(write, read) units of what is done, and of everything that follows from it."""
    before = meter.writes, meter.reads
    work()
    w.pump()
    return meter.writes - before[0], meter.reads - before[1]


@pytest.mark.parametrize("leases", [1, 10])
def test_a_beat_costs_a_unit_a_lease_and_one_for_the_sign_of_life(
    leases: int, metered_world: tuple[World, Meter]
) -> None:
    w, meter = metered_world
    for job in [w.job() for _ in range(leases)]:
        w.claim(job, heartbeat_seconds=30)
    w.pump()
    w.clock.advance(30)
    writes, reads = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {}))
    assert writes == leases + 1
    assert reads <= 3.5 + leases


def held(w: World, **fields: Any) -> tuple[str, int]:
    job = w.job(**fields)
    fence = w.claim(job)
    w.pump()
    return job, fence


def test_a_question_and_its_answer(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    job, fence = held(w)
    asked: list[Any] = []
    path = f"P/jobs/{job}/decisions"
    writes, reads = spent(w, meter, lambda: asked.append(w.ok("POST", path, {"fence": fence, **QUESTION})))
    assert writes <= 12
    assert reads <= 3
    answer = f"P/decisions/{asked[0]['decision']['id']}/answer"
    writes, reads = spent(w, meter, lambda: w.ok("POST", answer, {"answer": "1"}, token="owner"))
    assert writes <= 10
    assert reads <= 4.5


@pytest.mark.parametrize("budget", [None, {"seconds": 100}])
def test_usage_goes_with_what_is_written_anyway(
    budget: dict[str, int] | None, metered_world: tuple[World, Meter]
) -> None:
    w, meter = metered_world
    job, fence = held(w, **({"budget": budget} if budget else {}))
    plain, plain_fence = held(w)
    w.ok("POST", "P/heartbeat", {})
    named = [{"id": job, "fence": fence, "usage": {"seconds": 4}}]
    with_usage = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {"jobs": named}))
    without = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {}))
    assert with_usage == without, "it goes with the renewal"
    ended = spent(
        w, meter, lambda: w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "usage": {"seconds": 5}})
    )
    silent = spent(w, meter, lambda: w.ok("POST", f"P/jobs/{plain}/complete", {"fence": plain_fence}))
    assert ended[0] - silent[0] <= 2, "an event says what was used in the end"
