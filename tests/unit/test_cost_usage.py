"""What usage and budgets cost on DynamoDB, in request units (tests/sim/meter.py)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.meter import Meter
from tests.sim.requests_presence import USAGE, daily
from tests.sim.world import World
from tests.unit.test_cost_coordination import spent

Metered = tuple[World, Meter]


def leases(w: World, count: int, **fields: Any) -> list[dict[str, Any]]:
    """So many jobs that the agent holds, and what a heartbeat says of them."""
    named = []
    for _ in range(count):
        job = w.job(**fields)
        named.append({"id": job, "fence": w.claim(job), "usage": USAGE})
    w.pump()
    w.clock.advance(30)
    return named


@pytest.mark.parametrize("budget", [None, {"usd": 9}, {"seconds": 900, "count": "metered"}])
@pytest.mark.parametrize("reports", [False, True])
def test_a_heartbeat_of_ten_leases(reports: bool, budget: Any, metered_world: Metered) -> None:
    w, meter = metered_world
    named = leases(w, 10, budget=budget)
    body = {"jobs": named} if reports else {}
    writes, reads = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", body))
    assert writes <= 12
    assert reads <= 14


def test_a_day_that_is_counted_costs_a_transaction_for_each_report(metered_world: Metered) -> None:
    w, meter = metered_world
    daily(w)
    named = leases(w, 10)
    writes, _ = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {"jobs": named}))
    assert writes <= 1 + 10 * 4
    again, _ = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {"jobs": named}))
    assert again == 0, "nothing new, and the lease is as long as it was"


@pytest.mark.parametrize("agents", [1, 50])
def test_a_claim_under_budgets_of_the_day_reads_what_was_counted(agents: int, metered_world: Metered) -> None:
    w, meter = metered_world
    for number in range(agents):
        w.enrol(f"agent{number}")
    w.pump()
    plain = spent(w, meter, lambda: w.claim(w.job()))
    daily(w)
    for number in range(agents):
        job = w.job()
        named = [{"id": job, "fence": w.claim(job, f"agent{number}"), "usage": USAGE}]
        w.ok("POST", "P/heartbeat", {"jobs": named}, token=f"agent{number}")
    w.pump()
    counted = spent(w, meter, lambda: w.claim(w.job()))
    assert counted[0] == plain[0]
    assert counted[1] - plain[1] <= 2 * (1 if agents == 1 else 2), "a query for the role, one for the project"


def test_a_job_that_asks_about_its_budget(metered_world: Metered) -> None:
    w, meter = metered_world
    named = leases(w, 1, budget={"usd": 0.1})
    writes, _ = spent(w, meter, lambda: w.ok("POST", "P/heartbeat", {"jobs": named}))
    assert w.get(named[0]["id"])["status"] == "blocked"
    assert writes <= 15
