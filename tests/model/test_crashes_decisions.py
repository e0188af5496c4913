"""The crash matrix of decisions: their timers, and what closes those that nobody needs; messages that misbehave.

Asking, answering and withdrawing are in the matrix of test_crashes.py, by tests/sim/requests_decisions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.model.test_crashes import Case, judge
from tests.sim import oracle
from tests.sim.oracle_decisions import named
from tests.sim.requests_decisions import QUESTION, asked, holding
from tests.sim.services import serve_changes, serve_messages
from tests.sim.world import World, world

from interlock.app.consumers import CONSUMERS

HOUR = 3_600


def later(w: World, seconds: float) -> None:
    """What was changed is dispatched, and time passes."""
    w.dispatch()
    w.clock.advance(seconds)


def expires(w: World, *, until: float, after: float, **more: Any) -> str:
    """A decision that expires ``after`` so many seconds, ``until`` seconds later; its job."""
    job, _, _ = asked(w, {"lease_seconds": 7_200}, expires_in=after, **more)
    later(w, until)
    return job


def moot(w: World, verb: str) -> str:
    """A job whose holder ended its claim while it had asked three things."""
    job, _, fence = asked(w, {"lease_seconds": 7_200}, wait=False)
    for more in ({"wait": False, "expires_in": 600}, {"wait": verb != "complete"}):
        w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, **more})
    body = {"reason": "r"} if verb != "complete" else {}
    w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": fence, **body})
    w.dispatch()
    return job


def lapses(w: World, **more: Any) -> str:
    """A lease that is over, of a job that is a matter for an owner then."""
    job, fence = holding(w, on_expire="ask", lease_seconds=30, **more)
    w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False, "expires_in": 600})
    later(w, 40)
    return job


CONSUMED: dict[str, Callable[[World], Any]] = {
    "goes on": lambda w: expires(w, until=901, after=2_000),
    "expires": lambda w: expires(w, until=61, after=60),
    "expires beside the work": lambda w: expires(w, until=61, after=60, wait=False),
    "withdrawn after a release": lambda w: moot(w, "release"),
    "withdrawn after a failure": lambda w: moot(w, "fail"),
    "withdrawn after the end": lambda w: moot(w, "complete"),
    "a lapse asks": lapses,
    "a lapse fails": lambda w: lapses(w, max_retries=0),
    "several at once": lambda w: [
        moot(w, "release"),
        expires(w, until=0, after=30),
        lapses(w),
    ],
}


@pytest.mark.parametrize("name", CONSUMED)
def test_consumer(name: str) -> None:
    judge(Case(CONSUMED[name], lambda w, _: serve_messages(w)))


def undispatched(w: World) -> None:
    """Everything that a dispatcher sends messages for."""
    job, decision, fence = asked(w, expires_in=60)
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": "a"}, token="owner")
    for wait in (False, True):
        w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": wait, "expires_in": 90})
    w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r"}, token="owner")
    asked(w, expires_in=100, wait=False)


def test_dispatcher() -> None:
    judge(Case(undispatched, lambda w, _: serve_changes(w)))


# ---- messages that misbehave


def due(w: World, kind: str) -> list[dict[str, Any]]:
    """Messages of this kind that wait, due or not."""
    return [body for _, _, body in oracle.memory(w).messages if body["kind"] == kind]


def states(w: World, job: str) -> list[str]:
    """How a job's decisions stand."""
    return [each.state for each in named(oracle.memory(w), job)]


def rest(w: World) -> None:
    oracle.settle(w)
    oracle.check(w)


@pytest.fixture
def w() -> World:
    return world()


def test_a_timer_that_comes_early_or_twice_goes_on_once(w: World) -> None:
    """Twins of a message make one chain, however often it hops; at its end the decision expires once."""
    job, _, _ = asked(w, {"lease_seconds": 7_200}, expires_in=2_500)
    w.dispatch()
    (first,) = due(w, "decision")
    for _ in range(5):
        w.bus.store.queues.send("lease", [(first, 0)])
    oracle.settle(w)
    counts = [len(due(w, "decision"))]
    for _ in range(3):
        w.clock.advance(901)
        oracle.settle(w)
        counts.append(len(due(w, "decision")))
    assert counts[0] <= 6  # the early ones have ended, but for one: with the first, and with hops that lost
    assert counts[1:] == [1, 1, 0], counts
    assert states(w, job) == ["expired"]
    rest(w)


@pytest.mark.parametrize("hop", [1, 2, 7])
def test_twins_of_a_later_hop_do_not_multiply(w: World, hop: int) -> None:
    job, _, _ = asked(w, {"lease_seconds": 7_200}, expires_in=10_000)
    w.dispatch()
    for _ in range(hop):
        w.clock.advance(901)
        oracle.settle(w)
    (message,) = due(w, "decision")
    w.bus.store.queues.send("lease", [(message, 0)] * 4)
    oracle.settle(w)
    w.clock.advance(901)
    oracle.settle(w)
    assert len(due(w, "decision")) == 1
    w.clock.advance(901)
    oracle.settle(w)
    assert len(due(w, "decision")) == 1
    assert states(w, job) == ["open"]


def test_a_timer_that_is_hours_late_expires_what_is_open(w: World) -> None:
    job, _, _ = asked(w, expires_in=60)
    later(w, 5 * HOUR)
    oracle.settle(w)
    assert states(w, job) == ["expired"]
    assert w.get(job)["status"] == "blocked"
    rest(w)


@pytest.mark.parametrize("verb", ["answer", "withdraw", "stop"])
def test_a_timer_that_comes_after_the_end_changes_nothing(w: World, verb: str) -> None:
    job, decision, _ = asked(w, expires_in=60)
    w.dispatch()
    if verb == "stop":
        w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r", "then": "cancel"}, token="owner")
    else:
        body = {"answer": "a"} if verb == "answer" else {}
        w.ok("POST", f"P/decisions/{decision}/{verb}", body, token="owner")
    oracle.settle(w)
    before = states(w, job)
    w.clock.advance(HOUR)
    oracle.settle(w)
    assert states(w, job) == before == ["answered" if verb == "answer" else "withdrawn"]
    assert due(w, "decision") == []
    rest(w)


def lose(w: World) -> None:
    """All messages are lost."""
    w.dispatch()
    queues = w.bus.store.queues
    w.clock.advance(1)
    for queue in CONSUMERS:
        while found := queues.receive(queue):
            queues.delete(queue, [message.receipt for message in found])


def test_repair_arms_a_timer_that_was_lost(w: World) -> None:
    job, _, _ = asked(w, {"lease_seconds": 7_200}, expires_in=1)
    w.dispatch()
    w.clock.advance(2)
    lose(w)
    assert states(w, job) == ["open"]
    for _ in range(3):
        w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    oracle.settle(w)
    assert states(w, job) == ["expired"]
    rest(w)


def test_repairing_again_and_again_keeps_one_chain(w: World) -> None:
    job, _, _ = asked(w, {"lease_seconds": 7_200}, expires_in=5_000)
    for _ in range(4):
        w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    for _ in range(2):
        w.clock.advance(901)
        oracle.settle(w)
    assert len(due(w, "decision")) == 1


@pytest.mark.parametrize("copies", [0, 1, 5])
def test_what_became_moot_is_closed_once(w: World, copies: int) -> None:
    """The message is lost, or comes more than once, or after another claim has asked anew."""
    job = moot(w, "release")
    (message,) = due(w, "close")
    if copies == 0:
        lose(w)
        w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    fence = w.claim(job)
    w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION})
    w.bus.store.queues.send("lease", [(message, 0)] * copies)
    oracle.settle(w)
    assert states(w, job) == ["withdrawn"] * 3 + ["open"]
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    w.bus.store.queues.send("lease", [(message, 0)] * copies)
    rest(w)
    assert states(w, job) == ["withdrawn"] * 4


def test_what_became_moot_under_many_claims_is_closed_at_once(w: World) -> None:
    """Nothing was dispatched for a while."""
    job = w.job(max_retries=0)
    for _ in range(3):
        fence = w.claim(job)
        for _ in range(10):
            w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "wait": False})
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    rest(w)
    assert states(w, job) == ["withdrawn"] * 30


def test_redrive_carries_on_a_timer_that_had_died(w: World) -> None:
    job, _, _ = asked(w, expires_in=60)
    w.dispatch()
    (message,) = due(w, "decision")
    w.clock.advance(61)
    lose(w)
    w.bus.store.queues.send("lease-dead", [(message, 0)])
    w.ok("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"}, token="owner")
    rest(w)
    assert states(w, job) == ["expired"]


def test_messages_about_what_is_not_there_are_dropped(w: World) -> None:
    job, decision, _ = asked(w, expires_in=60)
    base = {"project": "default", "job": job}
    w.bus.store.queues.send(
        "lease",
        [
            ({"kind": "decision", **base, "decision": "dec_none_1", "at": 1}, 0),
            ({"kind": "decision", **base, "decision": decision, "at": 1}, 0),
            ({"kind": "decision", "project": "default", "job": "job_none", "decision": decision, "at": 1}, 0),
            ({"kind": "close", **base}, 0),
            ({"kind": "close", "project": "default", "job": "job_none"}, 0),
        ],
    )
    w.consume("lease")
    assert states(w, job) == ["open"]
    rest(w)
