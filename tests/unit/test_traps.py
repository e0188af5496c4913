"""Traps that a hostile newcomer walked into: ways to be misled."""

from __future__ import annotations

from tests.sim.world import world

from interlock.domain import ledger


def test_nobody_can_claim_a_job_of_a_deleted_role_and_explain_says_so():
    w = world()
    job = w.job(role="ops")
    w.ok("DELETE", "P/roles/ops", token="owner")
    told = w.ok("GET", f"P/jobs/{job}/explain", token="owner")
    assert told["claimable"] is False
    assert [reason["code"] for reason in told["reasons"]] == ["wrong_role"]


def test_what_an_agent_held_is_invisible_again_once_it_has_ended():
    w = world()
    w.ok("POST", "P/roles", {"key": "extra", "label": "Extra"}, token="owner")
    w.enrol("solo", roles=("extra",))
    job = w.job(role="extra")
    fence = w.claim(job, token="solo")
    w.ok("DELETE", "P/roles/extra", token="owner")
    assert (
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="solo")["job"]["status"] == "completed"
    )
    assert w.call("GET", f"P/jobs/{job}", token="solo").status == 404
    assert w.call("POST", "P/jobs", {"summary": "x", "role": "qa"}, token="solo").code == "forbidden"


def test_every_copy_of_an_event_is_judged_and_numbers_begin_at_one():
    sealed = ledger.seal("job/x", 0, ledger.GENESIS, 1, {"kind": "system"}, [ledger.Fact("job.created")])
    (event,) = sealed.events
    altered = {**event, "data": {"added": True}}
    assert [found.kind for found in ledger.verify([event, altered])] == ["fork"]
    assert "broken" in [found.kind for found in ledger.verify([event, {**event, "seq": 0}])]
    assert ledger.verify([event, dict(event)]) == []


def test_the_feed_alone_is_its_last_hundred_and_a_limit_alone_begins_at_the_oldest():
    w = world()
    jobs = []
    for _ in range(120):
        jobs.append(w.job())
        w.dispatch()
        w.clock.advance(1)
    alone = w.ok("GET", "P/events", token="owner")
    assert [event["entity"] for event in alone["items"]] == [f"job/{job}" for job in jobs[-100:]]
    assert w.ok("GET", "P/events", token="owner", query={"after": alone["next_cursor"]})["items"] == []
    oldest = w.ok("GET", "P/events", token="owner", query={"limit": 5})
    assert oldest["more"]
    assert not {event["entity"] for event in oldest["items"]} & {f"job/{job}" for job in jobs[-100:]}


def test_on_a_busy_board_a_late_lease_is_found_wherever_it_stands():
    w = world()
    for _ in range(150):
        w.claim(w.job(), lease_seconds=86_400)
    w.clock.advance(1)
    late = w.job()
    w.claim(late, lease_seconds=30)
    w.clock.advance(100)  # no timer fires here: the dispatcher has not run
    for _ in range(60):
        found = w.ok("POST", "P/claims", {})["job"]
        if found:
            break
    assert found is not None
    assert found["id"] == late
