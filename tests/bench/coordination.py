"""What beats, leases and caps cost: heartbeats of one agent and of 1,000 workers, stale workers, claims under caps.

    python -m tests.bench.coordination [WORKERS] [BEAT] [SECONDS]     (default 1,000 workers that beat every 10 s, for 60 s)

Prints figures, judges only that no claim is lost. The workers share the machine with the bus. They beat three times as
often as workers do by default, so that a lease which is not kept ends while they are watched.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.served import Served
from tests.sim.meter import Meter, metered
from tests.sim.world import World, world

LEASES = 10
BEATS = 200
CLIENTS = 16
STALE = 10
CAP = 8
LOOK = 0.05
LIMIT_SECONDS = 60


class Line:
    """Somebody's keep-alive connection. ``times`` are the ms of its calls, ``refused`` what was not answered with 2xx."""

    def __init__(self, bus: Served, token: str) -> None:
        host, port = bus.url.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=LIMIT_SECONDS)
        self.token = token
        self.times: list[float] = []
        self.refused: list[str] = []

    def send(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        """One call; None when it is refused or not answered."""
        headers = {"authorization": f"Bearer {token or self.token}", "content-type": "application/json"}
        started = time.perf_counter()
        try:
            self.connection.request(
                method, "/v1/projects/default" + path, None if body is None else json.dumps(body), headers
            )
            response = self.connection.getresponse()
            value = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            self.refused.append(repr(error))
            return None
        self.times.append((time.perf_counter() - started) * 1_000)
        if response.status < 300:
            return value
        self.refused.append(str(value.get("code")))
        return None

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """One call that must succeed."""
        value = self.send(method, path, body)
        if value is None:
            raise RuntimeError(self.refused[-1])
        return value


class Worker:
    """An agent of its own, and the claims that it holds: job → fence."""

    def __init__(self, owner: Line, name: str) -> None:
        self.token: str = owner("POST", "/agents", {"label": name, "roles": ["developer", "qa"]})["token"]
        self.claims: dict[str, int] = {}
        self.ends: dict[str, float] = {}
        """When each lease ends, by this process's clock: what the answer said, counted from when it came."""

    def take(self, line: Line, beat: int, count: int = 1, role: str = "developer") -> None:
        """Create and claim so many jobs."""
        for _ in range(count):
            job = line.send("POST", "/jobs", {"summary": "beat", "role": role}, self.token)["job"]["id"]
            made = line.send("POST", f"/jobs/{job}/claim", {"heartbeat_seconds": beat}, self.token)
            self._holds(job, made["claim"])

    def beat(self, line: Line) -> bool:
        """Renew; whether the bus answered and everything is still held."""
        jobs = [{"id": job, "fence": fence} for job, fence in self.claims.items()]
        answer = line.send("POST", "/heartbeat", {"jobs": jobs}, self.token)
        if answer is None:
            return False
        held = {one["job"]: one for one in answer["claims"]}
        for job, fence in self.claims.items():
            if job not in held or held[job].get("fence") != fence or "stop" in held[job]:
                return False
            self._holds(job, held[job])
        return True

    def _holds(self, job: str, claim: dict[str, Any]) -> None:
        self.claims[job] = claim["fence"]
        self.ends[job] = time.monotonic() + claim["expires_in"]


def show(what: str, figure: str) -> None:
    print(f"{what:<66} {figure}", flush=True)


def percentiles(times: Sequence[float]) -> str:
    """p50 and p99 of ms."""
    row = sorted(times)
    return f"p50 {row[len(row) // 2]:.1f} ms, p99 {row[int(len(row) * 0.99)]:.1f} ms"


def together(work: Callable[[int], Any]) -> None:
    """Do the work by several threads at once; the first error of one is raised here."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def beat_of_many_leases(bus: Served, owner: Line) -> None:
    """One agent with ten leases, one beat after the other."""
    w, meter = _metered()
    for job in [w.job() for _ in range(LEASES)]:
        w.claim(job, heartbeat_seconds=30)
    w.pump()
    w.clock.advance(30)
    writes, reads = _units(meter, lambda: w.ok("POST", "P/heartbeat", {}))
    show(f"heartbeat with {LEASES} leases", f"{writes:g} write units, {reads:g} read units")
    worker, line = Worker(owner, "many"), Line(bus, "")
    worker.take(line, 30, LEASES)
    line.times.clear()
    for _ in range(BEATS):
        assert worker.beat(line), line.refused
    show(f"heartbeat with {LEASES} leases, {BEATS} in a row over HTTP", percentiles(line.times))
    for job, fence in worker.claims.items():
        line.send("POST", f"/jobs/{job}/complete", {"fence": fence}, worker.token)


def many_workers(bus: Served, owner: Line, count: int, beat: int, seconds: float) -> None:
    """Workers with one claim each beat in turn, spread over time, and keep what they hold."""
    names = [f"w{number}" for number in range(count)]
    workers: list[Worker] = []

    def enrol(client: int) -> None:
        line = Line(bus, owner.token)
        workers.extend([Worker(line, name) for name in names[client::CLIENTS]])

    lines = [Line(bus, "") for _ in range(CLIENTS)]
    lost, beats, late = [0] * CLIENTS, [0] * CLIENTS, [0.0] * CLIENTS

    def begin(client: int) -> None:
        for worker in workers[client::CLIENTS]:
            worker.take(lines[client], beat)

    def beating(client: int) -> None:
        mine = range(client, count, CLIENTS)
        turn = 0
        while True:
            for number in mine:
                due = began + (turn + number / count) * beat
                if due > began + seconds:
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                late[client] = max(late[client], time.perf_counter() - due)
                lost[client] += not workers[number].beat(lines[client])
                beats[client] += 1
            turn += 1

    ended = [0] * CLIENTS

    def finish(client: int) -> None:
        line = lines[client]
        for worker in workers[client::CLIENTS]:
            for job, fence in worker.claims.items():
                done = line.send("POST", f"/jobs/{job}/complete", {"fence": fence}, worker.token)
                ended[client] += done is not None

    together(enrol)
    together(begin)
    for line in lines:
        assert not line.refused, line.refused[:3]
        line.times.clear()
    began = time.perf_counter()
    together(beating)
    took = time.perf_counter() - began
    times = [ms for line in lines for ms in line.times]
    refused = [code for line in lines for code in line.refused]
    what = f"{count:,} workers, a beat every {beat} s, {took:.0f} s"
    show(what, f"{sum(beats) / took:.0f} beats/s, {percentiles(times)}")
    show("  beats refused or not answered", f"{len(refused)} of {sum(beats):,} {sorted(set(refused))}")
    show("  largest delay of a beat behind its time", f"{max(late):.2f} s")
    together(finish)
    show("  claims lost", f"{count - sum(ended)} of {count:,} (answers that said so: {sum(lost)})")
    assert (sum(ended), sum(lost)) == (count, 0), refused[:3]


def stale_workers(bus: Served, owner: Line) -> None:
    """Workers that beat every second and then fall silent: when their jobs can be had after the leases have ended."""
    seen: list[float] = []
    taken: list[float] = []
    worker, line = Worker(owner, "stale"), Line(bus, "")
    other = Worker(owner, "other")
    for _ in range(STALE):
        worker.claims.clear()
        # one to look at, one for another worker to claim
        worker.take(line, 1)
        worker.take(line, 1, role="qa")
        assert worker.beat(line), line.refused
        looked, wanted = worker.claims
        until = time.monotonic() + LIMIT_SECONDS
        waits = {looked, wanted}
        while waits and time.monotonic() < until:
            if looked in waits:
                answer = line.send("GET", f"/jobs/{looked}", None, other.token)
                if answer["job"]["status"] == "published":
                    seen.append(time.monotonic() - worker.ends[looked])
                    waits.discard(looked)
            if wanted in waits:
                answer = line.send("POST", "/claims", {"roles": ["qa"]}, other.token)
                if answer["job"]:
                    assert answer["job"]["id"] == wanted
                    taken.append(time.monotonic() - worker.ends[wanted])
                    waits.discard(wanted)
            time.sleep(LOOK)
        assert not waits, "a lapsed lease has not ended"
        line.send("POST", f"/jobs/{looked}/cancel", {"reason": "tidy"}, worker.token)
        line.send("POST", f"/jobs/{wanted}/complete", {"fence": answer["claim"]["fence"]}, other.token)
    what = f"{STALE} stale workers' jobs after their leases' ends"
    show(what + ", published", f"{min(seen):.2f}–{max(seen):.2f} s")
    show(what + ", taken by claim-next", f"{min(taken):.2f}–{max(taken):.2f} s")


def claims_under_caps() -> None:
    """Units of claim-next and claim under caps of the agent, the role, the project, in this order."""
    print(f"\n{'units of a claim on DynamoDB':<40} {'caps':>5} {'writes':>8} {'reads':>8}   beyond no cap")
    for what in ("the first", f"of {CAP // 2} live", f"all {CAP} slots used before"):
        plain = (0.0, 0.0)
        for scopes in range(4):
            w, meter = _metered()
            _capped(w, scopes)
            live = CAP // 2 if "live" in what else 0
            for number in range(CAP * 4 if "used" in what else live):
                job = w.job()
                body = {"fence": w.claim(job)}
                if number >= live:
                    w.ok("POST", f"P/jobs/{job}/complete", body)
            w.job()
            w.pump()
            spent = _units(
                meter, lambda w=w: w.ok("POST", "P/claims", {"roles": ["developer"]})["claim"]["fence"]
            )
            plain = plain if scopes else spent
            more = f"{spent[0] - plain[0]:+g} writes, {spent[1] - plain[1]:+g} reads"
            print(f"{'claim-next, ' + what:<40} {scopes:>5} {spent[0]:>8g} {spent[1]:>8g}   {more}")


def _capped(w: World, scopes: int) -> None:
    agent = w.ok("GET", "P/me")["actor"]["id"]
    cap = {"max_claims": CAP}
    changes = [(f"P/agents/{agent}", cap), ("P/roles/developer", cap), ("P", {"settings": cap})]
    for path, body in changes[:scopes]:
        w.ok("PATCH", path, body, token="owner")


def _metered() -> tuple[World, Meter]:
    meters: list[Meter] = []

    def wrap(store: Any) -> Any:
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    return world(wrap=wrap), meters[0]


def _units(meter: Meter, work: Callable[[], Any]) -> tuple[float, float]:
    """(write units, read units) of what is done."""
    before = meter.writes, meter.reads
    work()
    return meter.writes - before[0], meter.reads - before[1]


def main(arguments: Sequence[str]) -> None:
    """Serve, measure, print."""
    count, beat, seconds = [*map(int, arguments), *(1_000, 10, 60)[len(arguments) :]]
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        owner = Line(bus, bus.owner_token)
        beat_of_many_leases(bus, owner)
        stale_workers(bus, owner)
        many_workers(bus, owner, count, beat, seconds)
        show("resident memory of the bus", f"{bus.memory_mb():.0f} MB")
    claims_under_caps()


if __name__ == "__main__":
    main(sys.argv[1:])
