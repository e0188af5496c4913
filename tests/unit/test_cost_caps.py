"""What caps cost on DynamoDB: units more than the same call without one (tests/sim/meter.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.meter import Meter
from tests.sim.requests_caps import cap, capped, held
from tests.sim.world import World

from interlock.app.caps import LOOK

HEAD_IN_A_TRANSACTION = 3
"""Write units by which a claim's head costs more in a transaction than alone: its item and two index entries, again."""
SLOT = 2
"""Write units of a slot: an item below a kilobyte, in a transaction."""
KINDS = ("agent", "role", "project")


def spent(meter: Meter, work: Callable[[], Any]) -> tuple[float, float]:
    """(write, read) units of what is done."""
    before = meter.writes, meter.reads
    work()
    return meter.writes - before[0], meter.reads - before[1]


def claiming(w: World, meter: Meter, **more: Any) -> tuple[float, float]:
    """Units of a claim-next that takes a job; the job is completed afterwards."""
    w.job()
    w.dispatch()
    taken: list[Any] = []
    units = spent(meter, lambda: taken.append(w.ok("POST", "P/claims", {"roles": ["developer"]}, **more)))
    fence = taken[0]["claim"]["fence"]
    w.ok("POST", f"P/jobs/{taken[0]['job']['id']}/complete", {"fence": fence})
    return units


@pytest.mark.parametrize("kinds", [KINDS[:1], KINDS[:2], KINDS])
def test_a_claim_under_caps_costs_a_slot_each_and_a_transaction(
    metered_world: tuple[World, Meter], kinds: tuple[str, ...]
) -> None:
    w, meter = metered_world
    plain = claiming(w, meter)
    for kind in kinds:
        cap(w, kind, 3)
    under = claiming(w, meter)
    assert under[0] - plain[0] == HEAD_IN_A_TRANSACTION + SLOT * len(kinds)
    assert under[1] - plain[1] == len(kinds), (
        "one query each: no slot was ever taken, and no job is looked at"
    )


def test_under_every_cap_a_claim_costs_3_write_units_a_scope(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    plain = claiming(w, meter)
    capped(w, 3)
    assert claiming(w, meter)[0] - plain[0] <= 3 * len(KINDS)


def test_a_claim_that_is_a_transaction_anyway_pays_the_slots_only(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    plain = claiming(w, meter, key="a")
    cap(w, "agent", 3)
    assert claiming(w, meter, key="b")[0] - plain[0] == SLOT


def test_jobs_are_looked_at_only_where_every_slot_was_taken_before(
    metered_world: tuple[World, Meter],
) -> None:
    w, meter = metered_world
    plain = claiming(w, meter)
    cap(w, "agent", 3)
    reads = [claiming(w, meter)[1] - plain[1] for _ in range(5)]
    assert reads == [1, 1, 1, 1 + LOOK, 1 + LOOK]


def test_a_large_cap_does_not_look_at_every_job(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    plain = claiming(w, meter)
    cap(w, "agent", 40)
    reads = [claiming(w, meter)[1] - plain[1] for _ in range(50)]
    assert set(reads[40:]) == {1 + LOOK}, "the first look finds a free one"


def test_a_full_cap_costs_reads_only(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    cap(w, "agent", 2)
    for _ in range(2):
        held(w)
    w.job()
    w.dispatch()
    w.ok("POST", "P/claims", {})  # the first sign of life is written down
    assert spent(meter, lambda: w.ok("POST", "P/claims", {})) == (0, 2 + 1 + 2 + 1)


def test_no_claim_that_ends_writes_a_slot(metered_world: tuple[World, Meter]) -> None:
    w, meter = metered_world
    ends = []
    for claims in (None, 1):
        cap(w, "agent", claims)
        job, fence = held(w)
        w.dispatch()
        path, body = f"P/jobs/{job}/complete", {"fence": fence}
        ends.append(spent(meter, lambda path=path, body=body: w.ok("POST", path, body)))
    assert ends[0] == ends[1]
