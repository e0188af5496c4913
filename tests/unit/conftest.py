"""How Hypothesis runs here: enough examples to find what is wrong, no judgement about time on a busy machine. And the
world of the tests of costs.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from tests.sim.meter import Meter, metered
from tests.sim.world import World, world

from interlock.store.ports import Store

settings.register_profile(
    "unit", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")


@pytest.fixture
def metered_world() -> tuple[World, Meter]:
    """A bus, and the meter of what its store is asked to do."""
    meters: list[Meter] = []

    def wrap(store: Store) -> Store:
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    made = world(wrap=wrap)
    made.dispatch()
    return made, meters[0]
