"""The part of the scene that concerns decisions: asked, read, answered, withdrawn, expired; leases that lapse into one."""

from __future__ import annotations

from typing import Any

from tests.meta.scene import Scene, large

QUESTION = {"kind": "question", "prompt": "p" * 3_000, "blocker": "b", "risk": "r", "roles": ["qa"]}


def decisions(scene: Scene) -> None:
    """All of it."""
    answered(scene)
    withdrawn(scene)
    timed(scene)
    lapsed(scene)
    redriven(scene)


def held(scene: Scene, **fields: Any) -> tuple[str, int]:
    """A job with a document that fits no item, and the fence of the world's agent."""
    job = scene.w.job(context=large(31), **fields)
    return job, scene.w.claim(job)


def ask(scene: Scene, job: str, fence: int, **more: Any) -> str:
    """Ask, and again; the decision."""
    key = f"ask-{job}-{more}"
    for _ in range(2):
        body = {"fence": fence, **QUESTION, **more}
        made = scene.w.ok("POST", f"P/jobs/{job}/decisions", body, key=key)["decision"]
    return str(made["id"])


def answered(scene: Scene) -> None:
    w = scene.w
    w.enrol("judge", ("qa",))
    job, fence = held(scene, lease_seconds=600)
    w.ok("POST", f"P/jobs/{job}/artifacts", {"fence": fence, "type": "log", "uri": "s3://x"})
    w.clock.advance(400)
    beside = ask(scene, job, fence, wait=False)
    w.clock.advance(400)
    w.ok("GET", f"P/decisions/{beside}")
    for query in ({}, {"state": "all"}, {"job": job}):
        w.ok("GET", "P/decisions", query=query)
    w.ok("GET", "P/me", token="judge")
    scene.owner("GET", "P/attention")
    decision = ask(scene, job, fence)
    for key in ("k", "k"):
        w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "a"}, token="judge", key=key)
    w.ok("POST", f"P/decisions/{beside}/answer", {"answer": "a"}, token="judge")
    w.ok("GET", "P/me")
    w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]})
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    scene.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
    scene.pump()


def withdrawn(scene: Scene) -> None:
    w = scene.w
    job, fence = held(scene)
    decision = ask(scene, job, fence)
    for key in ("k", "k"):
        w.ok("POST", f"P/decisions/{decision}/withdraw", {"note": "n" * 2_000}, key=key)
    ask(scene, job, fence, wait=False)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "broken"})
    scene.pump()
    states = [
        each["state"] for each in w.ok("GET", "P/decisions", query={"job": job, "state": "all"})["items"]
    ]
    assert states == ["withdrawn", "withdrawn"]


def timed(scene: Scene) -> None:
    w = scene.w
    job, fence = held(scene)
    decision = ask(scene, job, fence, expires_in=2_000)
    for _ in range(4):
        scene.pump()
        w.clock.advance(901)
    scene.pump()
    assert w.ok("GET", f"P/decisions/{decision}")["decision"]["state"] == "expired"
    scene.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})


def lapsed(scene: Scene) -> None:
    """Found by the timer, by another's claim, and by claim-next; each answer goes another way."""
    w = scene.w
    w.enrol("late", ("developer",))
    for given, way in (("publish", "timer"), ("fail", "claim"), ("cancel", "next")):
        job, _ = held(scene, on_expire="ask", lease_seconds=30, priority=40)
        w.clock.advance(40)
        if way == "claim":
            assert w.call("POST", f"P/jobs/{job}/claim", {}, token="late").code == "not_yet"
        elif way == "next":
            w.ok("POST", "P/claims", {"roles": ["developer"]}, token="late")
        scene.pump()
        decision = w.get(job)["decision"]
        assert decision, (way, w.get(job)["status"])
        scene.owner("POST", f"P/decisions/{decision}/answer", {"answer": given})
        if given == "publish":
            scene.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
    scene.pump()


def redriven(scene: Scene) -> None:
    """Messages about decisions that ended as dead letters."""
    w = scene.w
    job, fence = held(scene)
    early = ask(scene, job, fence, expires_in=5_000, wait=False)
    late = ask(scene, job, fence, expires_in=10, wait=False)
    other, fence = held(scene)
    ask(scene, other, fence, wait=False)
    w.ok("POST", f"P/jobs/{other}/release", {"fence": fence})
    with scene.spy.during("Dispatch"):
        w.dispatch()
    queues = w.engine.store.queues
    w.clock.advance(11)
    messages = [m for m in queues.receive("lease") if m.body["kind"] in ("decision", "close")]
    bodies = [message.body for message in messages]
    queues.delete("lease", [message.receipt for message in messages])
    until = next(each for each in bodies if each.get("decision") == late)["at"]
    bodies.append(
        {"kind": "decision", "project": "default", "job": job, "decision": early, "at": until + 4_990_000}
    )
    queues.send("lease-dead", [(body, 0) for body in bodies])
    done = scene.owner("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"})
    assert (done["redriven"], done["failed"]) == (len(bodies), 0)
    assert w.ok("GET", f"P/decisions/{late}")["decision"]["state"] == "expired"
    scene.pump()
