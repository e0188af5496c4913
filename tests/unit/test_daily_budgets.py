"""Budgets of a day: what is counted, when, and who may claim nothing more until midnight."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.oracle_usage import day_counters, reported
from tests.sim.requests_presence import USAGE, daily
from tests.unit.checked import CheckedWorld, checked
from tests.unit.spending import beat, held, reason, settled, spent_job
from tests.unit.test_review import reject, review

from interlock.store import keys
from interlock.store.ports import Put, Query

HOUR = 3_600
MIDNIGHT = "2026-12-01T00:00:00.000Z"
"""The world begins three hours before it."""


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def counted(w: CheckedWorld) -> dict[str, int]:
    found = day_counters(oracle.memory(w))["default"]
    return {name: found[name] for name in ("tokens", "usd", "seconds")}


def rows(w: CheckedWorld, day: str = "20261130") -> dict[str, dict[str, Any]]:
    found = w.engine.store.table.query(Query(keys.spend_partition("default", day))).items
    return {row["sk"]: row for row in found}


def test_without_a_budget_of_the_day_nothing_is_counted_or_read(w: CheckedWorld) -> None:
    job, fence = held(w)
    beat(w, job, fence, **USAGE)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "usage": USAGE})
    assert day_counters(oracle.memory(w)) == {}
    w.ok("PATCH", "P/roles/qa", {"daily_budget": {"usd": 1}}, token="owner")
    job, fence = held(w)
    beat(w, job, fence, **USAGE)
    assert day_counters(oracle.memory(w)) == {}, "another role's"


@pytest.mark.parametrize("whose", ["role", "project"])
@pytest.mark.parametrize("way", ["heartbeat", "complete", "fail", "block", "release"])
def test_a_day_counts_what_is_reported_and_is_spent(w: CheckedWorld, whose: str, way: str) -> None:
    budget = {"daily_budget": {"usd": 2}}
    if whose == "role":
        w.ok("PATCH", "P/roles/developer", budget, token="owner")
    else:
        w.ok("PATCH", "P", {"settings": budget}, token="owner")
    job, fence = held(w)
    other, tested = w.job(), w.job(role="qa")
    beat(w, job, fence, usd=1.5)
    assert w.ok("GET", f"P/jobs/{other}/explain")["claimable"] is True
    if way == "heartbeat":
        assert beat(w, job, fence, usd=2)["status"] == "in_progress", "running work goes on"
    else:
        w.ok("POST", f"P/jobs/{job}/{way}", {"fence": fence, "usage": {"usd": 2}, **reason(way)})
    (row,) = rows(w).values()
    assert (row["usd"], row["tokens"], row["seconds"]) == (2_000_000, 0, 0)
    assert row["expires"] == w.clock.now // 1_000 + 40 * 86_400
    refused = w.refused("budget_spent", "POST", f"P/jobs/{other}/claim", {})
    assert refused.body["until"] == MIDNIGHT
    explained = w.ok("GET", f"P/jobs/{other}/explain")["reasons"]
    assert [(each["code"], each["until"]) for each in explained] == [("budget_spent", MIDNIGHT)]
    nothing = w.ok("POST", "P/claims", {"roles": ["developer"]})
    assert (nothing["job"], nothing["skipped"]) == (None, {"budget_spent": 1})
    if whose == "role":
        assert w.ok("POST", "P/claims", {})["job"]["id"] == tested
    else:
        assert w.ok("POST", "P/claims", {})["skipped"] == {"budget_spent": 4}
    if way == "fail":
        w.refused("budget_spent", "POST", f"P/jobs/{job}/restart", {})
    w.clock.advance(3 * HOUR - 1)
    w.refused("budget_spent", "POST", f"P/jobs/{other}/claim", {})
    w.clock.advance(1)
    w.claim(other)
    settled(w)


def test_reports_on_both_sides_of_midnight(w: CheckedWorld) -> None:
    """Each day counts what became known in it."""
    daily(w)
    job, fence = held(w, lease_seconds=86_400)
    beat(w, job, fence, usd=1.5, input_tokens=10)
    w.clock.advance(3 * HOUR - 0.001)
    beat(w, job, fence, usd=2, output_tokens=3)
    w.clock.advance(0.001)
    beat(w, job, fence, usd=2, input_tokens=10)
    assert rows(w, "20261201") == {}, "nothing new"
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "usage": {"usd": 2.25, "input_tokens": 11}})
    (before,), (after,) = rows(w).values(), rows(w, "20261201").values()
    assert (before["usd"], before["tokens"]) == (2_000_000, 13)
    assert (after["usd"], after["tokens"]) == (250_000, 1)
    assert counted(w) == reported(oracle.memory(w))
    settled(w)


def test_a_day_adds_up_over_agents_roles_jobs_and_fences(w: CheckedWorld) -> None:
    daily(w)
    w.enrol("bob", ("developer", "qa"))
    for token in ("agent", "bob"):
        for role in ("developer", "qa"):
            job = w.job(role=role)
            for amount in (1, 2):
                fence = w.claim(job, token)
                beat(w, job, fence, token, input_tokens=amount, usd=amount)
                beat(w, job, fence, token, input_tokens=amount, usd=0)
                w.ok("POST", f"P/jobs/{job}/release", {"fence": fence}, token=token)
    assert len(rows(w)) == 4
    assert counted(w) == reported(oracle.memory(w)) == {"tokens": 12, "usd": 12_000_000, "seconds": 0}
    settled(w)


def test_a_role_whose_key_begins_like_another_counts_apart(w: CheckedWorld) -> None:
    for key in ("dev", "dev-ops"):
        w.ok("POST", "P/roles", {"key": key, "label": key, "daily_budget": {"usd": 1}}, token="owner")
    w.enrol("bob", ("dev", "dev-ops"))
    job, fence = held(w, "bob", role="dev-ops")
    beat(w, job, fence, "bob", usd=1)
    w.claim(w.job(role="dev"), "bob")
    w.refused("budget_spent", "POST", f"P/jobs/{w.job(role='dev-ops')}/claim", {}, token="bob")


def test_a_raised_or_removed_day_budget_counts_at_once(w: CheckedWorld) -> None:
    w.ok("PATCH", "P/roles/developer", {"daily_budget": {"usd": 1}}, token="owner")
    job, fence = held(w)
    beat(w, job, fence, usd=1)
    for budget in ({"usd": 1.5}, {"tokens": 5}, None):
        w.refused("budget_spent", "POST", f"P/jobs/{w.job()}/claim", {})
        w.ok("PATCH", "P/roles/developer", {"daily_budget": budget}, token="owner")
        w.claim(w.job())
        w.ok("PATCH", "P/roles/developer", {"daily_budget": {"usd": 0.5}}, token="owner")


def test_what_a_lineage_carries_is_not_counted_again(w: CheckedWorld) -> None:
    daily(w)
    w.enrol("critic", ("developer", "reviewer"))
    target, fence = held(w)
    w.ok("POST", f"P/jobs/{target}/complete", {"fence": fence, "usage": {"usd": 2}})
    job, review_fence = review(w, target)
    retry = reject(w, job, review_fence, target)["retry"]["id"]
    beat(w, retry, w.claim(retry), usd=1)
    assert counted(w)["usd"] == 3_000_000
    settled(w)


def test_all_reasons_come_together_rights_first(w: CheckedWorld) -> None:
    daily(w, usd=1)
    job = spent_job(w)
    w.enrol("tester", ("qa",))
    codes = [each["code"] for each in w.ok("GET", f"P/jobs/{job}/explain", token="tester")["reasons"]]
    assert codes == ["wrong_role", "budget_spent", "budget_spent"], "its own, and the day's"


def test_a_day_of_very_many_agents_is_added_up_to_the_last(w: CheckedWorld) -> None:
    """More counters than one page of a query has."""
    wanted = [keys.spend("default", "20261130", "developer", f"agt_{number:04d}") for number in range(1_001)]
    amounts = {"tokens": 1, "usd": 1, "seconds": 1}
    w.engine.store.table.write_each([Put(key, {"pk": key.pk, "sk": key.sk, **amounts}) for key in wanted])
    job = w.job()
    daily(w, usd=0.001_001)
    w.refused("budget_spent", "POST", f"P/jobs/{job}/claim", {})
    daily(w, usd=0.001_002)
    w.claim(job)
