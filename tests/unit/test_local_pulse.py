"""Sleep: what the bus does when it finds that it was away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.local.pulse import BEAT, GAP, NOTE, Pulse
from interlock.store.embedded import EmbeddedStore, open_memory


class Away:
    """A bus on a fake clock, and what it was told about gaps."""

    def __init__(self) -> None:
        self.now = 1_790_000_000_000
        self.opened: EmbeddedStore = open_memory(self.clock)
        self.store = self.opened.store
        self.gaps: list[int] = []
        self.fails = False

    def clock(self) -> int:
        return self.now

    def resumed(self, bus: Any, gap: int) -> int:
        assert bus is self
        if self.fails:
            raise RuntimeError("the store is away")
        self.gaps.append(gap)
        return 1

    def pulse(self) -> Pulse:
        return Pulse(self, self.resumed)  # type: ignore[arg-type]  # stands in for a Bus


@pytest.fixture
def away() -> Iterator[Away]:
    made = Away()
    yield made
    made.opened.close()


def test_a_first_start_is_no_gap(away: Away) -> None:
    pulse = away.pulse()
    pulse.check()
    pulse.beat()
    assert away.gaps == []
    assert away.store.table.get(NOTE)["at"] == away.now


def test_a_bus_that_lives_finds_no_gap(away: Away) -> None:
    pulse = away.pulse()
    for _ in range(100):
        away.now += BEAT
        pulse.beat()
        away.now += GAP - BEAT
        pulse.check()
        pulse.beat()
    assert away.gaps == []


def test_a_gap_is_found_once_before_the_next_thing_is_handled(away: Away) -> None:
    pulse = away.pulse()
    pulse.beat()
    away.now += GAP
    pulse.check()
    assert away.gaps == []
    away.now += 1
    pulse.check()
    pulse.check()
    pulse.beat()
    assert away.gaps == [GAP + 1]


def test_a_restart_after_a_gap_is_found_and_a_quick_one_is_none(away: Away) -> None:
    away.pulse().beat()
    away.now += GAP - 1
    away.pulse().beat()
    assert away.gaps == []
    away.now += 3_600_000
    away.pulse().beat()
    away.pulse().beat()
    assert away.gaps == [3_600_000]


def test_a_gap_that_could_not_be_handled_is_found_again(away: Away) -> None:
    pulse = away.pulse()
    pulse.beat()
    away.now += 60_000
    away.fails = True
    for attempt in (pulse.check, pulse.beat, away.pulse().beat):
        with pytest.raises(RuntimeError):
            attempt()
    away.fails = False
    pulse.check()
    assert away.gaps == [60_000]


def test_everybody_waits_until_the_leases_were_moved(away: Away) -> None:
    going, go_on, passed = threading.Event(), threading.Event(), []

    def resumed(bus: Any, gap: int) -> int:
        going.set()
        assert go_on.wait(20)
        away.gaps.append(gap)
        return 0

    pulse = Pulse(away, resumed)  # type: ignore[arg-type]  # stands in for a Bus
    away.now += 60_000

    def request() -> None:
        pulse.check()
        passed.append(list(away.gaps))

    threads = [threading.Thread(target=request) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert going.wait(20)
    assert passed == []
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert passed == [[60_000]] * 8


def test_a_clock_that_was_set_back_is_no_gap_and_heals(away: Away) -> None:
    pulse = away.pulse()
    pulse.beat()
    away.now -= 86_400_000
    pulse.check()
    pulse.beat()
    away.now += GAP + 1
    pulse.check()
    assert away.gaps == [GAP + 1]
