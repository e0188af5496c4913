"""Races for agents that are stopped, missed and back; and processes that die while they handle such messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.model.test_crashes import Case, judge
from tests.sim import oracle
from tests.sim.hands import REASON, Hand, answers, messengers, rest, statuses, team, told
from tests.sim.race import Race, Sent, explore
from tests.sim.services import serve_changes, serve_messages
from tests.sim.world import World

from interlock.app import timers
from interlock.domain.identity import Agent
from interlock.domain.lifecycle import HELD
from interlock.domain.presence import Presence

AFTER = {"publish": "published", "fail": "failed", "cancel": "cancelled"}


def stop(race: Race, agent: str, then: str = "publish", name: str = "stop", **more: Any) -> Sent:
    """An owner who stops the agent."""
    body = {"reason": more.pop("reason", "r"), "then": then}
    return race.calls(name, "POST", f"P/agents/{agent}/stop", body, token="owner", **more)


def resume(race: Race, agent: str, name: str = "resume") -> Sent:
    """An owner who lets it go on."""
    return race.calls(name, "POST", "P/resume", {"agent": agent}, token="owner")


def events(w: World, agent: str, kind: str = "agent") -> list[str]:
    """What the ledger says of the agent, or of its presence."""
    return [event["type"] for event in oracle.memory(w).events.get(f"default#{kind}#{agent}", [])]


def is_stopped(w: World, agent: str) -> bool:
    """Whether it is stopped now."""
    head = oracle.memory(w).heads[f"default#agent#{agent}"]
    assert isinstance(head, Agent)
    return head.stop is not None


def is_missed(w: World, agent: str) -> bool:
    """Whether it is missed now."""
    head = oracle.memory(w).heads.get(f"default#presence#{agent}")
    return isinstance(head, Presence) and head.stale_at is not None


def held(w: World, agent: str) -> list[str]:
    """The jobs that it holds."""
    return [job.id for job in oracle.memory(w).jobs if job.status in HELD and job.assignee == agent]


def at_last(race: Race) -> None:
    """The bus at rest, after the last call for claims of a stopped agent."""
    rest(race)
    race.w.clock.advance(31)
    rest(race)


# ---- stops


def a_stop_against_claims(race: Race) -> None:
    """Claims that were let in before the stop are caught, by it or by its timer; none begins after its answer."""
    w, then = race.w, race.rng.choice(list(AFTER))
    bob = w.enrol("bob")
    jobs = [w.job() for _ in range(4)]
    first = Hand(race, jobs[0], "bob").take()
    w.ok("POST", f"P/jobs/{first.job}/fail", {"fence": first.fence, **REASON}, token="bob")
    sent = [
        race.calls("claim", "POST", f"P/jobs/{jobs[1]}/claim", {}, token="bob"),
        race.calls("next", "POST", "P/claims", {}, token="bob", key="k"),
        race.calls("restart", "POST", f"P/jobs/{first.job}/restart", {}, token="bob"),
    ]
    stopped = stop(race, bob, then)
    messengers(race)
    race.run()
    assert stopped.status == 200
    # claim-next may take the very job
    assert set(answers(sent)) <= {200, "stop_requested", "already_claimed"}, [str(s) for s in sent]
    assert all(s.code == "stop_requested" for s in sent if s.began > stopped.ended), (
        "it began after the answer"
    )
    at_last(race)
    assert held(w, bob) == []
    for s in sent:
        if s.status == 200 and s.reply.body["job"]:
            job = s.reply.body["job"]["id"]
            assert statuses(race, [job]) == [AFTER[then]]
            assert told(race, job)["job.stopped"] == 1
    assert w.call("POST", "P/claims", {}, token="bob").code == "stop_requested"
    assert events(w, bob).count("agent.stopped") == 1


def a_stop_against_what_its_holder_does(race: Race) -> None:
    """A job that has just ended is left as it is; a beat keeps nothing; whoever lost learns that it was stopped."""
    w, then = race.w, race.rng.choice(list(AFTER))
    bob = w.enrol("bob")
    hands = [Hand(race, w.job(lease_seconds=90), "bob").take() for _ in range(3)]
    verbs = [race.rng.choice(["complete", "fail", "release", "block"]) for _ in hands]
    w.clock.advance(50)
    sent = []
    for hand, verb in zip(hands, verbs, strict=True):
        body = {"fence": hand.fence, **(REASON if verb in ("fail", "block") else {})}
        sent.append(race.calls(verb + hand.job, "POST", f"P/jobs/{hand.job}/{verb}", body, token="bob"))
    fences = [{"id": hand.job, "fence": hand.fence} for hand in hands]
    beat = race.calls("beat", "POST", "P/heartbeat", {"jobs": fences}, token="bob")
    stopped = stop(race, bob, then)
    messengers(race)
    race.run()
    assert (stopped.status, beat.status) == (200, 200)
    at_last(race)
    ends = {"complete": "completed", "fail": "failed", "release": "published", "block": AFTER[then]}
    for hand, verb, s in zip(hands, verbs, sent, strict=True):
        assert s.status == 200 or s.code == "stop_requested", str(s)
        wanted = ends[verb] if s.status == 200 else AFTER[then]
        assert statuses(race, [hand.job]) == [wanted]
        taken = s.status != 200 or verb == "block"
        assert told(race, hand.job)["job.stopped"] == taken
    after = w.ok("POST", "P/heartbeat", {"jobs": fences}, token="bob")["claims"]
    codes = {claim["job"]: claim["stop"]["code"] for claim in after}
    for hand, verb, s in zip(hands, verbs, sent, strict=True):
        by_owner = s.status != 200 or verb == "block"
        assert codes[hand.job] == ("stop_requested" if by_owner else "lease_lost")


def a_stop_against_a_resume(race: Race) -> None:
    """Whatever it claims after an owner let it go on is its own, however late the rest of the stop is. What it held
    before it may keep, if the owner was that fast."""
    w = race.w
    bob = w.enrol("bob")
    old, new = w.job(), [w.job() for _ in range(3)]
    w.claim(old, token="bob")
    if race.rng.random() < 0.5:
        w.ok("POST", "P/pause", {"agent": bob}, token="owner")
    stopped = stop(race, bob)
    kept: dict[str, int] = {}

    def goes_on() -> None:
        """An owner who has seen that it is stopped lets it go on, and it works."""
        for _ in range(40):
            if w.ok("GET", f"P/agents/{bob}", token="owner")["agent"]["stop"]:
                break
        else:
            return
        w.ok("POST", "P/resume", {"agent": bob}, token="owner")
        for job in new:
            kept[job] = w.claim(job, token="bob")

    race.does("owner", goes_on)
    messengers(race)
    race.run()
    assert stopped.status == 200
    at_last(race)
    assert {*held(w, bob)} - {old} == kept.keys(), "nothing of what it claimed since was taken away"
    for job, fence in kept.items():
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="bob")
    if not kept:
        assert held(w, bob) == []
    else:
        assert events(w, bob)[-2:] == ["agent.stopped", "agent.resumed"]
        assert not w.ok("GET", "P", token="owner")["project"]["paused"]


def two_resumes_and_a_stop(race: Race) -> None:
    """Each is whole: an agent that is stopped at the end was stopped last, and resumed at most as often as stopped."""
    w = race.w
    bob = w.enrol("bob")
    w.ok("POST", "P/pause", {"agent": bob}, token="owner")
    w.ok("POST", f"P/agents/{bob}/stop", {"reason": "r0"}, token="owner")
    sent = [resume(race, bob, f"resume{n}") for n in range(2)]
    sent.append(stop(race, bob, reason="r1"))
    messengers(race)
    race.run()
    assert answers(sent) == {200: 3}
    at_last(race)
    seen = events(w, bob)[1:]
    assert seen.count("agent.resumed") <= seen.count("agent.stopped") == 2
    assert is_stopped(w, bob) == (seen[-1] == "agent.stopped")
    assert not w.ok("GET", "P", token="owner")["project"]["paused"]


def stopped_twice(race: Race) -> None:
    """Two owners who mean the same are one stop; twins of one call are one, too; others change what it says."""
    w = race.w
    bob = w.enrol("bob")
    jobs = [w.job() for _ in range(3)]
    for job in jobs:
        w.claim(job, token="bob")
    kind = race.rng.choice(["same", "twins", "other"])
    keys = {"twins": "k"}
    sent = [
        stop(race, bob, "fail" if n and kind == "other" else "publish", f"stop{n}", key=keys.get(kind))
        for n in range(3)
    ]
    messengers(race)
    race.run()
    assert answers(sent) == {200: 3}
    at_last(race)
    assert events(w, bob).count("agent.stopped") in ((2, 3) if kind == "other" else (1,))
    assert held(w, bob) == []
    assert {told(race, job)["job.stopped"] for job in jobs} == {1}
    assert set(statuses(race, jobs)) <= {"published", *(("failed",) if kind == "other" else ())}


def a_stop_against_a_retirement(race: Race) -> None:
    """Whichever comes first: it holds nothing in the end, and a retired agent is not stopped."""
    w = race.w
    bob = w.enrol("bob")
    jobs = [w.job() for _ in range(2)]
    w.claim(jobs[0], token="bob")
    claim = race.calls("claim", "POST", f"P/jobs/{jobs[1]}/claim", {}, token="bob")
    stopped = stop(race, bob)
    race.calls("retire", "DELETE", f"P/agents/{bob}", token="owner")
    messengers(race)
    race.run()
    assert stopped.code in (None, "wrong_state")
    assert claim.code in (None, "stop_requested", "token_revoked")
    at_last(race)
    assert held(w, bob) == []
    assert statuses(race, jobs) == ["published"] * 2


def a_stop_whose_process_dies(race: Race) -> None:
    """Before any of its store calls: once its mark is there, the agent's hands are emptied all the same."""
    w = race.w
    bob = w.enrol("bob")
    jobs = [w.job() for _ in range(3)]
    for job in jobs[:2]:
        w.claim(job, token="bob")
    stopped = stop(race, bob, "cancel")
    race.calls("claim", "POST", f"P/jobs/{jobs[2]}/claim", {}, token="bob")
    race.dies_at("stop", race.rng.randrange(1, 14))
    messengers(race)
    race.run()
    at_last(race)
    if stopped.status == 200 or is_stopped(w, bob):
        assert held(w, bob) == []
        assert statuses(race, jobs[:2]) == ["cancelled"] * 2
    else:
        assert statuses(race, jobs) == ["in_progress"] * 3


# ---- missed and back


def lapsed(race: Race, sessions: int = 1) -> tuple[str, list[Hand]]:
    """An agent whose leases have run out, so that timers are due."""
    w = race.w
    bob = w.enrol("bob", ("developer", "qa"))
    hands = [Hand(race, w.job(lease_seconds=30, max_retries=9), "bob").take() for _ in range(sessions)]
    w.dispatch()
    w.clock.advance(40)
    return bob, hands


def alternates(seen: list[str]) -> bool:
    """Missed and back take turns, and it begins with the one."""
    wanted = [("agent.stale", "agent.back")[n % 2] for n in range(len(seen))]
    return seen == wanted


def several_lapses_at_once(race: Race) -> None:
    """Messages of an agent's lapses come twice, late and in any order: it is missed once."""
    w = race.w
    bob, _ = lapsed(race, 3)
    race.dispatcher(rounds=6, chaos=True)
    for n in range(2):
        race.consumer(rounds=6, chaos=True, name=f"consumer{n}")
    race.run()
    rest(race)
    assert events(w, bob, "presence") in ([], ["agent.stale"]), "a message may have been lost"
    if events(w, bob, "presence"):
        assert is_missed(w, bob)


def beats_against_a_lapse(race: Race) -> None:
    """It beats, asks for work and claims while its lease is found lapsed; with its next beat it is there in any case."""
    w = race.w
    bob, (hand,) = lapsed(race)
    other = w.job()

    def lives() -> None:
        for _ in range(3):
            kind = race.rng.choice(["beat", "vain", "claim"])
            if kind == "beat":
                w.ok("POST", "P/heartbeat", {"session": "s"}, token="bob")
            elif kind == "vain":
                w.ok("POST", "P/claims", {"roles": ["qa"]}, token="bob")
            else:
                w.call("POST", f"P/jobs/{other}/claim", {"session": "s"}, token="bob")
            race.schedule.step("a second passes")
            w.clock.advance(1)

    race.does("bob", lives)
    race.dispatcher(rounds=5)
    race.consumer(rounds=5)
    race.consumer(rounds=5, name="consumer2")
    race.run()
    rest(race)
    assert alternates(events(w, bob, "presence")), events(w, bob, "presence")
    w.clock.advance(11)
    w.ok("POST", "P/heartbeat", {}, token="bob")
    w.pump()
    seen = events(w, bob, "presence")
    assert alternates(seen), seen
    assert not is_missed(w, bob), seen
    assert hand.job not in held(w, bob) or told(race, hand.job)["job.lease_expired"] in (0, 1)


def beats_that_come_at_once(race: Race) -> None:
    """An agent that is missed beats in many sessions at once: it is back once."""
    w = race.w
    bob, _ = lapsed(race)
    w.pump()
    assert events(w, bob, "presence") == ["agent.stale"]
    w.clock.advance(1)
    sent = [
        race.calls(f"beat{n}", "POST", "P/heartbeat", {"session": f"s{n}"}, token="bob") for n in range(4)
    ]
    sent.append(race.calls("vain", "POST", "P/claims", {"roles": ["qa"]}, token="bob"))
    messengers(race)
    race.run()
    assert answers(sent) == {200: 5}
    rest(race)
    assert events(w, bob, "presence") == ["agent.stale", "agent.back"]


def late_messages_against_one_that_is_back(race: Race) -> None:
    """Messages of a lapse that come hours late, twice, among beats: it stays back."""
    w = race.w
    bob, (hand,) = lapsed(race)
    body = {"kind": "stale", "project": "default", "job": hand.job, "agent": bob, "at": w.clock.now}
    w.pump()
    w.clock.advance(race.rng.choice([1, 3 * 3_600]))
    w.ok("POST", "P/heartbeat", {}, token="bob")
    w.clock.advance(race.rng.choice([0, 5, 3 * 3_600]))
    w.bus.store.queues.send("lease", [(body, 0)] * 3)
    race.consumer(rounds=4)
    race.consumer(rounds=4, name="consumer2")
    race.calls("beat", "POST", "P/heartbeat", {}, token="bob")
    race.run()
    rest(race)
    assert events(w, bob, "presence") == ["agent.stale", "agent.back"]


def a_lapse_against_another_session(race: Race) -> None:
    """One session is dead; another one keeps its lease: the agent is not missed, whatever comes when."""
    w = race.w
    bob = w.enrol("bob")
    dead = Hand(race, w.job(lease_seconds=30, max_retries=9), "bob").take()
    alive = w.job(lease_seconds=90)
    w.claim(alive, token="bob", session="alive")
    w.dispatch()
    w.clock.advance(40)
    race.dispatcher(rounds=5, chaos=True)
    race.consumer(rounds=5, chaos=True)
    race.calls("beat", "POST", "P/heartbeat", {"session": "alive"}, token="bob")
    race.run()
    rest(race)
    assert events(w, bob, "presence") == []
    assert held(w, bob) == [alive] or dead.job in held(w, bob)


def a_lapse_against_a_stop(race: Race) -> None:
    """Who is stopped is not missed, once the stop is there; a lease ends once, by one of the two."""
    w = race.w
    bob, (hand,) = lapsed(race)
    stop(race, bob)
    race.dispatcher(rounds=5)
    race.consumer(rounds=5)
    race.run()
    seen = events(w, bob, "presence")
    at_last(race)
    ends = told(race, hand.job)
    assert ends["job.stopped"] + ends["job.lease_expired"] == 1
    assert events(w, bob, "presence") == seen or seen == []
    assert len(events(w, bob, "presence")) <= (ends["job.lease_expired"])


def a_day_of_troubles(race: Race) -> None:
    """Three agents work, are stopped, go on, are missed and come back, while processes die and store calls fail."""
    w, rng = race.w, race.rng
    names = team(race, 3, ("developer", "qa"), "bob")
    ids = {name: w.ok("GET", "P/me", token=name)["actor"]["id"] for name in names}
    jobs = [w.job(lease_seconds=30, max_retries=20) for _ in range(6)]
    race.trouble = 0.03

    def works(name: str) -> None:
        fences: dict[str, int] = {}
        for _ in range(6):
            reply = w.call("POST", "P/claims", {}, token=name, key=f"{name}{rng.randrange(1 << 40)}")
            if reply.status == 200 and reply.body["claim"]:
                fences[reply.body["job"]["id"]] = reply.body["claim"]["fence"]
            for job, fence in list(fences.items()):
                if rng.random() < 0.3:
                    w.call("POST", f"P/jobs/{job}/complete", {"fence": fence}, token=name)
            if rng.random() < 0.4:
                w.call("POST", "P/heartbeat", {}, token=name)

    def owner() -> None:
        for _ in range(6):
            agent = rng.choice(list(ids.values()))
            if rng.random() < 0.5:
                body = {"reason": "r", "then": rng.choice(["publish", "fail"])}
                w.call("POST", f"P/agents/{agent}/stop", body, token="owner")
            else:
                w.call("POST", "P/resume", {"agent": agent}, token="owner")

    for name in names:
        race.does(name, lambda name=name: works(name))
    race.does("owner", owner)
    race.clock(10, 25, 33, 10, 33)
    race.dispatcher(rounds=6)
    race.consumer(rounds=8)
    race.run()
    race.trouble = 0.0
    at_last(race)
    for agent in ids.values():
        assert not (is_stopped(w, agent) and held(w, agent))
        assert alternates(events(w, agent, "presence"))
        turns = Counter(events(w, agent))
        assert turns["agent.resumed"] <= turns["agent.stopped"]
    assert {told(race, job)["job.created"] for job in jobs} == {1}


STOPS: list[Any] = [
    a_stop_against_claims,
    a_stop_against_what_its_holder_does,
    a_stop_against_a_resume,
    two_resumes_and_a_stop,
    stopped_twice,
    a_stop_against_a_retirement,
    a_stop_whose_process_dies,
]
MISSED: list[Any] = [
    several_lapses_at_once,
    beats_against_a_lapse,
    beats_that_come_at_once,
    late_messages_against_one_that_is_back,
    a_lapse_against_another_session,
    a_lapse_against_a_stop,
    a_day_of_troubles,
]


@pytest.mark.parametrize("scenario", [*STOPS, *MISSED], ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 5)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*STOPS, *MISSED], ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 120)


# ---- processes that die while they handle messages


def stopped_at_the_last_moment(w: World) -> None:
    """The agent was stopped, and holds jobs all the same: the call that stopped it died."""
    bob = w.enrol("bob")
    for _ in range(2):
        w.claim(w.job(), token="bob")
    with patch.object(timers, "empty_hands", return_value=0):
        w.ok("POST", f"P/agents/{bob}/stop", {"reason": "r", "then": "fail"}, token="owner")
    w.dispatch()
    w.clock.advance(31)


def lost_its_lease(w: World, *, known: bool = False) -> None:
    """An agent is to be missed; ``known``: not for the first time."""
    w.enrol("bob")
    for turn in range(2 if known else 1):
        w.claim(w.job(lease_seconds=30), token="bob")
        w.pump()
        w.clock.advance(40)
        if known and not turn:
            w.pump()
            w.clock.advance(1)
            w.ok("POST", "P/heartbeat", {}, token="bob")
    w.consume("lease")
    w.dispatch()


def claimed_again(w: World) -> None:
    """An agent that was missed has claimed: the timer of its claim is due."""
    lost_its_lease(w)
    w.pump()
    job = w.job(lease_seconds=600)
    w.clock.advance(1)
    w.claim(job, token="bob")
    w.pump()
    w.clock.advance(500)
    w.ok("GET", f"P/jobs/{job}", token="bob")
    w.clock.advance(104)


CONSUMED: dict[str, Callable[[World], None]] = {
    "stopped at the last moment": stopped_at_the_last_moment,
    "missed": lost_its_lease,
    "missed again": lambda w: lost_its_lease(w, known=True),
    "back with a claim": claimed_again,
}


@pytest.mark.parametrize("name", CONSUMED)
def test_consumer(name: str) -> None:
    judge(Case(CONSUMED[name], lambda w, _: serve_messages(w)))


def test_dispatcher() -> None:
    def lapse(w: World) -> None:
        bob = w.enrol("bob")
        w.claim(w.job(lease_seconds=30), token="bob")
        w.pump()
        w.clock.advance(40)
        w.consume("lease")
        w.ok("POST", f"P/agents/{bob}/stop", {"reason": "r"}, token="owner")

    judge(Case(lapse, lambda w, _: serve_changes(w)))
