"""The part of the scene that concerns jobs that wait for each other: links, plans, reviews, rules, their consumers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.scene import Scene, dense, large

from interlock.app import plans

MANY = 85
"""Upstream jobs of which some are held before the head's transaction."""
WIDE = 30
"""More waiting jobs than one message looks after."""


def links(scene: Scene) -> None:
    """All of it."""
    waiting(scene)
    added(scene)
    planned(scene)
    unfinished_plan(scene)
    reviewed(scene)
    followed(scene)
    timed(scene)
    redriven(scene)


def complete(scene: Scene, *jobs: str) -> None:
    """Claim what is published and complete it."""
    for job in jobs:
        fence = scene.w.claim(job)
        scene.w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})


def waiting(scene: Scene) -> None:
    """Created with blockers, one of which ends in the same moment; cascade, revival, many at once."""
    w = scene.w
    ups = [w.job() for _ in range(MANY)]
    scene.spy.meanwhile = lambda: complete(scene, ups[0])
    down = w.job(blocked_by=ups, external_id="WAITS", context=large(10), independent=True)
    scene.pump()
    w.ok("POST", f"P/jobs/{ups[1]}/fail", {"fence": w.claim(ups[1]), "reason": "broken"})
    scene.pump()
    assert w.get(down)["status"] == "failed"
    w.ok("POST", f"P/jobs/{ups[1]}/restart", {})
    scene.pump()
    w.ok("POST", f"P/jobs/{ups[1]}/complete", {"fence": 2})
    complete(scene, *ups[2:])
    scene.pump()
    assert w.get(down)["status"] == "published"
    up = w.job()
    downs = [w.job(blocked_by=[up]) for _ in range(WIDE)]
    w.ok("GET", f"P/jobs/{up}/graph")
    complete(scene, up)
    scene.pump()
    assert {w.get(job)["status"] for job in downs} == {"published"}
    scene.owner("GET", "P/attention")


def added(scene: Scene) -> None:
    """Links that come later: to an open upstream, to one that ends in the same moment, and a circle."""
    w = scene.w
    first, second, down = w.job(), w.job(context=large(11)), w.job(context=large(12))
    w.ok("POST", f"P/jobs/{down}/links", {"upstream": first})
    scene.spy.meanwhile = lambda: complete(scene, second)
    w.ok("POST", f"P/jobs/{down}/links", {"upstream": second})
    assert w.call("POST", f"P/jobs/{first}/links", {"upstream": down}).code == "cycle"
    w.clock.advance(600)
    w.ok("GET", f"P/jobs/{down}/graph", query={"depth": 3})
    complete(scene, first)
    scene.pump()
    assert w.get(down)["status"] == "published"


def plan(scene: Scene, name: str, up: str) -> dict[str, Any]:
    """A plan with everything in it: it waits for ``up`` and for many, has external ids, and large documents."""
    wide = [{"ref": f"w{n}", "summary": "w", "role": "developer"} for n in range(MANY)]
    after = {
        "ref": "after",
        "summary": "a",
        "role": "developer",
        "external_id": f"{name}-1",
        "context": large(13),
        "independent": True,
        "blocked_by": [up, *(job["ref"] for job in wide)],
    }
    child = {"ref": "child", "summary": "c", "role": "developer", "parent": "after", "blocked_by": [up]}
    return {"jobs": [*wide, after, child]}


def planned(scene: Scene) -> None:
    """Rehearsed, made, repeated; and one whose external id belonged to a job that has ended."""
    w = scene.w
    up = w.job()
    body = plan(scene, "PLAN", up)
    w.ok("POST", "P/plans", {**body, "dry_run": True})
    made = w.ok("POST", "P/plans", body, key="plan")["jobs"]
    w.ok("POST", "P/plans", body, key="plan")
    scene.owner("POST", f"P/jobs/{made['after']}/cancel", {"reason": "enough"})
    again = {"ref": "again", "summary": "a", "role": "developer", "external_id": "PLAN-1", "blocked_by": [up]}
    again |= {"independent": True, "context": large(21)}
    with pytest.MonkeyPatch.context() as patch:
        # An upstream from outside ends while the plan becomes real.
        patch.setattr(plans, "make_real", during(plans.make_real, lambda: complete(scene, up)))
        w.ok("POST", "P/plans", {"jobs": [again]})
    scene.pump()


def during(make_real: Any, others: Any) -> Any:
    """``make_real``, with what others do between its reading and its looking again."""
    look_again = plans.making.look_again

    def wrapped(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:

            def late(*given: Any) -> Any:
                nonlocal others
                if others is not None:
                    work, others = others, None
                    work()
                return look_again(*given)

            patch.setattr(plans.making, "look_again", late)
            make_real(*arguments)

    return wrapped


def unfinished_plan(scene: Scene) -> None:
    """Whoever made the plan died after its commit: the consumer makes its jobs."""
    w = scene.w
    up = w.job()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "make_real", lambda *_: None)
        made = w.ok("POST", "P/plans", plan(scene, "LEFT", up))
    assert w.call("GET", f"P/jobs/{made['jobs']['after']}").status == 404
    scene.pump()
    assert w.get(made["jobs"]["after"])["status"] == "pending"
    scene.owner("POST", "P/repair", {"entity": f"plan/{made['plan']}"})
    complete(scene, up)
    scene.pump()


def reviewed(scene: Scene) -> None:
    """Two reviewers send one job back; the retry of the second has ended by then. A job of many documents."""
    w = scene.w
    work = w.job(context=large(14))
    reviewers = [w.job(role="qa", blocked_by=[work], context=large(15)) for _ in range(3)]
    complete(scene, work)
    scene.pump()
    fences = {job: w.claim(job) for job in reviewers}

    def reject(reviewer: str) -> str:
        body = {"fence": fences[reviewer], "target": work, "reason": "not yet"}
        return str(w.ok("POST", f"P/jobs/{reviewer}/reject", body, key=f"reject-{reviewer}")["retry"]["id"])

    retry = reject(reviewers[0])
    assert reject(reviewers[0]) == retry, "a repeat"
    assert reject(reviewers[1]) == retry
    w.clock.advance(600)
    w.ok("GET", f"P/jobs/{retry}/reopen-context")
    fence = w.claim(retry)
    w.clock.advance(600)
    w.ok("GET", f"P/jobs/{retry}/reopen-context")
    w.ok("POST", f"P/jobs/{retry}/complete", {"fence": fence})
    assert reject(reviewers[2]) == retry
    scene.pump()
    assert {w.get(job)["status"] for job in reviewers} == {"published"}


def followed(scene: Scene) -> None:
    """Jobs that follow from an ended one by its rules."""
    w = scene.w
    rules = [
        {"role": "qa", "summary": "Check it", "context": dense(16)},
        {"role": "qa", "summary": "Mend it", "on": "failed"},
    ]
    job = w.job(routing=rules, context=large(17))
    complete(scene, job)
    scene.pump()
    (child,) = w.ok("GET", "P/jobs", query={"parent": job})["items"]
    assert child["role"] == "qa"


def timed(scene: Scene) -> None:
    """Its time comes after its upstream has ended; who worked upstream may not take it."""
    w = scene.w
    up = w.job()
    down = w.job(blocked_by=[up], not_before="2027-06-01T00:00:00Z", independent=True, context=large(18))
    complete(scene, up)
    scene.pump()
    assert w.get(down)["status"] == "pending"
    while w.get(down)["status"] == "pending":
        w.clock.advance(86_400)
        w.enrol(f"a{w.clock.now}")
        scene.pump()


def redriven(scene: Scene) -> None:
    """Messages of every consumer that ended as dead letters."""
    w = scene.w
    up, many = w.job(), w.job()
    down = w.job(blocked_by=[up])
    downs = [w.job(blocked_by=[many]) for _ in range(WIDE)]
    complete(scene, up, many)
    ruled = w.job(routing=[{"role": "qa", "summary": "Check it", "context": dense(19)}], context=large(20))
    complete(scene, ruled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "make_real", lambda *_: None)
        made = w.ok("POST", "P/plans", plan(scene, "DEAD", w.job()))
    with scene.spy.during("Dispatch"):
        w.dispatch()
    spread = {"kind": "spread", "project": "default"}
    queues = w.engine.store.queues
    queues.send("barrier-dead", [({**spread, "job": up}, 0), ({**spread, "job": many}, 0)])
    queues.send("barrier-dead", [({"kind": "gather", "project": "default", "job": down}, 0)])
    queues.send("barrier-dead", [({"kind": "plan", "project": "default", "plan": made["plan"]}, 0)])
    queues.send("routing-dead", [({"kind": "route", "project": "default", "job": ruled}, 0)])
    for queue, there in (("barrier-dead", 4), ("routing-dead", 1)):
        done = scene.owner("POST", "/v1/dead-letters/redrive", {"queue": queue})
        assert (done["redriven"], done["failed"]) == (there, 0)
    assert w.get(down)["status"] == "published"
    assert w.get(made["jobs"]["after"])["status"] == "pending"
    scene.pump()
    assert {w.get(job)["status"] for job in downs} == {"published"}
