"""The ``engine`` fixture: every test of this folder that takes it runs once per engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract import engines


@pytest.fixture(params=["embedded", "memory", "moto", pytest.param("endpoint", marks=pytest.mark.e2e)])
def engine(request, tmp_path) -> Iterator[engines.Engine]:
    opened = {
        "embedded": lambda: engines.embedded(tmp_path),
        "memory": engines.memory,
        "moto": engines.moto,
        "endpoint": engines.endpoint,
    }[request.param]()
    with opened as engine:
        yield engine
