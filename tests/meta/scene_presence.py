"""The part of the scene about agents that come, go and are stopped, what owners tell them, and what is used."""

from __future__ import annotations

from unittest.mock import patch

from tests.meta.scene import Scene
from tests.sim.requests_presence import USAGE, daily

from interlock.app import timers


def presence(scene: Scene) -> None:
    """All of it."""
    stopped(scene)
    stopped_at_the_last_moment(scene)
    gone_and_back(scene)
    spent(scene)


def stopped(scene: Scene) -> None:
    w = scene.w
    bob = w.enrol("bob")
    w.claim(w.job(), token="bob")
    scene.owner("POST", f"P/agents/{bob}/stop", {"reason": "r"}, key="k")
    scene.owner("POST", f"P/agents/{bob}/stop", {"reason": "r"}, key="k")
    w.clock.advance(31)
    scene.pump()
    scene.owner("POST", "P/resume", {"agent": bob})
    told = scene.owner("POST", "P/broadcasts", {"text": "soon"}, key="k")["broadcast"]["id"]
    w.ok("GET", "P/me", token="bob")
    scene.owner("GET", "P/workers")
    scene.owner("DELETE", f"P/broadcasts/{told}")
    scene.pump()


def stopped_at_the_last_moment(scene: Scene) -> None:
    """What the call did not see, or died before it could end it, is ended later: by the timer, and by redrive."""
    w = scene.w
    for name in ("late", "later"):
        agent = w.enrol(name)
        w.claim(w.job(), token=name)
        with patch.object(timers, "empty_hands", return_value=0):
            scene.owner("POST", f"P/agents/{agent}/stop", {"reason": "r"})
        w.dispatch()
        w.clock.advance(31)
        if name == "later":
            redriven(scene)
        scene.pump()


def redriven(scene: Scene) -> None:
    """What is due of the lease queue ends among the dead letters, and is handled from there."""
    for message in scene.w.bus.store.queues.receive("lease"):
        scene.w.bus.store.queues.send("lease-dead", [(message.body, 0)])
        scene.w.bus.store.queues.delete("lease", [message.receipt])
    scene.owner("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"})


def gone_and_back(scene: Scene) -> None:
    """Each call that says that an agent is back, after the bus has missed it."""
    w = scene.w
    for number, sign in enumerate(("claim", "next", "beat", "redrive")):
        name = f"gone{number}"
        w.enrol(name, ("developer", "ops"))
        w.claim(w.job(lease_seconds=30), token=name)
        scene.pump()
        w.clock.advance(40)
        if sign == "redrive":
            w.dispatch()
            for message in w.bus.store.queues.receive("lease"):
                w.bus.store.queues.send("lease-dead", [(message.body, 0)])
            scene.owner("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"})
            w.dispatch()
            for message in w.bus.store.queues.receive("lease"):
                w.bus.store.queues.send("lease-dead", [(message.body, 0)])
            scene.owner("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"})
        scene.pump()
        if sign == "claim":
            w.claim(w.job(), token=name)
        elif sign == "next":
            assert w.ok("POST", "P/claims", {"roles": ["ops"]}, token=name)["job"] is None
        else:
            w.ok("POST", "P/heartbeat", {}, token=name)
            w.clock.advance(11)
            w.ok("POST", "P/heartbeat", {"session": "s"}, token=name)
    scene.pump()


def spent(scene: Scene) -> None:
    w = scene.w
    daily(w)
    for how in ("complete", "fail", "block", "release"):
        job = w.job(budget={"tokens": 100})
        fence = w.claim(job)
        w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence, "usage": {"usd": 0.5}}]})
        more = {} if how == "complete" else {"reason": "r"}
        w.ok("POST", f"P/jobs/{job}/{how}", {"fence": fence, "usage": USAGE, **more})
    job = w.job(budget={"tokens": 100})
    fence = w.claim(job)
    w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence, "usage": USAGE}]})
    decision = w.get(job)["decision"]
    scene.owner("POST", f"P/decisions/{decision}/answer", {"answer": "raise", "data": {"tokens": 5_000}})
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    w.ok("POST", f"P/jobs/{job}/restart", {})
    metered = w.job(budget={"seconds": 5, "count": "metered"}, lease_seconds=30)
    w.claim(metered)
    scene.pump()
    w.clock.advance(20)
    w.ok("GET", f"P/jobs/{metered}")
    w.ok("POST", "P/claims", {})
    w.clock.advance(15)
    scene.pump()
    assert w.get(metered)["status"] == "blocked"
    scene.owner("GET", "P/attention")
    scene.owner("PATCH", "P", {"settings": {"daily_budget": None}})
    scene.owner("PATCH", "P/roles/developer", {"daily_budget": None})
    scene.pump()
