"""A job's budget: what is blocked beyond it, refused, shown and let go on; what the bus meters; lineages."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.spending import beat, edit, events, held, reason, settled, spent_job
from tests.unit.test_attention import needs
from tests.unit.test_review import reject, review

from interlock.app import timers

HOUR = 3_600


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- a job's budget


@pytest.mark.parametrize(
    ("budget", "within", "beyond", "spent"),
    [
        ({"tokens": 100}, {"input_tokens": 60, "output_tokens": 40}, {"input_tokens": 61}, {"tokens": 101, "usd": 0, "seconds": 0}),
        ({"usd": 0.5}, {"usd": 0.5, "input_tokens": 10**6}, {"usd": 0.500001}, {"tokens": 10**6, "usd": 0.500001, "seconds": 0}),
        ({"seconds": 2.5, "usd": 9}, {"seconds": 2.5}, {"seconds": 2.501}, {"tokens": 0, "usd": 0, "seconds": 2.501}),
        ({"usd": 0}, {"usd": 0}, {"usd": 0.000001}, {"tokens": 0, "usd": 0.000001, "seconds": 0}),
    ],
)  # fmt: skip
def test_beyond_its_budget_a_job_waits_for_an_owner(
    w: CheckedWorld, budget: Any, within: Any, beyond: Any, spent: Any
) -> None:
    job, fence = held(w, budget=budget)
    assert beat(w, job, fence, **within)["status"] == "in_progress"
    said = beat(w, job, fence, **beyond)
    shown = w.get(job)
    assert (said["status"], said["expires_in"], said["decision"]) == ("blocked", None, shown["decision"])
    assert (shown["status"], shown["assignee_label"], shown["fence"]) == ("blocked", "agent-1", fence)
    assert shown["blocked_reason"].startswith("the budget is spent")
    assert shown["budget"]["spent"] is True
    (event,) = events(w, job, "budget_exceeded")
    assert (event["from"], event["to"], event["actor"]["kind"]) == ("in_progress", "blocked", "system")
    assert event["data"] == {
        "fence": fence, "what": [name for name in budget if spent[name] > budget[name]], "spent": spent,
        "budget": {name: float(amount) if name != "tokens" else amount for name, amount in budget.items()}, "decision": shown["decision"],
    }  # fmt: skip
    asked = w.ok("GET", f"P/decisions/{shown['decision']}", token="owner")["decision"]
    assert (asked["kind"], asked["cause"], asked["roles"], asked["options"], asked["expires_at"], asked["current"]) == (
        "question", "budget", [], ["raise", "stop", "cancel"], None, True,
    )  # fmt: skip
    assert [(item["kind"], item.get("decision")) for item in needs(w)] == [("decision", shown["decision"])]
    beat(w, job, fence, **beyond)
    assert len(events(w, job, "budget_exceeded")) == 1
    settled(w)


def test_a_raised_budget_lets_the_holder_go_on(w: CheckedWorld) -> None:
    job, fence = held(w, budget={"usd": 1})
    beat(w, job, fence, usd=1.5)
    path = f"P/decisions/{w.get(job)['decision']}/answer"
    beat(w, job, fence, usd=2)  # while it is blocked more becomes known
    w.refused("invalid", "POST", path, {"answer": "raise", "data": {"usd": 2}}, token="owner")
    made = w.ok("POST", path, {"answer": "raise", "data": {"usd": 3, "tokens": 50}}, token="owner")["job"]
    assert (made["status"], made["budget"]) == (
        "unblocked", {"tokens": 50, "usd": 3.0, "seconds": None, "count": "reported", "spent": False},
    )  # fmt: skip
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    assert beat(w, job, fence, usd=3)["status"] == "in_progress"
    assert beat(w, job, fence, input_tokens=51)["status"] == "blocked"
    w.ok("POST", f"P/decisions/{w.get(job)['decision']}/answer", {"answer": "stop"}, token="owner")
    assert w.get(job)["status"] == "failed"
    settled(w)


def test_what_was_reported_while_it_was_blocked_is_judged_when_it_goes_on(w: CheckedWorld) -> None:
    job, fence = held(w, budget={"usd": 1})
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r", "usage": {"usd": 5}})
    assert (w.get(job)["status"], w.get(job)["decision"]) == ("blocked", None)
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.ok("POST", "P/heartbeat", {})
    assert w.get(job)["status"] == "blocked"
    assert w.get(job)["decision"] is not None
    settled(w)


@pytest.mark.parametrize(("way", "status"), [("complete", "completed"), ("fail", "failed")])
def test_a_job_that_ends_beyond_its_budget_just_ends(w: CheckedWorld, way: str, status: str) -> None:
    job, fence = held(w, budget={"usd": 1})
    w.ok("POST", f"P/jobs/{job}/{way}", {"fence": fence, "usage": {"usd": 1.25}, **reason(way)})
    assert (w.get(job)["status"], w.get(job)["decision"]) == (status, None)
    assert w.get(job)["budget"]["spent"] is True
    (told,) = events(w, job, "usage_reported")
    assert told["data"]["over_budget"] == "1.25 USD of 1 USD"
    settled(w)


# ---- what the bus meters


def test_time_in_progress_is_metered_and_nothing_else(w: CheckedWorld) -> None:
    job, fence = held(w)
    w.clock.advance(5)
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    w.clock.advance(100)
    w.ok("POST", f"P/jobs/{job}/unblock", {"fence": fence, "reason": "r"})
    w.clock.advance(100)
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.clock.advance(2.5)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence, "usage": {"seconds": 500}})
    w.clock.advance(100)
    fence = w.claim(job)
    w.clock.advance(1)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    shown = w.get(job)["usage"]
    assert (shown["metered"]["seconds"], shown["reported"]["seconds"]) == (8.5, 500.0)
    settled(w)


@pytest.mark.parametrize("judge", ["heartbeat", "heartbeat of something else", "timer"])
def test_a_metered_budget_is_judged_without_a_report(w: CheckedWorld, judge: str) -> None:
    job, fence = held(w, budget={"seconds": 20, "count": "metered"}, lease_seconds=30)
    w.dispatch()
    beat(w, job, fence, seconds=10**6)
    assert w.get(job)["status"] == "in_progress", "reports do not count"
    w.clock.advance(20)
    w.ok("POST", "P/heartbeat", {})
    assert w.get(job)["status"] == "in_progress"
    w.clock.advance(13)
    if judge == "timer":
        w.pump()
    else:
        w.ok("POST", "P/heartbeat", {} if judge == "heartbeat" else {"jobs": [{"id": held(w)[0]}]})
    assert w.get(job)["status"] == "blocked"
    (event,) = events(w, job, "budget_exceeded")
    assert (event["data"]["what"], event["data"]["spent"]) == (["seconds"], {"seconds": 33.0})
    w.clock.advance(HOUR)
    raised = {"answer": "raise", "data": {"seconds": 33}}
    path = f"P/decisions/{w.get(job)['decision']}/answer"
    w.refused("invalid", "POST", path, raised, token="owner")
    w.refused("invalid", "POST", path, {"answer": "raise", "data": {"seconds": 60, "usd": 5}}, token="owner")
    w.ok("POST", path, {"answer": "raise", "data": {"seconds": 60}}, token="owner")
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.clock.advance(26)
    w.ok("POST", "P/heartbeat", {})
    assert w.get(job)["status"] == "in_progress"
    w.clock.advance(2)
    w.ok("POST", "P/heartbeat", {})
    assert w.get(job)["status"] == "blocked"
    settled(w)


def test_sleep_is_not_metered(w: CheckedWorld) -> None:
    """Three hours in which the machine slept: the bus moves the leases, and nobody worked."""
    job, fence = held(w, budget={"seconds": 600, "count": "metered"})
    w.clock.advance(10)
    w.clock.advance(3 * HOUR)
    timers.bus_resumed(w.bus, 3 * HOUR * 1_000)
    w.clock.advance(10)
    w.ok("POST", "P/heartbeat", {})
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    assert w.get(job)["usage"]["metered"] == {"seconds": 20.0}


# ---- a budget that is spent before the claim


def test_nobody_claims_a_job_whose_budget_is_spent(w: CheckedWorld) -> None:
    job = spent_job(w)
    refused = w.refused("budget_spent", "POST", f"P/jobs/{job}/claim", {})
    assert "1.5 USD of 1 USD" in refused.body["detail"]
    assert "until" not in refused.body
    reasons = w.ok("GET", f"P/jobs/{job}/explain")["reasons"]
    assert [reason["code"] for reason in reasons] == ["budget_spent"]
    assert w.ok("POST", "P/claims", {})["skipped"] == {"budget_spent": 1}
    free = w.job()
    assert w.ok("POST", "P/claims", {})["job"]["id"] == free
    w.enrol("tester", ("qa",))
    w.refused("wrong_role", "POST", f"P/jobs/{job}/claim", {}, token="tester")
    (item,) = needs(w)
    assert (item["kind"], item["job"], item["allowed"]) == ("budget_spent", job, ["edit", "cancel"])
    settled(w)


def test_attention_finds_it_among_healthy_jobs_and_while_it_waits(w: CheckedWorld) -> None:
    job, healthy = spent_job(w), w.job(budget={"usd": 1})
    upstream = w.job()
    w.ok("POST", f"P/jobs/{job}/links", {"type": "blocks", "upstream": upstream}, token="owner")
    assert w.get(job)["status"] == "pending"
    assert [(item["kind"], item["job"]) for item in needs(w)] == [("budget_spent", job)]
    edit(w, job, budget=None)
    assert needs(w) == []
    assert w.get(healthy)["budget"]["spent"] is False
    settled(w)


@pytest.mark.parametrize("budget", [{"usd": 1.5}, {"usd": 9, "tokens": 5}, {"tokens": 1}, None])
def test_an_owner_lets_it_go_on(w: CheckedWorld, budget: Any) -> None:
    job = spent_job(w)
    reply = edit(w, job, budget=budget)
    assert reply.status == 200
    whole = budget and {
        "tokens": None,
        "usd": None,
        "seconds": None,
        **budget,
        "count": "reported",
        "spent": False,
    }
    assert reply.body["job"]["budget"] == whole
    (event,) = events(w, job, "updated")
    before = {"tokens": None, "usd": 1.0, "seconds": None}
    after = budget and {"tokens": None, "usd": None, "seconds": None, **budget}
    assert event["data"]["changes"] == {"budget": [before, after]}
    assert needs(w) == []
    assert w.ok("POST", "P/claims", {})["job"]["id"] == job
    settled(w)


def test_a_budget_below_what_is_spent_keeps_it_where_it_is(w: CheckedWorld) -> None:
    job = spent_job(w)
    assert edit(w, job, budget={"usd": 1.25}).body["job"]["budget"]["spent"] is True
    w.refused("budget_spent", "POST", f"P/jobs/{job}/claim", {})
    other, fence = held(w)
    w.ok("POST", f"P/jobs/{other}/release", {"fence": fence, "usage": {"usd": 5}})
    assert edit(w, other, budget={"usd": 4}).status == 200
    assert {(item["kind"], item["job"]) for item in needs(w)} == {
        ("budget_spent", job),
        ("budget_spent", other),
    }
    settled(w)


@pytest.mark.parametrize(
    ("status", "accepted"),
    [("published", True), ("pending", True), ("failed", True), ("in_progress", False), ("blocked", False), ("unblocked", False),
     ("completed", False), ("cancelled", False)],
)  # fmt: skip
def test_a_budget_is_edited_while_nobody_holds_the_job(w: CheckedWorld, status: str, accepted: bool) -> None:
    job, _ = w.job_in(status)
    reply = edit(w, job, budget={"usd": 1})
    assert reply.code == (None if accepted else "wrong_state")
    assert (w.get(job)["budget"] is not None) is accepted


def test_only_an_owner_changes_a_budget(w: CheckedWorld) -> None:
    job = w.job(budget={"usd": 1})
    for budget in (None, {"usd": 9}):
        assert edit(w, job, "agent", budget=budget).code == "forbidden"
    for budget in ({}, {"usd": -1}, {"usd": 1, "count": "metered"}, {"usd": 1, "count": "both"}, 5):
        assert edit(w, job, budget=budget).code == "invalid"
    assert edit(w, job, budget={"usd": 1, "dollars": 2}).code == "unknown_field"
    version = w.get(job)["version"]
    assert edit(w, job, budget={"usd": 1, "count": "reported"}).status == 200
    assert w.get(job)["version"] == version, "nothing has changed"


def test_a_failed_job_comes_back_by_retry_and_goes_on_by_a_new_budget(w: CheckedWorld) -> None:
    job, fence = held(w, budget={"usd": 1})
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r", "usage": {"usd": 2}})
    w.refused("budget_spent", "POST", f"P/jobs/{job}/restart", {})
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    w.refused("budget_spent", "POST", f"P/jobs/{job}/claim", {})
    assert [item["kind"] for item in needs(w)] == ["budget_spent"]
    edit(w, job, budget={"usd": 3})
    fence = w.claim(job)
    assert beat(w, job, fence, usd=1)["status"] == "in_progress"
    assert beat(w, job, fence, usd=1.01)["status"] == "blocked", "claims before count too"
    settled(w)


def test_a_failed_job_is_restarted_once_its_budget_is_raised(w: CheckedWorld) -> None:
    job, fence = held(w, budget={"usd": 1})
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r", "usage": {"usd": 2}})
    edit(w, job, budget={"usd": 3})
    w.ok("POST", f"P/jobs/{job}/restart", {})
    assert w.get(job)["usage"]["reported"]["usd"] == 2


def test_a_lapsed_job_beyond_its_budget_is_freed_and_refused(w: CheckedWorld) -> None:
    w.enrol("bob")
    job, fence = held(w, "bob", budget={"seconds": 10, "count": "metered"}, lease_seconds=30)
    w.clock.advance(33)
    assert w.call("POST", f"P/jobs/{job}/claim", {}).code == "budget_spent"
    assert (w.get(job)["status"], w.get(job)["fence"]) == ("published", fence + 1)
    assert [item["kind"] for item in needs(w)] == ["budget_spent"]
    settled(w)


def test_plans_and_creation_take_budgets(w: CheckedWorld) -> None:
    given = {"tokens": 10, "usd": 0.5, "seconds": 1.5}
    shown = {**given, "count": "reported", "spent": False}
    assert w.get(w.job(budget=given))["budget"] == shown
    assert w.get(w.job(budget=None))["budget"] is None
    entry = {"ref": "a", "summary": "s", "role": "developer"}
    made = w.ok("POST", "P/plans", {"jobs": [{**entry, "budget": given}, {**entry, "ref": "b"}]})["jobs"]
    w.pump()
    assert w.get(made["a"])["budget"] == shown
    assert w.get(made["b"])["budget"] is None


# ---- lineages


@pytest.mark.parametrize("count", ["reported", "metered"])
def test_a_budget_is_that_of_the_job_and_its_retries(w: CheckedWorld, count: str) -> None:
    """Two rejections: the third life begins with what the two before used, and its reports keep that."""
    w.enrol("critic", ("developer", "reviewer"))
    target = w.job(budget={"seconds": 100, "count": count})
    for number in range(2):
        fence = w.claim(target)
        w.clock.advance(40)
        w.ok(
            "POST", f"P/jobs/{target}/complete", {"fence": fence, "usage": {"seconds": 40, "usd": 1 + number}}
        )
        job, review_fence = review(w, target)
        target = reject(w, job, review_fence, target)["retry"]["id"]
    shown = w.get(target)
    assert shown["usage"]["earlier"] == {"input_tokens": 0, "output_tokens": 0, "usd": 3.0, "seconds": 80.0}
    assert (shown["usage"]["reported"]["seconds"], shown["budget"]["seconds"]) == (0, 100.0)
    fence = w.claim(target)
    w.clock.advance(20)
    assert beat(w, target, fence, seconds=20)["status"] == "in_progress"
    assert w.get(target)["usage"]["earlier"]["seconds"] == 80.0
    w.clock.advance(1)
    assert beat(w, target, fence, seconds=21)["status"] == "blocked"
    (event,) = events(w, target, "budget_exceeded")
    assert event["data"]["spent"]["seconds"] == 101.0
    settled(w)


def test_a_retry_of_a_lineage_that_spent_its_budget_waits_for_an_owner(w: CheckedWorld) -> None:
    w.enrol("critic", ("developer", "reviewer"))
    target, fence = held(w, budget={"usd": 1})
    w.ok("POST", f"P/jobs/{target}/complete", {"fence": fence, "usage": {"usd": 2}})
    job, review_fence = review(w, target)
    retry = reject(w, job, review_fence, target)["retry"]["id"]
    w.refused("budget_spent", "POST", f"P/jobs/{retry}/claim", {})
    assert [(item["kind"], item["job"]) for item in needs(w)] == [("budget_spent", retry)]
    edit(w, retry, budget={"usd": 5})
    w.claim(retry)
    settled(w)
