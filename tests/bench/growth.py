"""Whether the embedded bus slows down or swells as its board grows. Prints figures, judges nothing.

python -m tests.bench.growth [SMALL] [LARGE]     (default 1,000 and 100,000 published jobs)
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.served import Served
from tests.sim.seed import seed

from interlock.edges.runtime import wall_clock
from interlock.store.embedded import open_embedded

ROUNDS = 200
BLOCKERS = 10


def fill(folder: Path, jobs: int) -> None:
    """Seed half published, half completed jobs."""
    engine = open_embedded(folder, clock=wall_clock)
    seed(engine.store, wall_clock, jobs // 2, feed=engine.feed, completed=True)
    seed(engine.store, wall_clock, jobs - jobs // 2, feed=engine.feed)
    engine.close()


def measure(bus: Served) -> dict[str, float]:
    """Median ms of each call, one client."""
    host, port = bus.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    times: dict[str, list[float]] = {}

    def call(name: str, method: str, path: str, body: object = None) -> dict:
        started = time.perf_counter()
        headers = {"authorization": f"Bearer {bus.agent_token}", "content-type": "application/json"}
        connection.request(
            method, "/v1/projects/default" + path, None if body is None else json.dumps(body), headers
        )
        response = connection.getresponse()
        value = json.loads(response.read())
        times.setdefault(name, []).append((time.perf_counter() - started) * 1_000)
        assert response.status < 300, value
        return value

    made: list[str] = []
    for _ in range(ROUNDS):
        job = call("create", "POST", "/jobs", {"summary": "growth", "role": "qa"})["job"]["id"]
        made.append(job)
        blocked = {"summary": "growth", "role": "qa", "blocked_by": made[-BLOCKERS:]}
        call(f"create, {BLOCKERS} blockers", "POST", "/jobs", blocked)
        call("graph", "GET", f"/jobs/{made[0]}/graph?depth=1")
        got = call("claim-next", "POST", "/claims", {"roles": ["developer"]})
        call("complete", "POST", f"/jobs/{got['job']['id']}/complete", {"fence": got["claim"]["fence"]})
        call("list published", "GET", "/jobs?status=published&limit=50")
        call("list newest", "GET", "/jobs?limit=50")
        call("list in progress", "GET", "/jobs?status=in_progress&limit=50")
        call("feed, last 100", "GET", "/events?last=100")
    connection.close()
    return {name: statistics.median(row) for name, row in times.items()}


def main() -> None:
    """Fill, serve, measure; twice."""
    small, large = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (1_000, 100_000)
    figures = {}
    for jobs in (small, large):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            (Path(folder) / "bus").mkdir()
            with Served(Path(folder)):
                pass
            fill(Path(folder) / "bus", jobs)
            filled = time.perf_counter() - started
            with Served(Path(folder)) as bus:
                figures[jobs] = measure(bus)
                print(
                    f"{jobs:>9,} jobs: seeded in {filled:.1f} s, resident {bus.memory_mb():.0f} MB after {ROUNDS * 9:,} calls"
                )
    print(f"{'median ms':<20} {small:>10,} {large:>10,}   ratio")
    for name in figures[small]:
        print(
            f"{name:<20} {figures[small][name]:>10.2f} {figures[large][name]:>10.2f} {figures[large][name] / figures[small][name]:>7.2f}"
        )


if __name__ == "__main__":
    main()
