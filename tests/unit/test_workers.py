"""Workers: who is there, what it holds, when it was last seen, and when it is missed and back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.sim import oracle
from tests.unit.checked import CheckedWorld, checked

from interlock.app import workers
from interlock.app.consumers import CONSUMERS
from interlock.domain import limits
from interlock.local.pulse import Pulse
from interlock.store import keys
from interlock.store.ports import Query

BEATS = {"heartbeat_seconds": 30}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def worker(w: CheckedWorld, agent: str, token: str = "owner") -> dict[str, Any]:
    """The agent, as a worker."""
    found = w.ok("GET", "P/workers", token=token, query={"limit": 100})["items"]
    return dict(next(each for each in found if each["agent"] == agent))


def told(w: CheckedWorld, agent: str) -> list[str]:
    """What the ledger says of the agent's presence, oldest first."""
    w.dispatch()
    events = oracle.memory(w).events.get(f"default#presence#{agent}", [])
    return [event["type"] for event in events]


def missed(w: CheckedWorld, name: str = "bob", **claim: Any) -> tuple[str, str]:
    """(an agent that is missed, the job whose lease it let lapse)."""
    agent, job = w.enrol(name), w.job(lease_seconds=30, max_retries=9)
    w.claim(job, token=name, **claim)
    w.pump()
    w.clock.advance(40)
    w.pump()
    assert told(w, agent) == ["agent.stale"]
    return agent, job


def beat(w: CheckedWorld, token: str = "bob", **body: Any) -> Any:
    """A heartbeat."""
    return w.ok("POST", "P/heartbeat", body, token=token)


# ---- what is shown


def test_an_agent_that_was_never_there(w: CheckedWorld) -> None:
    bob = w.enrol("bob", ("developer", "qa"))
    assert worker(w, bob) == {
        "agent": bob, "label": "bob", "roles": ["developer", "qa"], "state": "idle", "last_seen": None,
        "seconds_since_seen": None, "session": None, "beats_missed": 0, "holds": [], "holds_more": False,
        "stale_since": None, "stop": None,
    }  # fmt: skip


def test_one_that_works(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job(summary="Count")
    w.claim(job, token="bob", session="terminal 3", **BEATS)
    w.clock.advance(75)
    shown = worker(w, bob)
    assert shown["holds"] == [
        {"job": job, "summary": "Count", "role": "developer", "status": "in_progress", "fence": 1, "expires_in": 15}
    ]  # fmt: skip
    assert (shown["state"], shown["beats_missed"], shown["session"]) == ("working", 2, "terminal 3")
    assert (shown["last_seen"], shown["seconds_since_seen"]) == ("2026-11-30T21:00:00.000Z", 75)


def test_beats_count_from_the_last_renewal_and_only_where_they_were_promised(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    w.claim(w.job(), token="bob", **BEATS)
    w.claim(w.job(), token="bob")
    w.clock.advance(65)
    assert worker(w, bob)["beats_missed"] == 2
    beat(w)
    assert worker(w, bob)["beats_missed"] == 0
    w.clock.advance(29.9)
    assert worker(w, bob)["beats_missed"] == 0


def test_any_renewal_is_a_sign_of_life(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    w.claim(job, token="bob", lease_seconds=300)
    w.clock.advance(200)
    w.ok("GET", f"P/jobs/{job}", token="bob")
    assert worker(w, bob)["seconds_since_seen"] == 0


def test_being_unblocked_is_no_sign_of_life_of_the_holder(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    fence = w.claim(job, token="bob")
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"}, token="bob")
    w.clock.advance(100)
    w.ok("POST", f"P/jobs/{job}/unblock", {"reason": "r"}, token="owner")
    assert worker(w, bob)["seconds_since_seen"] == 100
    w.clock.advance(50)
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence}, token="bob")
    assert worker(w, bob)["seconds_since_seen"] == 0


def test_states(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob", ("developer", "qa")), w.job(lease_seconds=30)

    def state() -> str:
        return str(worker(w, bob)["state"])

    assert state() == "idle"
    w.claim(job, token="bob")
    assert state() == "working"
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")
    assert state() == "working", "it may still claim for another role"
    for target in ({"role": "developer"}, {"agent": bob}, {"project": True}):
        w.ok("POST", "P/pause", target, token="owner")
        assert state() == "paused"
        w.ok("POST", "P/resume", target, token="owner")
        assert state() == "working"
    w.clock.advance(33)
    assert state() == "stale", "its lease has lapsed, though nobody has ended it yet"
    w.ok("POST", f"P/agents/{bob}/stop", {"reason": "it loops"}, token="owner")
    assert state() == "paused"
    assert worker(w, bob)["stop"]["reason"] == "it loops"


def test_retired_agents_are_left_out_unless_they_hold_something(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    w.claim(w.job(), token="bob")
    w.ok("DELETE", f"P/agents/{bob}", token="owner")
    found = w.ok("GET", "P/workers", token="owner")["items"]
    assert bob not in [each["agent"] for each in found]


def test_pages_by_id(w: CheckedWorld) -> None:
    made = []
    for n in range(7):
        w.clock.advance(1)
        made.append(w.enrol(f"a{n}"))
        for _ in range(n % 3):
            w.claim(w.job(), token=f"a{n}")
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        query = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = w.ok("GET", "P/workers", token="owner", query=query)
        found += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            break
    shown = {each["agent"]: len(each["holds"]) for each in found}
    assert len(found) == len(shown) == 8
    assert [shown[agent] for agent in made] == [0, 1, 2, 0, 1, 2, 0]
    assert list(shown) == sorted(shown)


def test_one_range_of_the_index_says_what_a_page_of_agents_holds(
    w: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(9):
        w.enrol(f"a{n}")
        w.claim(w.job(), token=f"a{n}")
    table, query, asked = w.bus.store.table, w.bus.store.table.query, list[Query]()
    monkeypatch.setattr(type(table), "query", staticmethod(lambda q: asked.append(q) or query(q)))
    w.ok("GET", "P/workers", token="owner")
    assert [q.pk for q in asked].count(keys.live_partition("default")) == 1
    assert len(asked) == 2


@pytest.mark.parametrize("rows", [1, 4, 5, 1_000])
def test_whoever_holds_more_than_is_shown_hides_nobody(
    w: CheckedWorld, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(workers, "ROWS", rows)
    names = ["a", "b", "c", "d"]
    agents = []
    for name, count in zip(names, (2, workers.SHOWN + 5, 0, 1), strict=True):
        w.clock.advance(1)
        agents.append(w.enrol(name))
        for _ in range(count):
            w.claim(w.job(), token=name)
    found = {each["agent"]: each for each in w.ok("GET", "P/workers", token="owner")["items"]}
    a, b, c, d = (found[agent] for agent in agents)
    assert [each["state"] for each in (a, b, c, d)] == ["working", "working", "idle", "working"]
    assert b["holds_more"]
    assert len(d["holds"]) == 1
    assert not c["holds_more"]
    if rows >= 4:
        assert len(b["holds"]) >= min(rows - 2, workers.SHOWN)
        assert (len(a["holds"]), a["holds_more"]) == (2, False)


def test_agents_see_each_other_and_of_jobs_only_what_they_may(w: CheckedWorld) -> None:
    bob = w.enrol("bob", ("developer",))
    w.enrol("eve", ("qa",))
    w.enrol("nobody", ("reviewer",))
    w.ok("DELETE", "P/roles/reviewer", token="owner")
    job = w.job()
    w.claim(job, token="bob")
    assert [each["job"] for each in worker(w, bob, "eve")["holds"]] == [job]
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    hidden = worker(w, bob, "eve")
    assert (hidden["holds"], hidden["state"]) == ([], "working")
    assert [each["job"] for each in worker(w, bob, "bob")["holds"]] == [job]
    assert [each["job"] for each in worker(w, bob)["holds"]] == [job]
    w.refused("forbidden", "GET", "P/workers", token="nobody")


# ---- signs of life


def test_a_beat_is_written_down_every_ten_seconds_and_a_vain_claim_every_minute(w: CheckedWorld) -> None:
    bob = w.enrol("bob")

    def written(seconds: float, path: str, **body: Any) -> bool:
        w.clock.advance(seconds)
        before = w.everything()
        w.ok("POST", path, body, token="bob")
        return w.everything() != before

    assert written(0, "P/heartbeat", session="s1")
    assert not written(9, "P/heartbeat", session="s1")
    assert written(1, "P/heartbeat", session="s2")
    assert worker(w, bob)["session"] == "s2"
    assert not written(59, "P/claims")
    assert worker(w, bob)["seconds_since_seen"] == 59
    assert written(1, "P/claims")
    assert worker(w, bob)["seconds_since_seen"] == 0
    assert told(w, bob) == [], "no event, no version"
    assert w.dispatch() == 0


def test_the_latest_sign_counts(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job()
    beat(w, session="first")
    w.clock.advance(50)
    w.claim(job, token="bob", session="second")
    assert (worker(w, bob)["seconds_since_seen"], worker(w, bob)["session"]) == (0, "second")
    w.clock.advance(20)
    beat(w, session="third")
    assert (worker(w, bob)["seconds_since_seen"], worker(w, bob)["session"]) == (0, "third")


# ---- missed and back


def test_an_agent_whose_lease_lapses_is_missed_once(w: CheckedWorld) -> None:
    bob, job = missed(w)
    shown = worker(w, bob)
    assert (shown["state"], shown["stale_since"]) == ("stale", "2026-11-30T21:00:40.000Z")
    w.pump()
    event = oracle.memory(w).events[f"default#presence#{bob}"][0]
    assert event["actor"]["kind"] == "system"
    assert event["data"] == {"agent": bob, "job": job, "last_seen": None}
    feed = w.ok("GET", "P/events", token="owner", query={"last": 100})["items"]
    assert Counter(each["type"] for each in feed)["agent.stale"] == 1


SIGNS = {
    "beat": beat,
    "vain claim-next": lambda w: w.ok("POST", "P/claims", {"roles": ["qa"]}, token="bob"),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_it_is_back_with_its_next_call(w: CheckedWorld, sign: str) -> None:
    bob = w.enrol("bob", ("developer", "qa"))
    w.claim(w.job(lease_seconds=30), token="bob")
    w.pump()
    w.clock.advance(40)
    w.pump()
    w.clock.advance(1)
    SIGNS[sign](w)
    assert told(w, bob) == ["agent.stale", "agent.back"]
    assert worker(w, bob)["state"] == "idle"
    w.clock.advance(2)
    SIGNS[sign](w)
    assert told(w, bob) == ["agent.stale", "agent.back"], "once"


@pytest.mark.parametrize("way", ["claim", "claim-next"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_claim_brings_it_back_and_its_timer_says_so(w: CheckedWorld, way: str, ends: bool) -> None:
    """No claim reads or writes more for it."""
    bob, job = missed(w)
    w.clock.advance(1)
    if way == "claim":
        fence = w.claim(job, token="bob")
    else:
        fence = w.ok("POST", "P/claims", {}, token="bob")["claim"]["fence"]
    assert worker(w, bob)["state"] == "working"
    w.clock.advance(20)
    if ends:
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="bob")
    else:
        w.ok("GET", f"P/jobs/{job}", token="bob")
    w.pump()
    w.clock.advance(20)
    w.pump()
    assert told(w, bob) == ["agent.stale", "agent.back"]
    assert worker(w, bob)["stale_since"] is None


def test_who_resumes_what_it_held_before_is_back(w: CheckedWorld) -> None:
    bob, kept = w.enrol("bob"), w.job(lease_seconds=30)
    fence = w.claim(kept, token="bob")
    w.ok("POST", f"P/jobs/{kept}/block", {"fence": fence, "reason": "r"}, token="bob")
    w.claim(w.job(lease_seconds=30), token="bob")
    w.pump()
    w.clock.advance(40)
    w.pump()
    assert told(w, bob) == ["agent.stale"]
    w.clock.advance(10)
    w.ok("POST", f"P/jobs/{kept}/resume", {"fence": fence}, token="bob")
    assert worker(w, bob)["state"] == "working"
    w.dispatch()
    w.clock.advance(20)
    beats = w.ok("GET", f"P/jobs/{kept}", token="bob")
    assert beats["job"]["status"] == "in_progress"
    w.clock.advance(14)
    w.pump()
    assert told(w, bob) == ["agent.stale", "agent.back"]


def test_who_takes_its_own_lapsed_job_anew_is_not_missed(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job(lease_seconds=30)
    w.claim(job, token="bob")
    w.clock.advance(40)
    fence = w.claim(job, token="bob")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="bob")
    w.pump()
    assert told(w, bob) == []


def test_who_frees_its_own_lapsed_job_in_passing_is_not_missed(w: CheckedWorld) -> None:
    bob, job = w.enrol("bob"), w.job(lease_seconds=30)
    w.claim(job, token="bob")
    w.clock.advance(40)
    claim = w.ok("POST", "P/claims", {}, token="bob")
    assert claim["job"]["id"] == job
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": claim["claim"]["fence"]}, token="bob")
    w.pump()
    assert told(w, bob) == []


@pytest.mark.parametrize("late", [0, 30, 3 * 3_600])
def test_another_session_that_lives_counts(w: CheckedWorld, late: int) -> None:
    """The message of the lapse is late, doubled, or both."""
    bob, dead, alive = w.enrol("bob"), w.job(lease_seconds=30), w.job()
    w.claim(dead, token="bob", session="dead")
    w.claim(alive, token="bob", session="alive", lease_seconds=86_400)
    w.dispatch()
    w.clock.advance(40)
    w.consume()
    w.dispatch()
    w.clock.advance(late)
    (body,) = [body for _, _, body in oracle.memory(w).messages if body["kind"] == "stale"]
    w.bus.store.queues.send("lease", [(body, 0)] * 2)
    w.pump()
    assert w.get(dead)["status"] == "published"
    assert told(w, bob) == []


@pytest.mark.parametrize("late", [0, 3 * 3_600])
def test_late_and_doubled_messages_find_that_it_has_been_there_since(w: CheckedWorld, late: int) -> None:
    """An agent that has been there since the lapse is not missed for it any more."""
    bob, job = missed(w)
    body = {"kind": "stale", "project": "default", "job": job, "agent": bob, "at": w.clock.now}
    w.bus.store.queues.send("lease", [(body, 0)] * 3)
    w.pump()
    w.clock.advance(1)
    beat(w)
    w.clock.advance(late)
    w.bus.store.queues.send("lease", [(body, 0)] * 3)
    w.pump()
    assert told(w, bob) == ["agent.stale", "agent.back"]


@pytest.mark.parametrize("end", ["stopped", "retired"])
def test_who_was_stopped_or_retired_is_not_missed(w: CheckedWorld, end: str) -> None:
    bob, job = w.enrol("bob"), w.job(lease_seconds=30)
    w.claim(job, token="bob")
    w.dispatch()
    w.clock.advance(40)
    w.consume()
    w.dispatch()
    assert w.get(job)["status"] == "published"
    if end == "stopped":
        w.ok("POST", f"P/agents/{bob}/stop", {"reason": "r"}, token="owner")
    else:
        w.ok("DELETE", f"P/agents/{bob}", token="owner")
    w.pump()
    assert told(w, bob) == []


def test_several_leases_that_lapse_are_one_absence(w: CheckedWorld) -> None:
    bob, jobs = w.enrol("bob"), [w.job(lease_seconds=30) for _ in range(5)]
    for job in jobs:
        w.claim(job, token="bob")
    w.pump()
    w.clock.advance(40)
    w.pump()
    assert {w.get(job)["status"] for job in jobs} == {"published"}
    assert told(w, bob) == ["agent.stale"]


def test_a_lapse_that_fails_the_job_or_asks_counts_too(w: CheckedWorld) -> None:
    for number, on_expire in enumerate(("fail", "ask")):
        agent = w.enrol(f"a{number}")
        w.claim(w.job(lease_seconds=30, on_expire=on_expire), token=f"a{number}")
        w.pump()
        w.clock.advance(40)
        w.pump()
        assert told(w, agent) == ["agent.stale"]


# ---- sleep

TEAM = [f"w{n}" for n in range(5)]


@pytest.mark.parametrize("queued", ["running", "due", "received"])
def test_three_hours_of_sleep_cost_five_workers_nothing(w: CheckedWorld, queued: str) -> None:
    """The laptop is closed. ``due``: as it wakes, messages of leases that were to end are due; ``received``: they were
    handed out as it fell asleep, and are handled as it wakes."""
    pulse = Pulse(w.bus)
    pulse.beat()
    agents = {name: w.enrol(name) for name in TEAM}
    jobs = {name: w.job() for name in TEAM}
    fences = {name: w.claim(jobs[name], token=name, **BEATS) for name in TEAM}
    w.pump()
    for _ in range(3):
        for _ in range(3):
            w.clock.advance(10)
            pulse.beat()
        for name in TEAM:
            beat(w, name)
        w.pump()
    if queued != "running":
        w.clock.advance(3)
        pulse.beat()
    in_hand = w.bus.store.queues.receive("lease") if queued == "received" else []
    assert len(in_hand) == (5 if queued == "received" else 0)

    w.clock.advance(3 * 3_600)
    pulse.check()  # before anything is handled
    for message in in_hand:
        CONSUMERS["lease"](w.bus, message.body, message.receives)
    w.pump()
    for name in TEAM:
        assert worker(w, agents[name])["state"] == "working"
        assert worker(w, agents[name])["beats_missed"] == 0
    for turn in range(12):
        w.clock.advance(10)
        pulse.beat()
        if turn % 3 == 0:
            for name in TEAM:
                (claim,) = beat(w, name, jobs=[{"id": jobs[name], "fence": fences[name]}])["claims"]
                assert "stop" not in claim
        w.pump()
    for name in TEAM:
        w.ok("POST", f"P/jobs/{jobs[name]}/complete", {"fence": fences[name]}, token=name)
        w.pump()
        job = w.get(jobs[name])
        assert (job["status"], job["attempt"], job["retry_count"]) == ("completed", 1, 0)
        assert told(w, agents[name]) == []
    assert all("lease_expired" not in kind for name in TEAM for kind in w.types(jobs[name]))


def test_after_a_sleep_it_is_not_seen_in_the_future(w: CheckedWorld) -> None:
    pulse = Pulse(w.bus)
    pulse.beat()
    bob = w.enrol("bob")
    w.claim(w.job(), token="bob", **BEATS)
    w.clock.advance(3 * 3_600)
    pulse.check()
    shown = worker(w, bob)
    assert (shown["last_seen"], shown["seconds_since_seen"]) == ("2026-12-01T00:00:00.000Z", 0)


def test_a_worker_that_does_not_wake_is_missed_in_the_end(w: CheckedWorld) -> None:
    pulse = Pulse(w.bus)
    pulse.beat()
    bob, job = w.enrol("bob"), w.job()
    w.claim(job, token="bob", **BEATS)
    w.pump()
    w.clock.advance(3 * 3_600)
    pulse.check()
    w.pump()
    for _ in range(12):
        w.clock.advance(10)
        pulse.beat()
        w.pump()
    assert told(w, bob) == ["agent.stale"]
    assert w.get(job)["retry_count"] == 1


def test_limits_of_signs() -> None:
    assert (limits.SEEN_EVERY, limits.SEEN_IDLE) == (10_000, 60_000)
