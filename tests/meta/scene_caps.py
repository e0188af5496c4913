"""The part of the scene that concerns caps on claims: slots that nobody had, that others left, and of lapsed leases."""

from __future__ import annotations

from tests.meta.scene import Scene
from tests.sim.requests_caps import cap, capped, held

KINDS = ("agent", "role", "project")


def caps(scene: Scene) -> None:
    """Claims, claim-next and restarts under every cap; afterwards there is none again."""
    w = scene.w
    capped(w)
    taken_back(scene)
    late, _ = held(w, lease_seconds=30)
    w.clock.advance(40)
    job = w.ok("POST", "P/claims", {"roles": ["developer"]}, key="under caps")["job"]["id"]
    assert job == late or w.get(late)["status"] == "published"
    assert w.call("POST", f"P/jobs/{w.job()}/claim", {}).code == "cap_reached"
    scene.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
    for kind in KINDS:
        cap(w, kind, None)
    scene.pump()


def taken_back(scene: Scene) -> None:
    """A failed job is restarted into a slot, and takes its external id back from one that has ended."""
    w = scene.w
    job, fence = held(w, external_id="TICKET-2")
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "broken"})
    other = w.job(external_id="TICKET-2")
    scene.owner("POST", f"P/jobs/{other}/cancel", {"reason": "enough"})
    fence = w.ok("POST", f"P/jobs/{job}/restart", {})["claim"]["fence"]
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
