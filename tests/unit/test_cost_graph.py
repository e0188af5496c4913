"""The cost of links on DynamoDB: units an edge, the same for few and for a thousand (tests/sim/meter.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim.meter import Meter
from tests.sim.world import World

CREATE = (4.2, 4.0)
"""(write, read) units an edge of creating a job that waits: a row at each end, a look at the upstream before and after."""
OPEN = (5.7, 9.7)
"""Of a completion that somebody waits for, all that follows included; the caller's call is 2 and 3.5 of it."""
PLAN = (12.8, 11.7)
"""Of a job of a plan that waits for one other, all that follows included."""
CASCADE = (9.5, 13.2)
"""Of a job that fails, or comes back, because its upstream does."""
PLAIN_COMPLETION = (4, 6)
"""Units of completing a job that nobody waits for: nothing is added for links but one look."""


def spent(meter: Meter, work: Callable[[], object], edges: int = 1) -> tuple[float, float]:
    """(write, read) units of what is done, an edge."""
    before = meter.writes, meter.reads
    work()
    return (meter.writes - before[0]) / edges, (meter.reads - before[1]) / edges


def within(found: tuple[float, float], figure: tuple[float, float]) -> bool:
    """Not above the figure, and not so far below that the figure says nothing."""
    return all(bound * 0.6 <= units <= bound for units, bound in zip(found, figure, strict=True))


def planned(w: World, count: int, *, chained: bool = False, hub: str | None = None) -> list[str]:
    jobs: list[str] = []
    while len(jobs) < count:
        part = min(200, count - len(jobs))
        wanted = [
            {
                "ref": f"r{n}",
                "summary": "work",
                "role": "developer",
                "blocked_by": [f"r{n - 1}"] if chained and n else [hub] if hub else [],
            }
            for n in range(part)
        ]
        jobs += w.ok("POST", "P/plans", {"jobs": wanted})["jobs"].values()
    return jobs


@pytest.mark.parametrize("wide", [8, 100, 1_000])
def test_a_fan_in_costs_the_same_an_edge(metered_world: tuple[World, Meter], wide: int) -> None:
    w, meter = metered_world
    ups = planned(w, wide)
    w.pump()
    made: list[str] = []

    def create() -> None:
        made.append(w.job(blocked_by=ups))
        w.pump()

    assert within(found := spent(meter, create, wide), CREATE), found
    for up in ups:
        w.claim(up)
    w.pump()

    def complete() -> None:
        for up in ups:
            w.ok("POST", f"P/jobs/{up}/complete", {"fence": 1})
        w.pump()

    assert within(found := spent(meter, complete, wide), OPEN), found
    assert w.get(made[0])["status"] == "published"


@pytest.mark.parametrize("long", [8, 100, 200])
@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_a_cascade_costs_the_same_a_job(metered_world: tuple[World, Meter], long: int, shape: str) -> None:
    w, meter = metered_world
    root = w.job()
    made: list[str] = []

    def plan() -> None:
        made.extend(planned(w, long, chained=shape == "chain", hub=root))
        w.pump()

    w.pump()
    assert within(found := spent(meter, plan, long), PLAN), found
    w.ok("POST", f"P/jobs/{root}/fail", {"fence": w.claim(root), "reason": "no"})
    assert within(found := spent(meter, w.pump, long), CASCADE), found
    assert w.get(made[-1])["status"] == "failed"
    w.ok("POST", f"P/jobs/{root}/retry", {}, token="owner")
    assert within(found := spent(meter, w.pump, long), CASCADE), found
    assert w.get(made[-1])["status"] == "pending"


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_the_end_of_a_job_that_nobody_waits_for_calls_nobody(
    metered_world: tuple[World, Meter], end: str
) -> None:
    w, meter = metered_world
    job = w.job()
    body = {"fence": w.claim(job), **({} if end == "complete" else {"reason": "no"})}
    w.pump()
    units = spent(meter, lambda: (w.ok("POST", f"P/jobs/{job}/{end}", body), w.dispatch()))
    assert units[0] == PLAIN_COMPLETION[0] or end != "complete", meter.log
    assert units[1] <= PLAIN_COMPLETION[1], meter.log
    queues = w.bus.store.queues
    assert (queues.depth("barrier"), queues.depth("routing")) == (0, 0)
    waited = w.job()
    w.job(blocked_by=[waited])
    w.pump()
    w.ok("POST", f"P/jobs/{waited}/{end}", {**body, "fence": w.claim(waited)})
    w.dispatch()
    assert queues.depth("barrier") == 1, "whoever is waited for calls once"
