"""Create, claim, complete over HTTP against `interlock up`: lifecycles a second and latencies. Prints, judges nothing.

    python -m tests.bench.lifecycle [SECONDS] [CLIENTS,CLIENTS,…]      (default 4 s each at 1, 8 and 32 clients)

The clients share the machine with the bus: the figures are of both together.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.bench.served import Served

CONTEXT = {"objective": "x" * 300}
CALLS = ("create", "claim-next", "complete")


class Client(threading.Thread):
    """One agent's terminal: a keep-alive connection, one lifecycle after the other, timed call by call."""

    def __init__(self, bus: Served, until: float) -> None:
        super().__init__()
        host, port = bus.url.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port))
        self.headers = {"authorization": f"Bearer {bus.agent_token}", "content-type": "application/json"}
        self.until = until
        self.done = 0
        self.times: dict[str, list[float]] = {name: [] for name in CALLS}

    def call(self, name: str, path: str, body: object) -> dict:
        started = time.perf_counter()
        self.connection.request("POST", "/v1/projects/default" + path, json.dumps(body), self.headers)
        response = self.connection.getresponse()
        value = json.loads(response.read())
        self.times[name].append((time.perf_counter() - started) * 1_000)
        if response.status >= 300:
            raise RuntimeError(value)
        return value

    def run(self) -> None:
        while time.perf_counter() < self.until:
            self.call("create", "/jobs", {"summary": "bench", "role": "developer", "context": CONTEXT})
            taken = self.call("claim-next", "/claims", {"roles": ["developer"]})
            if taken["job"]:
                self.call(
                    "complete", f"/jobs/{taken['job']['id']}/complete", {"fence": taken["claim"]["fence"]}
                )
                self.done += 1
        self.connection.close()


def drive(bus: Served, clients: int, seconds: float) -> tuple[float, dict[str, list[float]]]:
    """(lifecycles a second, all latencies by call)."""
    started = time.perf_counter()
    crew = [Client(bus, started + seconds) for _ in range(clients)]
    for client in crew:
        client.start()
    for client in crew:
        client.join()
    elapsed = time.perf_counter() - started
    times = {name: sorted(ms for client in crew for ms in client.times[name]) for name in CALLS}
    return sum(client.done for client in crew) / elapsed, times


def main() -> None:
    """Drive each number of clients in turn on one bus."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    numbers = [int(text) for text in (sys.argv[2] if len(sys.argv) > 2 else "1,8,32").split(",")]
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        drive(bus, 4, 1.0)
        print(f"{'clients':>7} {'per s':>7}   " + "   ".join(f"{name + ' p50/p99 ms':>24}" for name in CALLS))
        for clients in numbers:
            rate, times = drive(bus, clients, seconds)
            shown = [f"{row[len(row) // 2]:.1f} / {row[int(len(row) * 0.99)]:.1f}" for row in times.values()]
            print(f"{clients:>7} {rate:>7.0f}   " + "   ".join(f"{text:>24}" for text in shown))
        print(f"resident memory of the bus: {bus.memory_mb():.0f} MB")


if __name__ == "__main__":
    main()
