"""What rules cost whoever completes a job: with ten of them against none, side by side, against `interlock up`.

    python -m tests.bench.routing [ROUNDS]     (default 200 of each kind, alone and again by 8 clients at once)

Prints figures, judges only that every rule made its one job. The clients share the machine with the bus.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.graph import Caller, show, stopwatch, together, until
from tests.bench.served import Served

RULES = 10
OK = {"field": "data.ok", "op": "eq", "value": True}
MANY = [
    {"role": "ops", "summary": f"follow {n}", "context": {"n": n}, **({"when": OK} if n % 2 else {})}
    for n in range(RULES)
]
RESULT = {"summary": "done", "data": {"ok": True}}
BODY = {"fence": 1, "result": RESULT}


def complete(caller: Caller, job: str) -> float:
    """Complete a job; ms for the caller."""
    took = stopwatch()
    caller("POST", f"/jobs/{job}/complete", BODY)
    return took() * 1_000


Job = tuple[str, str]
"""A job without rules, and one with them."""


def claimed(caller: Caller) -> Job:
    return caller.claimed(), caller.claimed(routing=MANY)


def both(caller: Caller, number: int, job: Job, *, pause: float = 0) -> tuple[float, float]:
    """Complete both, taking turns in which comes first; (ms of the plain one, ms of the one with rules)."""
    times = [0.0, 0.0]
    for kind in (number % 2, 1 - number % 2):
        time.sleep(pause)
        times[kind] = complete(caller, job[kind])
    return times[0], times[1]


def alone(caller: Caller, jobs: Sequence[Job]) -> list[tuple[float, float]]:
    """One after the other, each when what the one before set off is over."""
    return [both(caller, number, job, pause=0.05) for number, job in enumerate(jobs)]


def crowded(bus: Served, jobs: Sequence[Job]) -> list[tuple[float, float]]:
    """By several clients at once, without a pause: the bus routes meanwhile."""
    return together(bus, lambda one, numbered: both(one, *numbered), enumerate(jobs))


def report(what: str, pairs: Sequence[tuple[float, float]]) -> None:
    """Medians and 95th percentiles of both kinds, and how they compare."""
    plain, ruled = (sorted(pair[kind] for pair in pairs) for kind in (0, 1))
    for name, at in (("median", 0.5), ("95 of 100", 0.95)):
        a, b = (row[min(int(len(row) * at), len(row) - 1)] for row in (plain, ruled))
        show(f"{what}, {name}: {RULES} rules / none", f"{b:7.1f} ms / {a:.1f} ms = {b / a:.2f}")


def followers(caller: Caller, job: str) -> int:
    return len(caller("GET", f"/jobs?parent={job}&limit=100")["items"])


def until_routed(caller: Caller, jobs: Sequence[Job]) -> None:
    """From the completion to the last of its jobs on the board."""
    times = []
    for _, job in jobs:
        took = stopwatch()
        complete(caller, job)
        until("routing", lambda job=job: followers(caller, job) == RULES)
        times.append(took() * 1_000)
    show(f"from the completion to {RULES} routed jobs, median", f"{statistics.median(times):7.1f} ms")


def main() -> None:
    """One bus, everything in turn."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        caller = Caller(bus)
        alone(caller, [claimed(caller) for _ in range(5)])  # what is loaded at the first use is loaded
        jobs = [claimed(caller) for _ in range(2 * rounds + 30)]
        report("complete, alone", alone(caller, jobs[:rounds]))
        report("complete, 8 clients", crowded(bus, jobs[rounds : 2 * rounds]))
        until_routed(caller, jobs[2 * rounds :])
        for plain, ruled in jobs:
            until("routing", lambda ruled=ruled: followers(caller, ruled) == RULES)
            assert caller.events(ruled)["job.routed"] == 1
            assert followers(caller, plain) == 0


if __name__ == "__main__":
    main()
