"""What links cost: fan-in, fan-out, cascade, plans, graphs and rules against `interlock up`, and units on DynamoDB.

    python -m tests.bench.graph [SCALE]     (default 1: fan-in and fan-out of 1,000, a chain and a plan of 200)

Prints figures, judges only that nothing is lost or done twice. The clients share the machine with the bus.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.served import Served
from tests.sim.meter import Meter, metered
from tests.sim.world import World, world

CLIENTS = 8
WIDE, LONG = 1_000, 200
RULES = 10
ROUNDS = 30
LIMIT_SECONDS = 120
T = TypeVar("T")
P = "/v1/projects/default"


class Caller:
    """An agent's keep-alive connection."""

    def __init__(self, bus: Served) -> None:
        host, port = bus.url.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=120)
        self.headers = {"authorization": f"Bearer {bus.agent_token}", "content-type": "application/json"}

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        self.connection.request(method, P + path, None if body is None else json.dumps(body), self.headers)
        response = self.connection.getresponse()
        value = json.loads(response.read())
        if response.status >= 300:
            raise RuntimeError(value)
        return value

    def create(self, **more: Any) -> str:
        return self("POST", "/jobs", {"summary": "link", "role": "developer", **more})["job"]["id"]

    def claimed(self, **more: Any) -> str:
        """A job that this agent holds, under fence 1."""
        job = self.create(**more)
        self("POST", f"/jobs/{job}/claim", {})
        return job

    def complete(self, job: str) -> Any:
        return self("POST", f"/jobs/{job}/complete", {"fence": 1, "result": {"summary": "done"}})

    def status(self, job: str) -> str:
        return self("GET", f"/jobs/{job}")["job"]["status"]

    def events(self, job: str) -> Counter[str]:
        page = self("GET", f"/jobs/{job}/events?limit=1000")
        return Counter(event["type"] for event in page["items"])


def together(bus: Served, work: Callable[[Caller, T], Any], over: Iterable[T]) -> list[Any]:
    """Do the work over everything, by several clients at once."""
    left, answers, lock = iter(over), [], threading.Lock()
    failures: list[BaseException] = []

    def client() -> None:
        caller = Caller(bus)
        try:
            while True:
                with lock:
                    one = next(left, None)
                if one is None:
                    return
                answer = work(caller, one)
                with lock:
                    answers.append(answer)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers


def until(what: str, probe: Callable[[], bool]) -> None:
    """Poll; RuntimeError when it takes too long."""
    limit = time.perf_counter() + LIMIT_SECONDS
    while not probe():
        if time.perf_counter() > limit:
            raise RuntimeError(f"{what}: not within {LIMIT_SECONDS} s")
        time.sleep(0.02)


def stopwatch() -> Callable[[], float]:
    began = time.perf_counter()
    return lambda: time.perf_counter() - began


def show(what: str, figure: str) -> None:
    print(f"{what:<58} {figure}", flush=True)


def fan_in(bus: Served, caller: Caller, wide: int) -> None:
    ups = together(bus, lambda one, _: one.claimed(), range(wide))
    took = stopwatch()
    down = caller.create(blocked_by=ups)
    show(f"create a job that waits for {wide:,}", f"{took() * 1_000:8.0f} ms")
    took = stopwatch()
    together(bus, lambda one, up: one.complete(up), ups)
    calls = took()
    until("fan-in", lambda: caller.status(down) == "published")
    show(
        f"fan-in: {wide:,} completed by {CLIENTS} clients, until published",
        f"{took():8.2f} s (the calls: {calls:.2f} s)",
    )
    until("ledger", lambda: caller.events(down)["job.activated"] > 0)
    events = caller.events(down)
    assert events == {"job.created": 1, "job.activated": 1}, events


def fan_out(bus: Served, caller: Caller, wide: int) -> None:
    up = caller.claimed()
    downs = together(bus, lambda one, _: one.create(role="qa", blocked_by=[up]), range(wide))
    took = stopwatch()
    caller.complete(up)
    until("fan-out", lambda: _counted(caller) == wide)
    show(f"fan-out: one completed, until {wide:,} are published", f"{took():8.2f} s")
    assert all(together(bus, lambda one, job: one.status(job) == "published", downs))
    times = []
    for _ in range(ROUNDS):
        took = stopwatch()
        graph = caller("GET", f"/jobs/{up}/graph?depth=1")
        times.append(took() * 1_000)
    show(f"graph of {len(graph['nodes']):,} nodes", f"{statistics.median(times):8.0f} ms")


def _counted(caller: Caller) -> int:
    return caller("GET", "/stats")["stats"]["published"]["qa"]["count"]


def cascade(caller: Caller, long: int) -> None:
    chain = [caller.claimed()]
    for _ in range(long - 1):
        chain.append(caller.create(blocked_by=[chain[-1]]))
    took = stopwatch()
    caller("POST", f"/jobs/{chain[0]}/fail", {"fence": 1, "reason": "broken"})
    until("cascade", lambda: caller.status(chain[-1]) == "failed")
    show(f"cascade: a chain of {long} fails", f"{took():8.2f} s")
    assert all(caller.status(job) == "failed" for job in chain)
    took = stopwatch()
    caller("POST", f"/jobs/{chain[0]}/restart", {})
    until("revival", lambda: caller.status(chain[-1]) == "pending")
    show(f"revival of the chain of {long}", f"{took():8.2f} s")
    assert all(caller.status(job) == "pending" for job in chain[1:])


def plan(caller: Caller, jobs: int) -> None:
    """Half of them side by side, the others in a chain behind them."""
    half = jobs // 2
    wide = [{"ref": f"w{n}", "summary": "w", "role": "ops"} for n in range(half)]
    behind: list[dict[str, Any]] = []
    for number in range(jobs - half):
        waits = [job["ref"] for job in wide] if number == 0 else [behind[-1]["ref"]]
        behind.append({"ref": f"c{number}", "summary": "c", "role": "ops", "blocked_by": waits})
    took = stopwatch()
    made = caller("POST", "/plans", {"jobs": [*wide, *behind]})
    show(f"plan of {jobs}, {half + jobs - half - 1} links", f"{took() * 1_000:8.0f} ms")
    statuses = Counter(caller.status(job) for job in made["jobs"].values())
    assert statuses == {"published": half, "pending": jobs - half}, statuses


def layered_plan(caller: Caller, jobs: int) -> None:
    """Ten layers; each job waits for all of the layer before."""
    layers = [[f"l{layer}-{n}" for n in range(jobs // 10)] for layer in range(10)]
    named = [
        {"ref": ref, "summary": "l", "role": "ops", "blocked_by": before}
        for before, layer in zip([[], *layers], layers, strict=False)
        for ref in layer
    ]
    took = stopwatch()
    caller("POST", "/plans", {"jobs": named})
    show(
        f"plan of {jobs}, {sum(len(job['blocked_by']) for job in named):,} links", f"{took() * 1_000:8.0f} ms"
    )


def rules(caller: Caller) -> None:
    """A completion with rules against a plain one, for the caller, alternating."""
    many = [{"role": "ops", "summary": "follow"} for _ in range(RULES)]
    times: dict[int, list[float]] = {0: [], RULES: []}
    ops = caller("GET", "/stats")["stats"]["published"]["ops"]["count"]
    for _ in range(ROUNDS):
        for count, row in times.items():
            job = caller.claimed(routing=many[:count])
            time.sleep(0.05)  # what the creation set off is over
            took = stopwatch()
            caller.complete(job)
            row.append(took() * 1_000)
    plain, ruled = (statistics.median(row) for row in times.values())
    show(
        f"complete with {RULES} rules against none", f"{ruled:8.1f} ms / {plain:.1f} ms = {ruled / plain:.2f}"
    )
    until(
        "routing",
        lambda: caller("GET", "/stats")["stats"]["published"]["ops"]["count"] - ops == RULES * ROUNDS,
    )


def units() -> Iterator[tuple[str, int, float, float]]:
    """(what, links, write units, read units) on DynamoDB, everything that dispatcher and consumers do included."""
    for wide in (10, 100, 1_000):
        w, meter = _metered()
        ups = [w.job() for _ in range(wide)]
        for up in ups:
            w.claim(up)
        w.pump()
        with _Counted(meter) as made:
            w.job(blocked_by=ups)
            w.pump()
        yield "create with blockers", wide, made.writes, made.reads
        with _Counted(meter) as counted:
            for up in ups:
                w.ok("POST", f"P/jobs/{up}/complete", {"fence": 1})
                w.pump()
        w2, meter2 = _metered()
        alone = [w2.job() for _ in range(wide)]
        for job in alone:
            w2.claim(job)
        w2.pump()
        with _Counted(meter2) as plain:
            for job in alone:
                w2.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})
                w2.pump()
        yield (
            "fan-in (beyond plain completions)",
            wide,
            counted.writes - plain.writes,
            counted.reads - plain.reads,
        )
    for wide in (10, 100, 1_000):
        w, meter = _metered()
        up = w.job()
        w.claim(up)
        for _ in range(wide):
            w.job(blocked_by=[up])
        w.pump()
        with _Counted(meter) as counted:
            w.ok("POST", f"P/jobs/{up}/complete", {"fence": 1})
            w.pump()
        yield "fan-out", wide, counted.writes, counted.reads
    for long in (10, 50, 200):
        w, meter = _metered()
        chain = [w.job()]
        w.claim(chain[0])
        for _ in range(long - 1):
            chain.append(w.job(blocked_by=[chain[-1]]))
        w.pump()
        with _Counted(meter) as counted:
            w.ok("POST", f"P/jobs/{chain[0]}/fail", {"fence": 1, "reason": "r"})
            w.pump()
        assert w.get(chain[-1])["status"] == "failed"
        yield "cascade along a chain", long - 1, counted.writes, counted.reads


class _Counted:
    """The units between entering and leaving."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def __enter__(self) -> _Counted:
        self.before = (self.meter.writes, self.meter.reads)
        return self

    def __exit__(self, *_: object) -> None:
        self.writes, self.reads = self.meter.writes - self.before[0], self.meter.reads - self.before[1]


def _metered() -> tuple[World, Meter]:
    meters: list[Meter] = []

    def wrap(store: Any) -> Any:
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    return world(wrap=wrap), meters[0]


def main(arguments: Sequence[str]) -> None:
    """Serve, measure, print."""
    scale = float(arguments[0]) if arguments else 1.0
    wide, long = int(WIDE * scale), int(LONG * scale)
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        caller = Caller(bus)
        fan_in(bus, caller, wide)
        fan_out(bus, caller, wide)
        cascade(caller, long)
        plan(caller, long)
        layered_plan(caller, long)
        rules(caller)
        assert caller("GET", "/stats")["stats"]["published"]["qa"]["count"] == wide
    print(
        f"\n{'units on DynamoDB':<36} {'links':>6} {'writes':>9} {'per link':>9} {'reads':>9} {'per link':>9}"
    )
    for what, links, writes, reads in units():
        print(
            f"{what:<36} {links:>6,} {writes:>9,.1f} {writes / links:>9.2f} {reads:>9,.1f} {reads / links:>9.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
