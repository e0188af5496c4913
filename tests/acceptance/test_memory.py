"""How much a full board takes of a laptop."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.bench.growth import fill, measure
from tests.bench.served import Served

LIMIT_MB = 300


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_the_bus_with_100_000_jobs_stays_below_300_mb(tmp_path: Path) -> None:
    with Served(tmp_path):
        pass
    fill(tmp_path / "bus", 100_000)
    with Served(tmp_path) as bus:
        measure(bus)
        assert bus.memory_mb() <= LIMIT_MB
