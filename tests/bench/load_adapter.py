"""Interlock's adapter for the shared workload client (`load.py`: create, claim, complete, list, links, routing, races).

    python -m tests.bench.load_adapter LOAD.PY [--data DIR] [load.py's own options]

starts `interlock up` on a free port, runs the workload with this adapter, and stops it. Prints the workload's
figures; exits 1 when a race count is not zero, a cascade is not complete, or a scenario breaks off.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import Any

from tests.bench.served import Served

MUST_BE_ZERO = ("jobs_given_to_more_than_one_agent", "rounds_with_more_than_one_winner", "jobs_claimed_twice_or_more",
                "acked_but_absent_of_last_60_per_run", "not_found", "both_accepted", "retries_needed_after_ack",
                "downstream_never_published", "downstream_stuck_pending", "routing_fired_twice", "retried_completes")  # fmt: skip
FOLLOWERS, CHAIN = 10, 50
"""Rules of the client's fan-out, and jobs of its cascade."""


def load_client(path: Path) -> Any:
    """The workload client as a module."""
    spec = importlib.util.spec_from_file_location("load_client", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["load_client"] = module
    spec.loader.exec_module(module)
    return module


def adapter(load: Any, owner_token: str) -> type:
    """The adapter class, on the client's base classes."""

    class InterlockAdapter(load.HttpMixin, load.Adapter):
        """Plain requests, as an agent's script would send them."""

        def __init__(self, args):
            super().__init__(args)
            url = urllib.parse.urlparse(args.base)
            self.host, self.port = url.hostname, url.port
            self.root = "/v1/projects/default"
            self.fences: dict[str, int] = {}

        def setup(self, n_agents, n_roles):
            roles = [f"load-{number}" for number in range(n_roles)]
            for role in roles:
                self._must(self.http("POST", f"{self.root}/roles", owner_token, {"key": role, "label": role}))
            agents = []
            for number in range(n_agents):
                body = {"label": f"load-{number}", "roles": roles[:50]}
                made = self._must(self.http("POST", f"{self.root}/agents", owner_token, body))
                agents.append(made["token"])
            return agents, roles[:50]

        @staticmethod
        def _must(result):
            assert result.kind == "ok", result
            return result.value

        def create(self, agent, role, blocked_by=None, routing_roles=None, priority=20):
            body = {
                "summary": "load job",
                "role": role,
                "priority": priority,
                "constraints": ["c1", "c2"],
                "context": {"objective": "x" * 200, "files": ["a.py", "b.py"], "notes": "y" * 200},
                "artifacts": [{"type": "log", "uri": "file:///x"}],
            }
            if blocked_by:
                body["blocked_by"] = blocked_by
            if routing_roles:
                body["routing"] = [{"role": to, "summary": "load follower"} for to in routing_roles]
            return self._job(self.http("POST", f"{self.root}/jobs", agent, body))

        def _job(self, result):
            """A claim's fence is kept; a repeat that had no second effect is not a second acceptance."""
            if result.kind == "ok":
                job = result.value["job"]
                if job is None:
                    result.kind = "empty"
                else:
                    claim = result.value.get("claim")
                    if claim:
                        self.fences[job["id"]] = claim["fence"]
                    result.value = job["id"]
            return result

        def claim(self, agent, job):
            return self._job(self.http("POST", f"{self.root}/jobs/{job}/claim", agent, {}))

        def claim_next(self, agent, role):
            return self._job(self.http("POST", f"{self.root}/claims", agent, {"roles": [role]}))

        def complete(self, agent, job):
            return self._job(
                self.http("POST", f"{self.root}/jobs/{job}/complete", agent, {"fence": self.fences[job]})
            )

        def http(self, method, path, token=None, body=None):
            """One request on this thread's connection. A replayed answer (no second effect) is a `conflict`."""
            data = None if body is None else json.dumps(body)
            headers = {
                "Content-Type": "application/json",
                **({"Authorization": f"Bearer {token}"} if token else {}),
            }
            started = time.perf_counter()
            try:
                connection = getattr(self._tl, "connection", None) or http.client.HTTPConnection(
                    self.host, self.port, timeout=60
                )
                self._tl.connection = connection
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                value = json.loads(response.read())
            except OSError as error:
                self._tl.connection = None
                return load.Res("net", repr(error), (time.perf_counter() - started) * 1e3)
            ms = (time.perf_counter() - started) * 1e3
            status = response.status
            if 200 <= status < 300 and not response.headers.get("Idempotency-Replayed"):
                return load.Res("ok", value, ms, status)
            kind = "error" if status >= 500 else "empty" if status == 404 else "conflict"
            return load.Res(kind, value, ms, status)

        def fail(self, agent, job):
            body = {"fence": self.fences[job], "reason": "load test"}
            return self._job(self.http("POST", f"{self.root}/jobs/{job}/fail", agent, body))

        def count_children(self, agent, job):
            found = self.http("GET", f"{self.root}/jobs?parent={job}&limit=100", agent)
            return len(self._must(found)["items"])

        def get(self, agent, job):
            result = self.http("GET", f"{self.root}/jobs/{job}", agent)
            if result.kind == "ok":
                result.value = {name: result.value["job"][name] for name in ("status", "assignee")}
            return result

        def list_published(self, agent, role, limit):
            query = f"status=published&role={role}&limit={min(limit, 100)}"
            result = self.http("GET", f"{self.root}/jobs?{query}", agent)
            if result.kind == "ok":
                result.value = [item["id"] for item in result.value["items"]]
            return result

    return InterlockAdapter


def race_counts(result: Any, path: str = "") -> list[tuple[str, int]]:
    """Every count of the workload that must be zero."""
    if not isinstance(result, dict):
        return []
    found = []
    for name, value in result.items():
        where = f"{path}/{name}"
        if isinstance(value, int) and name in MUST_BE_ZERO:
            found.append((where, value))
        elif name == "scenario_error":
            found.append((f"{where}: {value}", 1))
        elif name == "sequential_ms":
            found.append((f"{where}: never published", value.count(None)))
        elif name == "children":
            found.append((f"{where}: not {FOLLOWERS}", sum(count != FOLLOWERS for count in value)))
        elif name == "cascade" and isinstance(value, list):
            found.append(
                (f"{where}: incomplete", sum(r["statuses_after"] != {"failed": CHAIN} for r in value))
            )
        found += race_counts(value, where)
    return found


def main() -> int:
    """Run the workload; 0 when no race was lost."""
    path, *options = sys.argv[1:]
    load = load_client(Path(path))
    with tempfile.TemporaryDirectory() as folder, Served(Path(folder)) as bus:
        out = Path(folder) / "out.json"
        load.ADAPTERS["interlock"] = adapter(load, bus.owner_token)
        sys.argv = [
            "load.py",
            "--adapter",
            "interlock",
            "--base",
            bus.url,
            "--pids",
            str(bus.pid),
            "--out",
            str(out),
            *options,
        ]
        load.main()
        counts = race_counts(json.loads(out.read_text()))
    lost = [row for row in counts if row[1]]
    for where, count in counts:
        print(f"{count:6d}  {where}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
