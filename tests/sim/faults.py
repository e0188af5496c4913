"""A store that fails at a chosen step: before it is carried out, after it, from then on, or by carrying it out twice.

``crash`` ends the process: nothing catches it, and nothing of that process runs on. ``unavailable`` is the store's own
error. ``again`` is a step whose answer was lost on the way and that the engine's client repeated by itself.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.sim.ports import Step, hooked

from interlock.errors import StoreError
from interlock.store.ports import ConditionLost, Store


class DiedError(BaseException):
    """The process is gone."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong: at step ``at`` (from 1), ``before`` or ``after`` it, ``again``, or ``from`` then on; ``how``:
    crash, unavailable, throttled."""

    at: int
    when: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.how or 'repeated'} {self.when} step {self.at}"


class Faults:
    """Counts steps and breaks the one that a fault names. ``steps`` lists those of the armed stretch."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self.fault: Fault | None = None
        self.counting = False
        self.steps: list[Step] = []
        self._dead = False

    def wrap(self, store: Store) -> Store:
        """The faulty store."""
        return hooked(store, self.hook, self._rng)

    def arm(self, fault: Fault | None) -> None:
        """Begin to count; with a fault, one step will fail."""
        self.fault, self.counting, self.steps = fault, True, []

    def disarm(self) -> None:
        """Nothing fails any more; a new process begins, if the old one died."""
        self.fault, self.counting, self._dead = None, False, False

    def hook(self, step: Step, carry_out: Callable[[], Any]) -> Any:
        """See :data:`tests.sim.ports.Hook`."""
        if self._dead:
            raise DiedError
        if not self.counting:
            return carry_out()
        self.steps.append(step)
        fault = self.fault
        if fault is not None and fault.when == "from" and len(self.steps) >= fault.at:
            raise self._error(fault)
        if fault is None or len(self.steps) != fault.at:
            return carry_out()
        if fault.when == "before":
            raise self._error(fault)
        if fault.when == "again":
            carry_out()
            return carry_out()
        with contextlib.suppress(ConditionLost):  # nobody hears of it
            carry_out()
        raise self._error(fault)

    def _error(self, fault: Fault) -> BaseException:
        if fault.how == "crash":
            self._dead = True
            return DiedError()
        return StoreError(
            "throttled" if fault.how == "throttled" else "store_unavailable", "the test says so"
        )


def faults_of(steps: list[Step]) -> list[Fault]:
    """Every fault that these steps can have."""
    found = []
    for number, step in enumerate(steps, 1):
        found += [Fault(number, "before", "crash"), Fault(number, "after", "crash")]
        found += [Fault(number, "before", "throttled"), Fault(number, "after", "unavailable")]
        found.append(Fault(number, "from", "unavailable"))
        if step.writes or step.verb in ("send", "delete"):
            found.append(Fault(number, "again"))
    return found
