"""A bus on which every operation and every consumer is carried out, in the ways that call the store differently."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.meta.spy import Late, Spy
from tests.sim.world import World

from interlock.app import bootstrap, dispatch, retention
from interlock.domain import limits
from interlock.errors import InterlockError
from interlock.store import keys

CONSUMERS = {"lease": "TimerConsumer", "barrier": "BarrierConsumer", "routing": "RoutingConsumer"}
"""The function that consumes each queue."""


def large(seed: int) -> dict[str, str]:
    """A document that does not fit an item."""
    return {"text": random.Random(seed).randbytes(60_000).hex()}


def dense(seed: int) -> dict[str, str]:
    """As large as a rule may carry, and still no item: it compresses badly."""
    return {"text": "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=60_000))}


REPORT = {"type": "report", "uri": "https://example.org/report"}


@dataclass
class Scene:
    """A bus on which every operation is carried out, in the ways that call the store differently."""

    w: World
    spy: Spy

    def run(self) -> None:
        self.people()
        self.life()
        self.large_documents()
        self.uploads()
        self.external_ids()
        self.board()
        self.timers()
        self.dead_letters()
        self.retention()

    def pump(self) -> None:
        """Dispatcher and consumers as their functions run them; time stands still."""
        while True:
            with self.spy.during("Dispatch"):
                done = self.w.dispatch()
            for queue, function in CONSUMERS.items():
                with self.spy.during(function):
                    done += self.w.consume(queue)
            if not done:
                return

    def retention(self) -> None:
        """A job with links, an external id and a large document goes to the archive."""
        w = self.w
        up = w.job(external_id="old", context={"large": random.Random(1).randbytes(40_000).hex()})
        below = w.job(blocked_by=[up], parent=up)
        w.ok("POST", f"P/jobs/{below}/cancel", {"reason": "no"})
        w.ok("POST", f"P/jobs/{up}/cancel", {"reason": "no"})
        self.pump()
        self.owner("PATCH", "P", {"settings": {"retention_days": 1}})
        w.clock.advance(3 * 86_400)
        self.pump()
        with self.spy.during("Retain"):
            assert retention.retain(w.bus) >= 2
        w.clock.advance(16 * 86_400)
        self.pump()
        with self.spy.during("Retain"):
            retention.retain(w.bus)
        assert w.engine.store.table.get(keys.head("default", "job", up)) is None

    def owner(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return self.w.ok(method, path, body, token="owner", **more)

    def people(self) -> None:
        with self.spy.during("Bootstrap"):
            bootstrap.first_owner(self.w.bus)
            bootstrap.first_owner(self.w.bus, recover=True)
            with pytest.raises(InterlockError):  # of two at once, one loses
                bootstrap.first_owner(
                    replace(self.w.bus, store=replace(self.w.bus.store, table=Late(self.spy)))
                )
        self.w.ok("GET", "/health", token=None)
        self.w.ok("GET", "/openapi.json", token=None)
        self.w.call("GET", "/nowhere", token=None)
        for path in ("/v1/owners", "P/owners", "P/agents"):
            kind = path.rpartition("/")[2].removesuffix("s")
            fields = (
                {"label": "new", "rights": "viewer"} if kind == "owner" else {"label": "new", "roles": ["qa"]}
            )
            for key in (None, "k", "k"):
                identity = self.owner("POST", path, fields, key=key)[kind]["id"]
            one = f"{path}/{identity}"
            self.owner("GET", path)
            token = self.owner("POST", f"{one}/tokens", {"name": "second"}, key="t")["id"]
            rotated = self.owner("POST", f"{one}/tokens/{token}/rotate", {"grace_seconds": 0})["id"]
            self.owner("DELETE", f"{one}/tokens/{rotated}")
            if kind == "agent":
                self.owner("GET", one)
                self.owner("PATCH", one, {"label": "other"})
                self.owner("POST", "P/pause", {"agent": identity})
                self.owner("POST", "P/resume", {"agent": identity})
            self.owner("DELETE", one)
        for key in (None, "k", "k"):
            self.w.call("POST", "/v1/projects", {"id": "p2", "title": "Two"}, token="owner", key=key)
        self.owner("GET", "/v1/projects")
        self.owner("GET", "P")
        self.owner("PATCH", "P", {"title": "Other", "settings": {"cancel_overdue": True}})
        self.owner("POST", "P/roles", {"key": "extra", "label": "Extra"})
        self.owner("PATCH", "P/roles/extra", {"label": "More"})
        self.owner("GET", "P/roles")
        self.owner("DELETE", "P/roles/extra")
        self.owner("GET", "P/stats")
        self.w.ok("GET", "P/me")
        self.pump()

    def life(self) -> None:
        w = self.w
        job = w.job(key="create")
        w.job(key="create")
        w.job(parent=job)
        one = f"P/jobs/{job}"
        fence = w.claim(job)
        w.ok("GET", "P/me")
        w.ok("POST", f"{one}/events", {"type": "custom.note", "data": {"text": "x" * 2_000}})
        made = w.ok("POST", f"{one}/artifacts", {**REPORT, "fence": fence})["artifact"]
        upload = w.uploaded(job, body={"fence": fence})
        w.ok("POST", f"{one}/artifacts/{upload}/verify", {"fence": fence})
        full = w.job(artifacts=[REPORT] * (limits.ARTIFACTS - 1))
        w.ok("POST", f"P/jobs/{full}/artifacts", REPORT)
        assert w.call("POST", f"P/jobs/{full}/artifacts", REPORT).code == "limit_reached"
        full = w.job(artifacts=[REPORT] * 100)
        assert w.call("POST", f"P/jobs/{full}/artifacts", REPORT).code == "limit_reached"
        for reading in ("", "/events", "/explain", f"/artifacts/{made['id']}", f"/artifacts/{upload}"):
            w.clock.advance(600)  # a renewal is written when enough of the lease has passed
            w.ok("GET", one + reading)
        self.owner("GET", f"{one}/explain", query={"agent": w.agent.split(".")[1]})
        w.job(key="create")
        w.ok("POST", f"{one}/block", {"fence": fence, "reason": "stuck", "data": {"text": "x" * 2_000}})
        w.ok("POST", f"{one}/unblock", {"fence": fence, "reason": "free"})
        w.ok("POST", f"{one}/resume", {"fence": fence})
        w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]})
        w.ok("POST", f"{one}/release", {"fence": fence})
        fence = w.claim(job)
        w.ok("POST", f"{one}/fail", {"fence": fence, "reason": "broken"})
        fence = w.ok("POST", f"{one}/restart", {})["claim"]["fence"]
        w.ok("POST", f"{one}/fail", {"fence": fence, "reason": "broken"})
        self.owner("POST", f"{one}/retry", {"max_retries": 5})
        fence = w.claim(job)
        self.owner("POST", f"{one}/stop", {"reason": "urgent", "then": "publish"})
        fence = w.claim(job)
        w.ok(
            "POST", f"{one}/complete", {"fence": fence, "result": {"summary": "done", "artifacts": [REPORT]}}
        )
        self.owner("POST", f"P/jobs/{w.job()}/cancel", {"reason": "enough"})
        self.pump()
        w.ok("GET", "P/events")
        w.ok("GET", f"{one}/events")
        # An agent that holds a job is retired: its job goes back.
        leaver = w.enrol("leaver")
        w.claim(w.job(), token="leaver")
        self.owner("DELETE", f"P/agents/{leaver}")
        self.pump()

    def large_documents(self) -> None:
        w = self.w
        job = w.job(context=large(1), key="large")
        w.job(context=large(1), key="large")  # a repeat reads what the first call stored
        one = f"P/jobs/{job}"
        version = w.ok("GET", one)["job"]["version"]
        w.ok("PATCH", one, {"context": large(2)}, headers={"if-match": f'"v{version}"'})
        w.ok("GET", one)
        fence = w.claim(job)
        w.ok("POST", f"{one}/artifacts", {**REPORT, "fence": fence, "metadata": {"note": "x" * 3_000}})
        w.ok(
            "POST",
            f"{one}/complete",
            {"fence": fence, "result": {"summary": "done", "data": large(3)["text"][:60_000]}},
        )
        for name in ("block", "release", "fail"):
            job = w.job(context=large(4), priority=40)
            w.ok("POST", f"P/jobs/{job}/artifacts", REPORT)
            fence = w.ok("POST", "P/claims", {"roles": ["developer"]}, key=f"next-{name}")["claim"]["fence"]
            w.ok("POST", "P/claims", {"roles": ["developer"]}, key=f"next-{name}")
            w.ok("POST", f"P/jobs/{job}/{name}", {"fence": fence, "reason": "why"})
            if name != "fail":
                self.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
        self.pump()

    def uploads(self) -> None:
        w = self.w
        job = w.job()
        made = w.uploaded(job)
        for _ in range(2):
            w.ok("POST", f"P/jobs/{job}/artifacts/{made}/verify", {})
        w.ok("GET", f"P/jobs/{job}/artifacts/{made}")
        w.ok("GET", f"P/jobs/{job}")
        fence = w.claim(job)
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})

    def external_ids(self) -> None:
        w = self.w
        job = w.job(external_id="TICKET-1", context=large(5))
        w.ok("GET", "P/jobs", query={"external_id": "TICKET-1"})
        w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "broken"})
        w.ok("POST", f"P/jobs/{job}/restart", {})
        self.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
        again = w.job(external_id="TICKET-1")
        w.ok("POST", f"P/jobs/{again}/fail", {"fence": w.claim(again), "reason": "broken"})
        self.owner("POST", f"P/jobs/{again}/retry", {})
        w.ok("POST", f"P/jobs/{again}/fail", {"fence": w.claim(again), "reason": "broken"})
        other = w.job(external_id="TICKET-1")
        self.owner("POST", f"P/jobs/{other}/cancel", {"reason": "enough"})
        self.owner("POST", f"P/jobs/{again}/retry", {})  # takes the id back from one that has ended
        self.owner("POST", f"P/jobs/{again}/cancel", {"reason": "enough"})

    def board(self) -> None:
        w = self.w
        for query in (
            {},
            {"status": "published"},
            {"role": "developer"},
            {"status": ["failed", "completed"]},
        ):
            w.ok("GET", "P/jobs", query=query)
        self.owner("POST", "P/pause", {"role": "qa"})
        self.owner("POST", "P/resume", {"role": "qa"})

    def timers(self) -> None:
        w = self.w
        held, late = w.job(), w.job(deadline="2026-12-01T00:00:00Z")
        w.job(not_before="2026-12-01T00:00:00Z")
        w.claim(held, lease_seconds=30)
        w.claim(late, lease_seconds=86_400)
        for _ in range(20):
            self.pump()
            w.clock.advance(900)
        self.pump()
        assert w.get(held)["status"] == "published"
        assert w.get(late)["status"] == "cancelled"

    def dead_letters(self) -> None:
        w = self.w
        job = w.job()
        w.claim(job, lease_seconds=30)
        head = w.engine.store.table.get(keys.head("default", "job", job))
        with self.spy.during("Dispatch"):
            dispatch.park(w.bus, head, "unreadable")
        w.clock.advance(100)
        body = {"kind": "lease", "project": "default", "job": job, "fence": 1, "hop": 1}
        retired = {"kind": "retire", "project": "default", "agent": "agt_gone"}
        w.engine.store.queues.send("lease-dead", [(body, 0), (retired, 0)])
        self.owner("GET", "/v1/dead-letters")
        for queue, there in (("dispatch-dead", 1), ("lease-dead", 2)):
            done = self.owner("POST", "/v1/dead-letters/redrive", {"queue": queue})
            assert (done["redriven"], done["failed"]) == (there, 0)
        w.claim(job)
        self.owner("POST", "P/repair", {"entity": f"job/{job}"})
