"""The crash matrix: every operation, dispatcher and consumer fails before and after each of its store calls.

Then a new process recovers, the caller repeats its call, and the end is the one that would have been without the
failure: one effect, all of its ledger rows, nothing half written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.sim import oracle, requests
from tests.sim.copies import Template
from tests.sim.faults import DiedError, Fault, Faults, faults_of
from tests.sim.outcome import outcome
from tests.sim.requests import FIXTURES, Request
from tests.sim.services import serve_changes, serve_messages
from tests.sim.world import World, world

from interlock.app import bootstrap, timers
from interlock.errors import InterlockError

RECOVERY = 200
"""Seconds after which the outcome is compared: messages that a dead process had taken are back long before."""


def recover(w: World, faults: Faults, until: int) -> None:
    """A new process: what the dead one had not acknowledged comes again."""
    faults.disarm()
    w.clock.now = until  # by now hidden messages are back
    oracle.settle(w)


class Case:
    """A prepared world, one thing that is done to it, and what comes of it without a fault."""

    def __init__(self, prepare: Callable[[World], Any], act: Callable[[World, Any], Any]) -> None:
        prepared = world()
        self.context = prepare(prepared)
        self.act = act
        self.template = Template(prepared)
        faults = Faults()
        w = self.template.copy(faults.wrap)
        faults.arm(None)
        self.answer = act(w, self.context)
        self.faults = faults_of(faults.steps)
        self.steps = list(faults.steps)
        self.late = w.clock.now + RECOVERY * 1_000
        recover(w, faults, self.late)
        oracle.check(w)
        self.outcome = outcome(w)

    def broken(self, fault: Fault) -> tuple[World, Faults, Any]:
        """A copy in which the fault happened; what the call answered, or None when its process died."""
        faults = Faults()
        w = self.template.copy(faults.wrap)
        faults.arm(fault)
        try:
            answer = self.act(w, self.context)
        except (DiedError, InterlockError):
            answer = None  # requests and consumers answer the store's errors; what the process itself begins with does not
        faults.disarm()
        return w, faults, answer

    def told(self, fault: Fault, error: AssertionError) -> AssertionError:
        """The failure with what was broken."""
        return AssertionError(f"{fault} ({self.steps[fault.at - 1]}): {error}")


def test_every_mutating_operation_has_a_fixture() -> None:
    assert requests.without_fixture() == []


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize(
    "stride", [7, pytest.param(1, marks=pytest.mark.slow)], ids=["some faults", "every fault"]
)
def test_operation(name: str, stride: int) -> None:
    """The default suite tries every seventh fault: a step breaks in five or six ways, so that all of them come up."""
    _, prepare = FIXTURES[name]
    case = Case(prepare, lambda w, request: request.send(w))
    request: Request = case.context
    assert case.answer.status < 300, case.answer.body
    for fault in case.faults[::stride]:
        w, faults, answer = case.broken(fault)
        try:
            if answer is not None and answer.status < 300:
                assert fault.when == "again" or request.key is None or name.startswith("system.")
            elif answer is not None:
                assert fault.how != "crash"
                assert (answer.status, answer.code) in ((429, "throttled"), (503, "store_unavailable")), (
                    answer.body
                )
                assert answer.headers["retry-after"]
                assert answer.body["retryable"] is True
            if name.startswith("system.redrive"):
                w.clock.advance(
                    61
                )  # the dead letters that it had taken come again; until then rows are missing
            else:
                oracle.settle(w)
                oracle.check(w)
            again = request.send(w)
            assert again.status in (200, 201, *request.repeat), again.body
            recover(w, faults, case.late)
            oracle.check(w)
            assert outcome(w) == case.outcome
        except AssertionError as error:
            raise case.told(fault, error) from error


# ---- dispatcher and consumers


def soon(w: World, *, until: float, **fields: Any) -> str:
    """A claimed job, dispatched, so many seconds later."""
    job = w.job(**fields)
    w.claim(job)
    w.dispatch()
    w.clock.advance(until)
    return job


def waiting(w: World, *, until: float, **fields: Any) -> str:
    """A job, dispatched, so many seconds later."""
    job = w.job(
        **{
            name: requests.at(w, value) if name in ("not_before", "deadline") else value
            for name, value in fields.items()
        }
    )
    w.dispatch()
    w.clock.advance(until)
    return job


def lapses_while_unblocked(w: World) -> None:
    job, _ = requests.blocked(w)
    w.ok("POST", f"P/jobs/{job}/unblock", {"reason": "go"}, token="owner")
    w.dispatch()
    w.clock.advance(1_805)


def cancels_when_overdue(w: World) -> None:
    w.ok("PATCH", "P", {"settings": {"cancel_overdue": True}}, token="owner")
    waiting(w, until=61, deadline=60)


def retired_before_it_let_go(w: World) -> None:
    """The agent's head is written, its claims are not stopped: as after a crash of the call."""
    bob = w.enrol("bob")
    jobs = [w.job() for _ in range(3)]
    for job in jobs[:2]:
        w.claim(job, token="bob")
    fence = w.claim(jobs[2], token="bob")
    w.ok("POST", f"P/jobs/{jobs[2]}/block", {"fence": fence, "reason": "r"}, token="bob")
    w.dispatch()
    with patch.object(timers, "empty_hands"):
        w.ok("DELETE", f"P/agents/{bob}", token="owner")
    w.dispatch()
    w.clock.advance(61)


CONSUMED: dict[str, Callable[[World], Any]] = {
    "lease goes on": lambda w: soon(w, until=905, lease_seconds=3_600),
    "lease lapses": lambda w: soon(w, until=61, lease_seconds=30),
    "lease lapses, budget spent": lambda w: soon(w, until=61, lease_seconds=30, max_retries=0),
    "lease lapses and fails": lambda w: soon(w, until=61, lease_seconds=30, on_expire="fail"),
    "unblocked lapses": lapses_while_unblocked,
    "deadline goes on": lambda w: waiting(w, until=901, deadline=2_000),
    "deadline passes": lambda w: waiting(w, until=61, deadline=60),
    "deadline cancels": cancels_when_overdue,
    "start goes on": lambda w: waiting(w, until=901, not_before=2_000),
    "start comes": lambda w: waiting(w, until=61, not_before=60),
    "retired agent": retired_before_it_let_go,
    "several at once": lambda w: [
        soon(w, until=61, lease_seconds=30),
        waiting(w, until=61, not_before=60, deadline=900),
    ],
}


def judge(case: Case, *, again: Callable[[World], Any] = lambda w: None) -> None:
    """Break the case at every step, recover, and compare."""
    assert case.faults
    for fault in case.faults:
        w, faults, _ = case.broken(fault)
        try:
            again(w)
            recover(w, faults, case.late)
            oracle.check(w)
            assert outcome(w) == case.outcome
            oracle.drain(w)
            oracle.check(w)
        except AssertionError as error:
            raise case.told(fault, error) from error


@pytest.mark.parametrize("name", CONSUMED)
def test_consumer(name: str) -> None:
    judge(Case(CONSUMED[name], lambda w, _: serve_messages(w)))


def a_day(w: World) -> None:
    """Changes of every kind of head, with large data, with timers, several of one job."""
    job = w.job(context=requests.LARGE, deadline=requests.at(w, 5_000), lease_seconds=3_600)
    fence = w.claim(job)
    w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.note", "data": requests.NOTE})
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r" * 500})
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.job(not_before=requests.at(w, 70))
    bob = w.enrol("bob")
    w.claim(w.job(), token="bob")
    w.ok("DELETE", f"P/agents/{bob}", token="owner")
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")


def an_hour(w: World) -> None:
    """A few changes that nobody has dispatched yet."""
    w.job()
    w.pump()
    w.claim(w.job(context={"a": 1}, deadline=requests.at(w, 5_000), lease_seconds=3_600))
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")


def test_dispatcher() -> None:
    judge(Case(a_day, lambda w, _: serve_changes(w)))


def test_parked_changes_are_redriven() -> None:
    """A record that cannot be read is parked with its events; redrive brings back the rows and the timers."""

    def poisoned(w: World) -> None:
        with patch("interlock.app.dispatch.effects", side_effect=ValueError("poison")):
            while serve_changes(w):
                pass

    redrive = requests.owners("/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, key=None)

    def act(w: World, _: Any) -> None:
        poisoned(w)
        w.clock.advance(31)  # what an earlier try has hidden
        redrive.send(w)

    judge(Case(an_hour, act), again=lambda w: act(w, None))


# ---- what a process begins with


def test_what_a_laptop_begins_with() -> None:
    def begin(w: World, _: Any) -> None:
        tokens = (f"il_own_installation.own_{'0' * 26}.s", f"il_agt_default.agt_{'0' * 26}.s")
        bootstrap.ensure_local(w.bus, *tokens)

    judge(Case(lambda w: None, begin), again=lambda w: begin(w, None))


def test_first_owner() -> None:
    """Whatever fails, calling again (with ``recover`` once the mark is there) gives a token that works; then no more."""

    def begin(w: World) -> str | None:
        try:
            return bootstrap.first_owner(w.bus)
        except InterlockError as error:
            if error.code != "already_exists":
                raise
            return None

    case = Case(lambda w: None, lambda w, _: begin(w))
    for fault in case.faults:
        w, faults, token = case.broken(fault)
        try:
            token = token or begin(w) or bootstrap.first_owner(w.bus, recover=True)
            recover(w, faults, case.late)
            oracle.check(w)
            assert w.call("GET", "/v1/projects", token=token).status == 200
            assert begin(w) is None
            if fault.when == "again":
                assert outcome(w) == case.outcome
        except AssertionError as error:
            raise case.told(fault, error) from error


def test_the_bus_was_asleep() -> None:
    """Leases are shifted by at least the gap, whatever fails on the way and is done again."""

    def prepare(w: World) -> list[str]:
        jobs = [w.job(lease_seconds=60) for _ in range(3)]
        for job in jobs:
            w.claim(job)
        w.dispatch()
        w.clock.advance(400)
        return jobs

    def wake(w: World, _: Any) -> None:
        timers.bus_resumed(w.bus, 400_000)

    case = Case(prepare, wake)
    for fault in case.faults:
        w, _, _ = case.broken(fault)
        try:
            wake(w, None)
            oracle.settle(w)
            assert {w.get(job)["status"] for job in case.context} == {"in_progress"}
            oracle.drain(w)
            oracle.check(w)
            assert {w.get(job)["retry_count"] for job in case.context} == {1}
        except AssertionError as error:
            raise case.told(fault, error) from error
