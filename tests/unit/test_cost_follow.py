"""What follows from one end costs on DynamoDB by what follows: waiting jobs, rules, a retry (tests/sim/meter.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.sim.meter import metered
from tests.sim.world import world

WIDE = 60


class Metered:
    """A world that counts units, dispatcher and consumers included."""

    def __init__(self) -> None:
        def wrap(store: Any) -> Any:
            counted, self.meter = metered(store)
            return counted

        self.world = world(wrap=wrap)

    @contextmanager
    def at_most(self, writes: float, reads: float) -> Iterator[None]:
        self.world.pump()
        before = self.meter.writes, self.meter.reads
        yield
        self.world.pump()
        assert self.meter.writes - before[0] <= writes, self.meter.log[-20:]
        assert self.meter.reads - before[1] <= reads, self.meter.log[-20:]


@pytest.fixture
def m() -> Metered:
    return Metered()


def complete(m: Metered, job: str) -> None:
    m.world.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})


def test_each_waiting_job_costs_the_same(m: Metered) -> None:
    w = m.world
    up = w.job()
    w.claim(up)
    for _ in range(WIDE):
        w.job(blocked_by=[up])
    with m.at_most(6.2 * WIDE, 5.3 * WIDE):
        complete(m, up)


def test_a_rule_costs_the_job_that_it_makes(m: Metered) -> None:
    w, rules = m.world, [{"role": "qa", "summary": "follow"}] * 10
    plain, ruled = w.job(), w.job(routing=rules)
    for job in (plain, ruled):
        w.claim(job)
    with m.at_most(4, 6):
        complete(m, plain)
    with m.at_most(4 + 13 * len(rules), 10):
        complete(m, ruled)


def test_a_rejection_costs_three_jobs(m: Metered) -> None:
    w = m.world
    w.enrol("judge", ("reviewer",))
    work = w.job()
    review = w.job(role="reviewer", blocked_by=[work])
    w.ok("POST", f"P/jobs/{work}/complete", {"fence": w.claim(work)})
    w.pump()
    body = {"fence": w.claim(review, token="judge"), "target": work, "reason": "no"}
    with m.at_most(34, 18):
        w.ok("POST", f"P/jobs/{review}/reject", body, token="judge")
