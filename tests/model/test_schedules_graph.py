"""Races at barriers: jobs that are created, held, opened, failed and revived while their upstream jobs move.

What must always hold (never published under an upstream that is not satisfied, published once, nothing that hangs)
is judged after each of them, from the order of all writes and from what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.sim.faults import DiedError
from tests.sim.hands import (
    ALIVE,
    STORIES,
    Hand,
    answers,
    completed,
    creates,
    held,
    messengers,
    rest,
    statuses,
    team,
    the_job_of,
    told,
)
from tests.sim.race import Race, explore
from tests.sim.requests import at

from interlock.app import making, write


def body(ups: list[str], **more: Any) -> dict[str, Any]:
    """A job that waits for these."""
    return {"summary": "s", "role": "developer", "blocked_by": ups, **more}


# ---- creation


def born_while_others_end(race: Race) -> None:
    """Twins of one creator, and upstream jobs that complete, fail, come back and are cancelled meanwhile."""
    hands = held(race, race.rng.choice([1, 2, 3]))
    wanted = body(
        [hand.job for hand in hands],
        on_upstream_failure=race.rng.choice(["match", "match", "continue"]),
        independent=race.rng.random() < 0.3,
        external_id=race.rng.choice([None, "ISSUE-1"]),
    )
    twins = [race.calls(f"twin{n}", "POST", "P/jobs", wanted, key="k") for n in range(2)]
    for hand in hands:
        hand.does(race.rng.choice(STORIES))
    messengers(race)
    race.run()
    assert answers(twins) in ({201: 1, 200: 1},)
    rest(race)
    assert told(race, the_job_of(twins))["job.created"] == 1


def born_in_parts(race: Race) -> None:
    """More holds than a transaction takes: those before the head must neither come back nor leave a mark."""
    hands = held(race, 5)
    wanted = body(
        [hand.job for hand in hands], on_upstream_failure=race.rng.choice(["match", "match", "continue"])
    )
    twins = [race.calls(f"twin{n}", "POST", "P/jobs", wanted, key="k") for n in range(3)]
    for hand in hands:
        hand.does(race.rng.choice(STORIES))
    messengers(race)
    race.run()
    assert answers(twins) == {201: 1, 200: 2}
    rest(race)
    if {"failed", "cancelled"}.isdisjoint(statuses(race, wanted["blocked_by"])):
        assert statuses(race, [the_job_of(twins)]) != ["failed"]


def born_at_a_second_try(race: Race) -> None:
    """The first try died when some of its holds were there: what happens to them before there is a head is void."""
    hands = held(race, 4)
    wanted = body([hand.job for hand in hands])
    with patch.object(write, "create", side_effect=DiedError):
        race.w.call("POST", "P/jobs", wanted, key="k")
    for hand in hands:
        if race.rng.random() < 0.5:
            hand.step("fail")
            hand.does(
                race.rng.choice(
                    [("restart",), ("retry",), ("restart", "fail", "restart"), ("restart", "complete")]
                )
            )
        else:
            hand.does(race.rng.choice(ALIVE))
    if race.rng.random() < 0.7:
        race.w.pump()
    again = [
        race.calls(f"again{n}", "POST", "P/jobs", wanted, key="k") for n in range(race.rng.choice([1, 2]))
    ]
    messengers(race, rounds=10)
    race.run()
    rest(race)
    done = set(statuses(race, wanted["blocked_by"])) == {"completed"}
    assert statuses(race, [the_job_of(again)]) == ["published" if done else "pending"]


def born_in_spite_of_deaths(race: Race) -> None:
    """Processes die and stores fail on the way; the creator asks again."""
    hands = held(race, 4)
    wanted = body([hand.job for hand in hands])
    race.trouble = 0.04
    for n in range(2):
        creates(race, f"twin{n}", wanted, key="k")
    for hand in hands:
        hand.does(race.rng.choice(ALIVE))
    messengers(race, rounds=8)
    race.run()
    race.trouble = 0
    race.w.ok("POST", "P/jobs", wanted, key="k")


def born_with_a_date(race: Race) -> None:
    """Barrier and `not_before`: whichever opens last publishes it, once."""
    (hand,) = held(race, 1)
    job = race.w.job(blocked_by=[hand.job], not_before=at(race.w, 30))
    race.w.dispatch()
    hand.does(race.rng.choice([("complete",), ("fail", "restart", "complete")]))
    race.calls("walker", "POST", "P/claims", {})
    race.clock(20, 11, 5)
    messengers(race, rounds=4)
    race.run()
    rest(race)
    race.w.clock.advance(40)
    rest(race)
    assert told(race, job)["job.activated"] == 1


# ---- opening


def fan_in(race: Race) -> None:
    """Everything that a job waits for is completed at once: it is published once, by whoever sees the last."""
    hands = held(race, 8)
    job = race.w.job(blocked_by=[hand.job for hand in hands], independent=True)
    for hand in hands:
        hand.does(("complete",))
    race.calls("walker", "POST", "P/claims", {})
    messengers(race, rounds=8)
    race.run()
    rest(race)
    assert told(race, job) in (
        {"job.created": 1, "job.activated": 1},
        {"job.created": 1, "job.activated": 1, "job.claimed": 1},
    )


def fan_out(race: Race) -> None:
    """One upstream of many jobs ends, comes back and ends again."""
    (hand,) = held(race, 1)
    ways = ["match", "match", "continue"]
    jobs = [race.w.job(blocked_by=[hand.job], on_upstream_failure=race.rng.choice(ways)) for _ in range(6)]
    hand.does(
        race.rng.choice(
            [
                ("complete",),
                ("fail", "restart", "complete"),
                ("fail", "retry", "claim", "fail", "restart", "complete"),
            ]
        )
    )
    messengers(race, rounds=8)
    race.run()
    rest(race)
    assert statuses(race, jobs) == ["published"] * 6
    assert all(told(race, job)["job.activated"] == 1 for job in jobs)


def diamonds(race: Race) -> None:
    """Two ways from a root to its end, and workers on all of it."""
    w = race.w
    (root,) = held(race, 1)
    sides = [w.job(blocked_by=[root.job]) for _ in range(2)]
    end = w.job(blocked_by=[*sides, root.job])
    names = team(race, 2, name="side")
    root.does(race.rng.choice([("complete",), ("fail", "restart", "complete")]))
    for side, name in zip(sides, names, strict=True):
        Hand(race, side, name).does(["claim", "note", "claim", "complete", "claim", "complete"])
    Hand(race, end, "agent").does(["claim", "complete"])
    messengers(race, rounds=8)
    race.run()
    rest(race)
    for side, name in zip(sides, names, strict=True):
        Hand(race, side, name).step("claim")
        Hand(race, side, name, fence=1).step("complete")
    rest(race)
    if statuses(race, sides) == ["completed"] * 2:
        assert told(race, end)["job.activated"] == 1


# ---- cascade and revival


def a_chain_that_falls_and_rises(race: Race) -> None:
    """Full depth, both ways, while messages of both are on their way."""
    w = race.w
    (root,) = held(race, 1)
    chain = [root.job]
    for _ in range(race.rng.choice([2, 4])):
        chain.append(w.job(blocked_by=[chain[-1]]))
    ends = race.rng.choice([
        ("fail", "restart", "fail", "restart", "complete"),
        ("fail", "retry", "claim", "complete"),
        ("fail",),
        ("fail", "restart", "fail"),
        ("fail", "restart", "cancel"),
    ])  # fmt: skip
    root.does(ends)
    messengers(race, rounds=12)
    race.run()
    rest(race)
    found = statuses(race, chain[1:])
    if ends[-1] == "complete":
        assert found == ["published", *["pending"] * (len(chain) - 2)]
    else:
        assert set(found) == {{"fail": "failed", "cancel": "cancelled"}[ends[-1]]}


def two_roots(race: Race) -> None:
    """One upstream comes back while another fails: the whole barrier is judged again."""
    w = race.w
    one, two = held(race, 2)
    job = w.job(blocked_by=[one.job, two.job])
    below = w.job(blocked_by=[job])
    stories = [race.rng.choice(STORIES) for _ in range(2)]
    one.does(stories[0])
    two.does(stories[1])
    messengers(race, rounds=8)
    race.run()
    rest(race)
    ends = {story[-1] for story in stories}
    if ends == {"complete"}:
        assert statuses(race, [job, below]) == ["published", "pending"]
    elif ends <= {"complete", "retry"}:
        assert statuses(race, [job, below]) == ["pending", "pending"]


def a_cascade_that_is_cut(race: Race) -> None:
    """Somebody cancels a job in the middle, while it falls or rises."""
    w = race.w
    (root,) = held(race, 1)
    middle = w.job(blocked_by=[root.job])
    below = w.job(blocked_by=[middle])
    beside = w.job(blocked_by=[middle], on_upstream_failure="continue")
    root.does(race.rng.choice([("fail", "restart", "complete"), ("fail", "retry"), ("fail",)]))
    cut = race.calls("source", "POST", f"P/jobs/{middle}/cancel", {"reason": "r"})
    race.calls("retry", "POST", f"P/jobs/{middle}/retry", {}, token="owner")
    messengers(race, rounds=8)
    race.run()
    rest(race)
    assert cut.status == 200
    assert statuses(race, [middle, below, beside]) == ["cancelled", "cancelled", "published"]


def a_worker_at_what_revives(race: Race) -> None:
    """The upstream comes back and is completed again and again; the job below is claimed as soon as it may be."""
    w = race.w
    (root,) = held(race, 1)
    job = w.job(blocked_by=[root.job], max_retries=9)
    last = w.job(blocked_by=[job], independent=True)
    root.does(("fail", "restart", "fail", "restart", "complete"))
    Hand(race, job, "agent0").does(["claim", "claim", "fail", "restart", "complete"])
    Hand(race, job, "agent").does(["claim", "complete", "retry"])
    messengers(race, rounds=10)
    race.run()
    rest(race)
    assert statuses(race, [root.job]) == ["completed"]
    assert told(race, job)["job.activated"] == 1
    assert (statuses(race, [job]) == ["completed"]) == (statuses(race, [last]) == ["published"])


# ---- independent


def nobody_reviews_their_own(race: Race) -> None:
    """Whoever held an upstream job is excluded at every publication, however the race to claim it goes."""
    w = race.w
    one, two = held(race, 2)
    job = w.job(blocked_by=[one.job, two.job], independent=True)
    one.does(race.rng.choice([("complete",), ("release",), ("fail", "restart", "complete")]))
    two.does(("complete",))
    Hand(race, one.job, "agent").does(["claim", "complete"])
    for name in ("agent0", "agent1", "agent"):
        Hand(race, job, name).does(["claim", "claim", "claim"], name=f"{name} wants it")
    messengers(race, rounds=8)
    race.run()


# ---- messages


def all_messages_lost(race: Race) -> None:
    """Not one arrives: repair makes everything right again."""
    w = race.w
    hands = held(race, 2)
    jobs = [w.job(blocked_by=[hand.job for hand in hands]) for _ in range(2)]
    below = w.job(blocked_by=jobs)
    for hand in hands:
        hand.does(race.rng.choice(ALIVE))
    race.run()
    w.dispatch()
    queues = w.engine.store.queues
    while found := queues.receive("barrier"):
        queues.delete("barrier", [message.receipt for message in found])
    race.lossy = True
    race.repair()
    rest(race)
    wanted = "published" if statuses(race, [h.job for h in hands]) == ["completed"] * 2 else "pending"
    assert statuses(race, [*jobs, below]) == [wanted, wanted, "pending"]


def dead_letters_come_back(race: Race) -> None:
    """Messages were given up on; redrive handles them beside newer ones, twice."""
    w = race.w
    (root,) = held(race, 1)
    chain = [root.job]
    for _ in range(3):
        chain.append(w.job(blocked_by=[chain[-1]]))
    w.pump()
    root.step("fail")
    w.dispatch()
    queues = w.engine.store.queues
    dead = queues.receive("barrier")
    queues.send("barrier-dead", [(message.body, 0) for message in dead for _ in range(2)])
    queues.delete("barrier", [message.receipt for message in dead])
    root.does(race.rng.choice([("restart", "complete"), ("retry",), ("note",)]))
    for n in range(2):
        race.calls(
            f"redrive{n}", "POST", "/v1/dead-letters/redrive", {"queue": "barrier-dead"}, token="owner"
        )
    messengers(race, rounds=6, chaos=False)
    race.run()
    w.clock.advance(31)
    w.ok("POST", "/v1/dead-letters/redrive", {"queue": "barrier-dead"}, token="owner")


SCENARIOS: list[Callable[[Race], None]] = [
    born_while_others_end,
    born_in_parts,
    born_at_a_second_try,
    born_in_spite_of_deaths,
    born_with_a_date,
    fan_in,
    fan_out,
    diamonds,
    a_chain_that_falls_and_rises,
    two_roots,
    a_cascade_that_is_cut,
    a_worker_at_what_revives,
    nobody_reviews_their_own,
    all_messages_lost,
    dead_letters_come_back,
]


@pytest.fixture(autouse=True)
def _few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction takes two holds, so that what is cheap to race is also what large jobs do."""
    monkeypatch.setattr(making, "PARTS", 2)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 6)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 60)


def test_as_many_holds_as_a_transaction_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real number: a job with so many blockers, and one more, is made and opens."""
    monkeypatch.undo()
    race = Race(0)
    ups = [completed(race)] + [race.w.job() for _ in range(making.PARTS + 1)]
    jobs = [race.w.job(blocked_by=ups[: making.PARTS + more]) for more in (0, 1, 2)]
    for up in ups[1:]:
        Hand(race, up).take().step("complete")
    race.finish()
    assert statuses(race, jobs) == ["published"] * 3
