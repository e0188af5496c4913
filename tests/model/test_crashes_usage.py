"""The crash matrix of usage: the process dies, or the store fails, between any two calls. Amounts stay exact.

The operations that report are in the matrix of test_crashes.py too; here the caller may also send no repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.model.test_crashes import Case, judge, recover
from tests.sim import oracle, oracle_usage
from tests.sim.requests_presence import USAGE, daily
from tests.sim.services import serve_changes, serve_messages
from tests.sim.world import World

from interlock.domain import usage
from interlock.domain.job import Job


def counted(w: World) -> dict[str, int]:
    found = oracle_usage.day_counters(oracle.memory(w))["default"]
    return {name: found[name] for name in usage.BUDGETED}


def said(w: World) -> dict[str, int]:
    return oracle_usage.reported(oracle.memory(w))


def holding(w: World) -> list[dict[str, Any]]:
    """Two jobs of which something was reported, where a day counts it; what a heartbeat would report next."""
    daily(w)
    named = []
    for budget in ({"usd": 0.2}, None):
        job = w.job(budget=budget)
        named.append({"id": job, "fence": w.claim(job), "usage": {"input_tokens": 5, "usd": 0.1}})
    w.ok("POST", "P/heartbeat", {"jobs": named})
    w.dispatch()
    w.clock.advance(60)
    return [{**each, "usage": USAGE} for each in named]


def beats(w: World, named: list[dict[str, Any]]) -> Any:
    return w.call("POST", "P/heartbeat", {"jobs": named})


def ends(way: str) -> Callable[[World, list[dict[str, Any]]], Any]:
    """A call that ends the first job's claim, with a report and a key."""

    def call(w: World, named: list[dict[str, Any]]) -> Any:
        more = {} if way == "complete" else {"reason": "r"}
        body = {"fence": named[0]["fence"], "usage": USAGE, **more}
        return w.call("POST", f"P/jobs/{named[0]['id']}/{way}", body, key="k")

    return call


WAYS = {"heartbeat": beats, **{way: ends(way) for way in ("complete", "fail", "block", "release")}}


@pytest.mark.parametrize("repeats", [0, 1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_the_day_counts_what_the_heads_say(way: str, repeats: int) -> None:
    case = Case(holding, WAYS[way])
    assert case.answer.status == 200
    assert len(case.faults) > 10
    before = said(case.template.copy())
    for fault in case.faults:
        w, faults, _ = case.broken(fault)
        try:
            recover(w, faults, case.late)
            for _ in range(repeats):
                assert case.act(w, case.context).status == 200
            recover(w, faults, case.late)
            oracle.check(w)
            assert counted(w) == said(w)
            if repeats:
                jobs = 2 if way == "heartbeat" else 1
                tokens = before["tokens"] + jobs * (USAGE["input_tokens"] + USAGE["output_tokens"] - 5)
                assert said(w)["tokens"] == tokens
        except AssertionError as error:
            raise case.told(fault, error) from error


def beyond(w: World) -> list[str]:
    """A job in progress that is beyond its budget, and that no heartbeat has judged."""
    job = w.job(budget={"usd": 1})
    fence = w.claim(job)
    report = {"jobs": [{"id": job, "fence": fence, "usage": {"usd": 2}}]}
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    w.ok("POST", "P/heartbeat", report)
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.dispatch()
    w.clock.advance(901)
    return [job]


def over_time(w: World) -> list[str]:
    """A job whose metered budget is spent, held by an agent that never beats."""
    job = w.job(budget={"seconds": 600, "count": "metered"}, lease_seconds=3_600)
    w.claim(job)
    w.dispatch()
    w.clock.advance(901)
    return [job]


@pytest.mark.parametrize("prepare", [beyond, over_time])
def test_the_lease_timer_asks_once(prepare: Callable[[World], list[str]]) -> None:
    case = Case(prepare, lambda w, _: serve_messages(w))
    judge(case)
    for fault in case.faults:
        w, faults, _ = case.broken(fault)
        recover(w, faults, case.late)
        (job,) = [oracle.memory(w).heads[f"default#job#{name}"] for name in case.context]
        assert isinstance(job, Job)
        assert (job.status, len(job.asked or {})) == ("blocked", 1), fault


def test_the_dispatcher_tells_it_all() -> None:
    def prepare(w: World) -> None:
        named = holding(w)
        beats(w, named)
        ends("complete")(w, named[1:])

    judge(Case(prepare, lambda w, _: serve_changes(w)))
