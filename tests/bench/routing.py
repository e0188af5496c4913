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


def published(caller: Caller) -> int:
    """How many routed jobs there are. Counting stops at 1,000."""
    return caller("GET", "/stats")["stats"]["published"]["ops"]["count"]


def alone(caller: Caller, rounds: int) -> list[tuple[float, float]]:
    """(plain, with rules) one after the other, each when the bus has nothing else to do."""
    pairs = []
    for _ in range(rounds):
        pair = []
        for rules in ([], MANY):
            job = caller.claimed(routing=rules)
            time.sleep(0.05)  # what the creation, or the routing before it, set off is over
            pair.append(complete(caller, job))
        pairs.append((pair[0], pair[1]))
    return pairs


def crowded(bus: Served, caller: Caller, rounds: int) -> list[tuple[float, float]]:
    """The same by several clients at once, without a pause: the bus routes meanwhile."""
    jobs = [(caller.claimed(), caller.claimed(routing=MANY)) for _ in range(rounds)]

    def both(one: Caller, pair: tuple[str, str]) -> tuple[float, float]:
        return complete(one, pair[0]), complete(one, pair[1])

    return together(bus, both, jobs)


def report(what: str, pairs: Sequence[tuple[float, float]]) -> None:
    """Medians and 95th percentiles of both kinds, and how they compare."""
    plain, ruled = (sorted(pair[kind] for pair in pairs) for kind in (0, 1))
    for name, at in (("median", 0.5), ("95 of 100", 0.95)):
        a, b = (row[min(int(len(row) * at), len(row) - 1)] for row in (plain, ruled))
        show(f"{what}, {name}: {RULES} rules / none", f"{b:7.1f} ms / {a:.1f} ms = {b / a:.2f}")


def until_routed(caller: Caller, rounds: int) -> None:
    """From the completion to the last of its jobs on the board."""
    times = []
    for _ in range(rounds):
        job = caller.claimed(routing=MANY)
        took = stopwatch()
        complete(caller, job)
        path = f"/jobs?parent={job}&limit=100"
        until("routing", lambda path=path: len(caller("GET", path)["items"]) == RULES)
        times.append(took() * 1_000)
    show(f"from the completion to {RULES} routed jobs, median", f"{statistics.median(times):7.1f} ms")


def main() -> None:
    """One bus, everything in turn."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        caller = Caller(bus)
        alone(caller, 5)  # what is loaded at the first use is loaded
        report("complete, alone", alone(caller, rounds))
        report("complete, 8 clients", crowded(bus, caller, rounds))
        until_routed(caller, min(rounds, 30))
        until("all of it", lambda: published(caller) >= min(1_000, RULES * (2 * rounds + 5)))


if __name__ == "__main__":
    main()
