"""Races of the bus itself: timers and records that come twice, late or never, pauses, roles, tokens, retirements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.race import Race, Sent, explore
from tests.sim.requests import at


def began_after(sent: list[Sent], answered: Sent) -> list[Sent]:
    """Those that began when the other call had been answered."""
    return [s for s in sent if s.began > answered.ended]


def won(sent: Sent) -> bool:
    """Whether the call took a job."""
    return sent.status == 200 and sent.reply.body.get("claim") is not None


def claimants(race: Race, jobs: list[str], names: list[str]) -> list[Sent]:
    """By id and from the board."""
    sent = []
    for n, name in enumerate(names):
        path = f"P/jobs/{jobs[n % len(jobs)]}/claim" if n % 2 else "P/claims"
        sent.append(race.calls(f"claim{n}", "POST", path, {}, token=name))
    return sent


def enrolled(race: Race, count: int) -> list[str]:
    """So many developers, by name."""
    names = [f"agent{n}" for n in range(count)]
    for name in names:
        race.w.enrol(name)
    return names


def only_job(race: Race, status: str) -> Any:
    """The only job there is; it must have the status."""
    (job,) = oracle.memory(race.w).jobs
    assert job.status == status
    return job


# ---- who may


def pauses_against_claims(race: Race) -> None:
    """A claim that starts after the pause's answer gets nothing, until work goes on."""
    w = race.w
    names = enrolled(race, 6)
    jobs = [w.job() for _ in range(6)]
    target = race.rng.choice([{"project": True}, {"role": "developer"}])
    sent = claimants(race, jobs, names)
    pause = race.calls("owner", "POST", "P/pause", target, token="owner")
    race.run()
    late = began_after(sent, pause)
    assert not [s for s in late if won(s)]
    assert {s.code for s in late if s.path != "P/claims"} <= {"paused", "already_claimed"}
    w.ok("POST", "P/resume", target, token="owner")
    race.settle()
    left = sum(1 for job in oracle.memory(w).jobs if job.status == "published")
    more = [w.ok("POST", "P/claims", {}, token=names[0])["job"] for _ in range(left + 1)]
    assert [job is None for job in more] == [False] * left + [True]


def a_pause_and_its_end(race: Race) -> None:
    """Twins and opposites: pauses and resumes of several things at once lose none of each other."""
    w = race.w
    for role in ("qa", "ops"):
        race.calls(f"pause {role}", "POST", "P/pause", {"role": role}, token="owner")
    race.calls("twin", "POST", "P/pause", {"role": "qa"}, token="owner")
    race.calls("off", "POST", "P/pause", {"role": "reviewer"}, token="owner")
    race.calls("on", "POST", "P/resume", {"role": "reviewer"}, token="owner")
    race.calls("edit", "PATCH", "P", {"settings": {"lease_seconds": 60}}, token="owner")
    race.run()
    project = w.ok("GET", "P", token="owner")["project"]
    assert {p["target"] for p in project["paused"]} - {"role:reviewer"} == {"role:qa", "role:ops"}
    assert project["settings"]["lease_seconds"] == 60


def roles_made_and_deleted(race: Race) -> None:
    """Of two makers of one role one succeeds, roles made at once are all there, a deleted one takes no new jobs."""
    w = race.w
    makers = [
        race.calls(f"maker{n}", "POST", "P/roles", {"key": "writer", "label": f"W{n}"}, token="owner")
        for n in range(2)
    ]
    others = [
        race.calls(f"other{n}", "POST", "P/roles", {"key": f"role{n}", "label": "R"}, token="owner")
        for n in range(3)
    ]
    gone = race.calls("deleter", "DELETE", "P/roles/qa", token="owner")
    jobs = [race.calls(f"job{n}", "POST", "P/jobs", {"summary": "s", "role": "qa"}) for n in range(3)]
    race.run()
    assert Counter(s.code or s.status for s in makers) == {201: 1, "already_exists": 1}
    assert {s.status for s in others} == {201}
    assert gone.status == 200
    assert {s.code for s in began_after(jobs, gone)} <= {"unknown_role"}
    roles = w.ok("GET", "P", token="owner")["project"]["roles"]
    assert set(roles) == {"developer", "reviewer", "ops", "writer", "role0", "role1", "role2"}


def an_agent_that_loses_its_role(race: Race) -> None:
    """What began after the answer is judged by the new roles."""
    w = race.w
    agent = w.enrol("bob", ("developer", "qa"))
    jobs = [w.job() for _ in range(3)]
    sent = [
        race.calls(f"claim{n}", "POST", f"P/jobs/{job}/claim", {}, token="bob") for n, job in enumerate(jobs)
    ]
    edit = race.calls("owner", "PATCH", f"P/agents/{agent}", {"roles": ["qa"]}, token="owner")
    race.run()
    assert {s.code for s in began_after(sent, edit)} <= {"wrong_role"}


def tokens_revoked_and_rotated(race: Race) -> None:
    """A token ends with the answer; of many rotations of one token one makes the next."""
    w = race.w
    agent = w.enrol("bob")
    first = w.ok("GET", f"P/agents/{agent}", token="owner")["agent"]["tokens"][0]["id"]
    rotate = race.rng.random() < 0.5
    path = f"P/agents/{agent}/tokens/{first}"
    if rotate:
        ends = [
            race.calls(f"rotate{n}", "POST", f"{path}/rotate", {"grace_seconds": 0}, token="owner")
            for n in range(2)
        ]
    else:
        ends = [race.calls(f"revoke{n}", "DELETE", path, token="owner") for n in range(2)]
    sent = [race.calls(f"me{n}", "GET", "P/me", token="bob") for n in range(6)]
    race.run()
    assert Counter(s.code or s.status for s in ends) == ({201: 1, "wrong_state": 1} if rotate else {200: 2})
    done = min((s for s in ends if s.status < 300), key=lambda s: s.ended)
    assert {s.code for s in began_after(sent, done)} <= {"token_revoked"}
    if rotate:
        assert w.call("GET", "P/me", token=done.reply.body["token"]).status == 200


def tokens_up_to_the_limit(race: Race) -> None:
    w = race.w
    agent = w.enrol("bob")
    for _ in range(7):
        w.ok("POST", f"P/agents/{agent}/tokens", {}, token="owner")
    sent = [
        race.calls(f"t{n}", "POST", f"P/agents/{agent}/tokens", {}, token="owner", key=f"{n}")
        for n in range(5)
    ]
    race.run()
    assert Counter(s.code or s.status for s in sent) == {201: 2, "limit_reached": 3}


def a_retired_agent_lets_go(race: Race) -> None:
    """Retired while it claims, blocks and completes: in the end it holds nothing, nor can it ever again."""
    w = race.w
    agent = w.enrol("bob")
    jobs = [w.job(lease_seconds=86_400) for _ in range(6)]
    fences = [w.claim(job, token="bob") for job in jobs[:2]]
    work = [
        race.calls(
            "block", "POST", f"P/jobs/{jobs[0]}/block", {"fence": fences[0], "reason": "r"}, token="bob"
        ),
        race.calls("done", "POST", f"P/jobs/{jobs[1]}/complete", {"fence": fences[1]}, token="bob"),
        *(
            race.calls(f"claim{n}", "POST", f"P/jobs/{job}/claim", {}, token="bob")
            for n, job in enumerate(jobs[2:])
        ),
        race.calls("next", "POST", "P/claims", {}, token="bob"),
    ]
    gone = race.calls("owner", "DELETE", f"P/agents/{agent}", token="owner")
    race.dispatcher()
    race.consumer(rounds=8)
    race.run()
    assert gone.status == 200
    assert {s.code for s in began_after(work, gone)} <= {"token_revoked"}
    for job, fence in zip(jobs[:2], fences, strict=True):  # a call under way may claim them anew
        assert w.get(job)["fence"] != fence or w.get(job)["status"] == "completed"
    race.settle()
    w.clock.advance(60)  # calls that were under way have ended, and their jobs were found
    race.settle()
    held = [job for job in oracle.memory(w).jobs if job.assignee == agent and job.status != "completed"]
    assert not held, held


def a_retired_agent_whose_job_moves(race: Race) -> None:
    """Its job is blocked and noted while it is taken from it: when the owner is answered, it was taken."""
    w = race.w
    agent = w.enrol("bob")
    job = w.job()
    fence = w.claim(job, token="bob")
    gone = race.calls("owner", "DELETE", f"P/agents/{agent}", token="owner")
    race.calls("block", "POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"}, token="bob")
    for n in range(2):
        race.calls(f"note{n}", "POST", f"P/jobs/{job}/events", {"type": "custom.x"}, token="owner")
    race.run()
    assert gone.status == 200
    assert w.get(job)["status"] == "published"


# ---- dates


def a_start_that_everybody_sees(race: Race) -> None:
    """Twins of the timer, and claim-next that looks after it: published exactly once."""
    w = race.w
    w.job(not_before=at(w, 60))
    names = enrolled(race, 3)
    w.dispatch()
    message = {
        "kind": "start",
        "project": "default",
        "job": only_job(race, "pending").id,
        "at": only_job(race, "pending").not_before,
        "hop": 1,
    }
    w.engine.store.queues.send("lease", [(message, 0), (message, 61)])
    for name in names:
        race.calls(name, "POST", "P/claims", {}, token=name)
    race.clock(30, 29, 3)
    race.consumer(rounds=3)
    race.consumer(rounds=3, name="consumer2")
    race.run()
    race.settle()
    counted = Counter(
        e["type"] for e in next(iter(e for pk, e in oracle.memory(w).events.items() if "#job#" in pk))
    )
    assert counted["job.activated"] == 1
    assert counted["job.claimed"] <= 1


def a_deadline_that_is_moved(race: Race) -> None:
    """Edits race the timer: each deadline that passed is marked once, one that was taken back never."""
    w = race.w
    job = w.job(deadline=at(w, 60))
    w.dispatch()
    first = w.get(job)["deadline"]
    new = race.rng.choice([at(w, 50), at(w, 2_000), None])
    race.calls(
        "edit", "PATCH", f"P/jobs/{job}", {"deadline": new}, token="owner", headers={"if-match": '"v1"'}
    )
    race.calls(
        "edit2", "PATCH", f"P/jobs/{job}", {"summary": "t"}, token="owner", headers={"if-match": '"v2"'}
    )
    race.clock(40, 15, 10)
    race.dispatcher(chaos=True)
    race.consumer(chaos=False)
    race.run()
    race.settle()
    w.clock.advance(2_100)
    for _ in range(3):
        oracle.settle(w)
        w.clock.advance(900)
    events = next(e for pk, e in oracle.memory(w).events.items() if "#job#" in pk)
    late = [e["data"]["deadline"] for e in events if e["type"] == "job.overdue"]
    assert len(late) == len(set(late))
    last = w.get(job)
    assert last["overdue"] == (last["deadline"] is not None)
    assert last["deadline"] is None or last["deadline"] in late
    assert set(late) <= {first, last["deadline"]}


def a_deadline_that_cancels(race: Race) -> None:
    """Against a claim, a complete and a renewal: one end."""
    w = race.w
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")
    job = w.job(deadline=at(w, 60), lease_seconds=90)
    (one,) = enrolled(race, 1)
    fence = w.claim(job)
    w.dispatch()
    done = race.calls("done", "POST", f"P/jobs/{job}/complete", {"fence": fence})
    race.calls("beat", "POST", "P/heartbeat", {})
    race.calls("rival", "POST", f"P/jobs/{job}/claim", {}, token=one)
    race.clock(61)
    race.consumer()
    race.run()
    race.settle()
    after = w.get(job)
    assert (done.code or done.status, after["status"]) in (
        (200, "completed"),
        ("stop_requested", "cancelled"),
    )


# ---- timers, records


def timers_in_any_order(race: Race) -> None:
    """Messages come twice, early, late, never; records too. Leases still end, once each, and chains do not multiply."""
    w = race.w
    jobs = [w.job(lease_seconds=race.rng.choice([30, 1_000, 3_600]), max_retries=1) for _ in range(3)]
    jobs.append(w.job(not_before=at(w, 40), deadline=at(w, 1_000)))
    for job in jobs[:3]:
        w.claim(job)
    race.dispatcher(rounds=5, chaos=True)
    race.consumer(rounds=8, chaos=True)
    race.consumer(rounds=8, chaos=True, name="consumer2")
    race.calls("beat", "POST", "P/heartbeat", {})
    race.clock(20, 15, 30, 870, 100)
    race.run()
    race.settle()
    bound = 3 * len(jobs) + 12
    assert len(oracle.memory(w).messages) <= bound
    rescue(race)


def rescue(race: Race) -> None:
    """Some timers were lost: what claim-next does not find, repair arms again."""
    for job in oracle.memory(race.w).jobs:
        race.w.ok("POST", "P/repair", {"entity": f"job/{job.id}"}, token="owner")


def a_long_block(race: Race) -> None:
    """The claim's timer finds the job blocked and ends; unblock and resume start a lease that has its own."""
    w = race.w
    job = w.job(lease_seconds=30)
    fence = w.claim(job)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    w.dispatch()
    w.clock.advance(100)
    oracle.settle(w)
    assert not oracle.memory(w).messages
    if race.rng.random() < 0.7:
        race.calls("unblock", "POST", f"P/jobs/{job}/unblock", {"reason": "r"}, token="owner")
    if race.rng.random() < 0.5:
        race.calls("resume", "POST", f"P/jobs/{job}/resume", {"fence": fence})
    race.dispatcher()
    race.run()


def every_timer_lost(race: Race) -> None:
    """Without one message: whoever asks for work finds the jobs whose time is over."""
    w = race.w
    lapsed = [w.job(lease_seconds=30) for _ in range(2)]
    for job in lapsed:
        w.claim(job, heartbeat_seconds=10)
    due = w.job(not_before=at(w, 20))
    names = enrolled(race, 4)
    w.dispatch()
    messages = w.engine.store.queues
    w.clock.advance(100)
    while found := messages.receive("lease"):
        messages.delete("lease", [message.receipt for message in found])
    first = [race.calls(f"first {name}", "POST", "P/claims", {}, token=name) for name in names]
    race.run()
    race.settle()
    taken = {s.reply.body["job"]["id"] for s in first if won(s)}
    for name in names:
        answer = w.ok("POST", "P/claims", {}, token=name)
        taken |= {answer["job"]["id"]} if answer["job"] else set()
    assert taken == {*lapsed, due}


def redrive_beside_the_dispatcher(race: Race) -> None:
    """Parked records are handled again while the same and later ones are dispatched: each row once."""
    from tests.sim.requests import park_changes

    w = race.w
    jobs = [w.job(deadline=at(w, 5_000)) for _ in range(2)]
    w.claim(jobs[0])
    if race.rng.random() < 0.5:
        w.dispatch()
        w.ok("POST", f"P/jobs/{jobs[1]}/claim", {})
    park_changes(w)
    w.ok("POST", f"P/jobs/{jobs[1]}/events", {"type": "custom.x"}, token="owner")
    for n in range(2):
        race.calls(
            f"redrive{n}", "POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner"
        )
    race.calls("repair", "POST", "P/repair", {"entity": f"job/{jobs[0]}"}, token="owner")
    race.dispatcher(chaos=True)
    race.run()
    w.clock.advance(31)
    w.ok("POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner")


def the_bus_wakes_up(race: Race) -> None:
    """After a sleep leases are moved while holders renew and timers fire: nobody loses what the sleep took."""
    from interlock.app import timers

    w = race.w
    jobs = [w.job(lease_seconds=60) for _ in range(3)]
    fences = [w.claim(job) for job in jobs]
    w.dispatch()
    w.clock.advance(500)
    race.does("waking", lambda: timers.bus_resumed(w.bus, 500_000))
    race.run()  # as `interlock up` does it: before anything else is served
    race.calls("beat", "POST", "P/heartbeat", {})
    race.calls("done", "POST", f"P/jobs/{jobs[0]}/complete", {"fence": fences[0]})
    race.does("again", lambda: timers.bus_resumed(w.bus, 40_000))
    race.consumer()
    race.run()
    assert {w.get(job)["retry_count"] for job in jobs} == {0}
    assert w.get(jobs[0])["status"] == "completed"


def owners_who_remove_each_other(race: Race) -> None:
    """One of them is left: the last owner cannot be removed."""
    w = race.w
    path = race.rng.choice(["/v1/owners", "P/owners"])
    made = [w.ok("POST", path, {"label": f"o{n}"}, token="owner") for n in range(3)]
    ring = [
        race.calls(f"o{n}", "DELETE", f"{path}/{made[(n + 1) % 3]['owner']['id']}", token=made[n]["token"])
        for n in range(3)
    ]
    race.run()
    assert {s.code for s in ring} <= {None, "token_revoked"}
    live = [o for o in made if w.call("GET", path, token=o["token"]).status == 200]
    assert live
    assert len(live) == 3 - sum(1 for s in ring if s.status == 200)


def first_owners_at_once(race: Race) -> None:
    """Two people bootstrap: one token works."""
    from interlock.app import bootstrap
    from interlock.errors import InterlockError

    tokens: list[str] = []
    refused: list[str] = []

    def begin() -> None:
        try:
            tokens.append(bootstrap.first_owner(race.w.bus))
        except InterlockError as error:
            refused.append(error.code)

    for n in range(3):
        race.does(f"person{n}", begin)
    race.run()
    assert len(tokens) == 1
    assert refused == ["already_exists"] * 2
    race.settle()
    assert race.w.call("GET", "/v1/projects", token=tokens[0]).status == 200
    live = [
        o
        for o in race.w.ok("GET", "/v1/owners", token=tokens[0])["items"]
        if o["label"] == "first owner" and not o["removed_at"]
    ]
    assert len(live) == 1


SCENARIOS: list[Callable[[Race], None]] = [
    pauses_against_claims,
    a_pause_and_its_end,
    roles_made_and_deleted,
    an_agent_that_loses_its_role,
    tokens_revoked_and_rotated,
    tokens_up_to_the_limit,
    a_retired_agent_lets_go,
    a_retired_agent_whose_job_moves,
    a_start_that_everybody_sees,
    a_deadline_that_is_moved,
    a_deadline_that_cancels,
    timers_in_any_order,
    a_long_block,
    every_timer_lost,
    redrive_beside_the_dispatcher,
    the_bus_wakes_up,
    owners_who_remove_each_other,
    first_owners_at_once,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)
