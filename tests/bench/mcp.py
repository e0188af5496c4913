"""What MCP costs beside REST: time of a call in memory, the first one of a fresh process, sizes of answers.

    python -m tests.bench.mcp [ROUNDS]     (default 300)

Prints figures, judges nothing. Requests reach the handlers as the gateway's events, on a store in memory: what a tool
takes longer than the same operation over REST in the same run is the protocol's, its answer's brevity and its notices.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sim import speaker
from tests.sim import world as worlds
from tests.sim.speaker import Speaker
from tests.sim.world import World, world

from interlock.edges.mcp import brief

ROOT = Path(__file__).parents[2]
BOARD = 20
CONTEXT = {
    "objective": "Mend the nightly build: find the commit, write a test that fails without the change. " * 12
}
WAYS = ("REST", "2025-11-25", "2026-07-28")
FRESH = """
import json, sys, time
sys.path.insert(0, {shared!r}); sys.path.insert(0, {root!r})
import pydantic
began = time.perf_counter()
from interlock.edges.mcp import serve
imported = time.perf_counter()
from interlock.edges.mcp.rpc import Request
def listed():
    start = time.perf_counter()
    served = serve.server()
    served.answer(Request(1, "tools/list", {{}}), None, None)
    return (time.perf_counter() - start) * 1000
print(json.dumps([(imported - began) * 1000, listed(), listed()]))
"""

Handler = Callable[[Any, Any], dict[str, Any]]
Times = Mapping[tuple[str, str], list[float]]


class Watch:
    """Times handlers: ``last`` is the ms of the latest call."""

    last = 0.0

    def on(self, handler: Handler) -> Handler:
        """The handler, timed."""

        def timed(event: Any, context: Any) -> dict[str, Any]:
            started = time.perf_counter()
            try:
                return handler(event, context)
            finally:
                self.last = (time.perf_counter() - started) * 1_000

        return timed


class Bench:
    """A board, and the same calls in every way."""

    def __init__(self) -> None:
        self.watch = Watch()
        rest = worlds._handler
        worlds._handler = lambda name: self.watch.on(rest(name))  # type: ignore[assignment]
        speaker.mcp_handler = self.watch.on(speaker.mcp_handler)
        self.w: World = world()
        for number in range(BOARD):
            self.w.job(
                summary=f"Count the attempt of lapsed lease {number} before the next claim", context=CONTEXT
            )
        self.w.dispatch()
        self.clients = {way: Speaker(self.w, modern=way == "2026-07-28") for way in WAYS[1:]}
        self.times: dict[tuple[str, str], list[float]] = defaultdict(list)

    def round(self, way: str) -> None:
        """One call of each kind."""
        if way == "REST":
            query = {"status": "published", "role": "mine", "limit": 8}
            self.rest("whoami", "GET", "P/me")
            self.rest("list_jobs", "GET", "P/jobs", query=query)
            job = self.rest(
                "publish_job", "POST", "P/jobs", {"summary": "work", "role": "qa", "context": CONTEXT}
            )["job"]["id"]
            self.rest("get_job", "GET", f"P/jobs/{job}")
            fence = self.rest("claim_next", "POST", "P/claims", {"roles": ["qa"]})["claim"]["fence"]
            self.rest("complete_job", "POST", f"P/jobs/{job}/complete", {"fence": fence})
        else:
            self.note("tools/list", way, self.clients[way].result("tools/list"))
            self.tool(way, "whoami")
            self.tool(way, "list_jobs")
            job = self.tool(way, "publish_job", summary="work", role="qa", context=CONTEXT)["job"]["id"]
            self.tool(way, "get_job", job=job)
            fence = self.tool(way, "claim_next", roles=["qa"])["claim"]["fence"]
            self.tool(way, "complete_job", job=job, fence=fence)
        self.w.dispatch()

    def rest(self, name: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return self.note(name, "REST", self.w.ok(method, path, body, **more))

    def tool(self, way: str, name: str, **arguments: Any) -> Any:
        return self.note(name, way, self.clients[way].ok(name, **arguments))

    def note(self, name: str, way: str, answer: Any) -> Any:
        self.times[name, way].append(self.watch.last)
        return answer


def overhead(times: Times) -> None:
    """Per call and way: p50 and p99 in ms, and how much the p50 is above that of REST."""
    print(f"{'ms of a call in memory':<24} {'way':<12} {'p50':>7} {'p99':>7}   p50 beyond REST")
    for name, way in times:
        taken = sorted(times[name, way])
        plain = times.get((name, "REST"))
        p50, p99 = statistics.median(taken), taken[int(len(taken) * 0.99)]
        beyond = "" if plain is None or way == "REST" else f"{p50 - statistics.median(plain):+.2f}"
        print(f"{name:<24} {way:<12} {p50:>7.2f} {p99:>7.2f}   {beyond}")


def fresh(runs: int) -> None:
    """What a new process takes until its first list of tools, beyond pydantic and without boto3."""
    code = FRESH.format(shared=str(ROOT / "shared"), root=str(ROOT))
    found = [
        json.loads(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(runs)
    ]
    print(f"\n{'ms in a fresh process':<40} {'least':>7} {'median':>7}   ({runs} processes)")
    for name, values in zip(
        ("import of the server", "first tools/list", "second tools/list"),
        zip(*found, strict=True),
        strict=True,
    ):
        print(f"{name:<40} {min(values):>7.1f} {statistics.median(values):>7.1f}")


def sizes() -> None:
    """Bytes of answers, and the tokens that the bounds of answers take them for."""
    w = world()
    client = Speaker(w)
    first = w.job(summary="Mend the nightly build", context=CONTEXT, constraints=["The tests pass"])
    plan = [
        {"ref": f"r{n}", "summary": "work", "role": "developer", "blocked_by": [f"r{n - 1}"] if n else []}
        for n in range(50)
    ]
    shown: list[tuple[str, Any]] = [
        ("tools/list", client.result("tools/list")),
        ("initialize", client.result("initialize", {"protocolVersion": "2025-11-25"})),
        ("guide", client.result("resources/read", {"uri": "interlock://guide"})["contents"][0]["text"]),
        ("whoami", client.ok("whoami")),
        ("claim_next", client.ok("claim_next")),
        ("heartbeat", client.ok("heartbeat")),
        ("get_job with events", client.ok("get_job", job=first, include=["events", "explain"])),
        ("complete_job", client.ok("complete_job", job=first, fence=1, result={"summary": "done"})),
        ("publish_plan of 50", client.ok("publish_plan", jobs=plan)),
        ("list_jobs", client.ok("list_jobs", status=[], role=[])),
        ("whoami with everything", client.ok("whoami", include=["agent", "project", "roles", "workers", "stats", "events"])),
        ("a refusal", client.call("complete_job", job=first, fence=7)["structuredContent"]),
    ]  # fmt: skip
    print(
        f"\n{'size of an answer as JSON':<40} {'bytes':>7} {'tokens':>7}   (at {brief.BYTES_PER_TOKEN} of weight)"
    )
    for name, value in shown:
        print(
            f"{name:<40} {len(brief.text(value).encode()):>7} {brief.weight(value) / brief.BYTES_PER_TOKEN:>7.0f}"
        )


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    rounds = int(arguments[0]) if arguments else 300
    bench = Bench()
    for number in range(rounds + 3):
        if number == 3:
            bench.times.clear()  # what is made on first use is not counted
        for way in WAYS:
            bench.round(way)
    overhead(
        dict(
            sorted(bench.times.items(), key=lambda each: [name for name, _ in bench.times].index(each[0][0]))
        )
    )
    fresh(5)
    sizes()


if __name__ == "__main__":
    main(sys.argv[1:])
