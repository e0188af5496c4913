"""Figures of the embedded store: ``python tests/bench/store.py [jobs]`` (run by hand; judges nothing).

Prints writes per second for 1, 8 and 32 threads, the latency of reads, and time and memory with many jobs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "shared"))

from interlock.store import conditions, keys
from interlock.store.embedded import EmbeddedStore, open_embedded
from interlock.store.ports import Key, Put, Query, Update

WRITES = 4000
READS = 3000
ITEMS_PER_JOB = 7
"""A job's head, first payload and five ledger rows."""


def head(number: int) -> dict[str, Any]:
    """A head of about 1 KB, as a published job has it."""
    return {
        "version": 1,
        "digest": b"d" * 32,
        "g1pk": "bench#ready#builder",
        "g1sk": f"90#{1_790_000_000_000 + number:013d}#j{number}",
        "status": "published",
        "role": "builder",
        "title": "A job of the benchmark " * 4,
        "priority": 9,
        "fence": 0,
        "created_at": 1_790_000_000_000 + number,
        "payload": b"p" * 400,
        "events": [
            {"seq": 1, "type": "job.created", "at": 1_790_000_000_000, "actor": "owner:me", "data": "x" * 100}
        ],
    }


def write_rate(opened: EmbeddedStore, threads: int) -> None:
    """Create a head, then move it twice, as a claim and a completion would; every write is one commit's part."""
    table, each = opened.store.table, WRITES // threads
    latencies: list[float] = []

    def work(thread: int) -> None:
        for number in range(each // 4 or 1):
            key = keys.head("bench", "job", f"w{threads}-{thread}-{number}")
            moves = [
                Put(key, head(number), conditions.absent()),
                Update(key, {"version": 2, "status": "in_progress", "fence": 1}, (), conditions.unchanged(1)),
                Update(key, {"quiet": 1, "lease_until": number}, (), conditions.unchanged(2)),
                Update(
                    key,
                    {"version": 3, "status": "completed"},
                    ("quiet", "g1pk", "g1sk"),
                    conditions.unchanged(2),
                ),
            ]
            for move in moves:
                start = time.perf_counter()
                table.write(move)
                latencies.append(time.perf_counter() - start)

    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    start, cpu = time.perf_counter(), time.process_time()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    latencies.sort()
    print(
        f"{threads:3d} threads: {len(latencies) / seconds:7.0f} writes/s,"
        f" p50 {latencies[len(latencies) // 2] * 1e3:.2f} ms, p99 {latencies[len(latencies) * 99 // 100] * 1e3:.2f} ms,"
        f" {cpu / len(latencies) * 1e6:.0f} µs CPU a write"
    )


def latency(name: str, call: Callable[[int], object]) -> None:
    """The median and the rate of a call."""
    times = []
    for number in range(READS):
        start = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - start)
    print(f"{name}: p50 {statistics.median(times) * 1e6:.0f} µs, {len(times) / sum(times):.0f}/s")


def fill(opened: EmbeddedStore, jobs: int) -> None:
    """Write the items of many jobs, as fast as one caller can."""
    start = time.perf_counter()
    for first in range(0, jobs, 200):
        writes: list[Put] = []
        for number in range(first, min(first + 200, jobs)):
            key = keys.head("bench", "job", f"j{number}")
            writes.append(Put(key, head(number)))
            writes.append(
                Put(Key(key.pk, keys.BODY), {"payload": b"p" * 600, "g2pk": "bench#jobs", "g2sk": key.pk})
            )
            writes += [
                Put(
                    keys.log(key.pk, seq),
                    {"g2pk": "bench#feed", "g2sk": f"{number:013d}#{seq}", "events": ["e" * 200]},
                )
                for seq in range(ITEMS_PER_JOB - 2)
            ]
        opened.store.table.write_each(writes)
        opened.feed.acknowledge(opened.feed.read(limit=1000))
    seconds = time.perf_counter() - start
    print(f"{jobs} jobs, {jobs * ITEMS_PER_JOB} items written in {seconds:.1f} s")


def resident() -> str:
    """This process's memory, where the system tells."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return "unknown"
    return next(line.split(":")[1].strip() for line in status.splitlines() if line.startswith("VmRSS"))


def reads(opened: EmbeddedStore, jobs: int) -> None:
    """Point reads, small batches and index pages."""
    table = opened.store.table
    key = [keys.head("bench", "job", f"j{number * 7919 % jobs}") for number in range(READS)]
    latency("  get", lambda n: table.get(key[n]))
    latency("  batch_get of 3", lambda n: table.batch_get([key[n], key[n - 1], key[n - 2]]))
    latency("  index query, page of 20", lambda n: table.query(Query("bench#ready#builder", 1, limit=20)))
    latency("  partition query", lambda n: table.query(Query(key[n].pk, limit=20)))
    latency(
        "  conditional update",
        lambda n: table.write(Update(key[n], {"quiet": n}, (), conditions.unchanged(1))),
    )


def main(jobs: int) -> None:
    """Run everything in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_embedded(Path(folder), clock=lambda: 0)
        for threads in (1, 8, 32):
            write_rate(opened, threads)
        opened.close()
    for count in (1000, jobs):
        with tempfile.TemporaryDirectory() as folder:
            before = resident()
            opened = open_embedded(Path(folder), clock=lambda: 0)
            fill(opened, count)
            reads(opened, count)
            print(f"  resident memory {before} before, {resident()} after")
            opened.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
