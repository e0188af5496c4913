"""claim-next: order, roles, what is skipped, lost races, late leases, repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.checked import ALONE, CheckedWorld, checked

from interlock.app import board
from interlock.store.ports import Page


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def take(w: CheckedWorld, token: str = "agent", **body: Any) -> str | None:
    """The id of the job that was claimed."""
    answer = w.ok("POST", "P/claims", body, token=token)
    return answer["job"] and str(answer["job"]["id"])


def nothing(w: CheckedWorld, token: str = "agent", **body: Any) -> dict[str, Any]:
    """The answer when there is nothing, which there must be."""
    answer = w.ok("POST", "P/claims", body, token=token)
    assert answer["job"] is None
    assert answer["claim"] is None
    return dict(answer)


def racing(w: CheckedWorld, before: Callable[[], object]) -> None:
    """Before the next claim is written, something else happens."""
    table, write, todo = w.bus.store.table, w.bus.store.table.write, [before]

    def late(item: Any) -> Any:
        if item.condition is not None and item.condition.name == "claimable" and todo:
            todo.pop()()
        return write(item)

    table.write = late  # type: ignore[method-assign]


def test_highest_priority_then_oldest(w: CheckedWorld) -> None:
    made = {}
    for name, priority in (("n1", 20), ("low", 10), ("n2", 20), ("urgent", 40), ("high", 30)):
        w.clock.advance(1)
        made[name] = w.job(priority=priority)
    assert [take(w) for _ in range(6)] == [made[n] for n in ("urgent", "high", "n1", "n2", "low")] + [None]


def test_the_answer_is_that_of_a_claim(w: CheckedWorld) -> None:
    job = w.job(context={"a": 1})
    answer = w.ok("POST", "P/claims", {"roles": ["developer"], "heartbeat_seconds": 10, "session": "s"})
    assert {**answer["job"], **ALONE} == w.get(job)
    assert answer["claim"] == {
        "fence": 1, "expires_at": "2026-11-30T21:00:30.000Z", "expires_in": 30, "lease_seconds": 30, "heartbeat_seconds": 10,
        "session": "s",
    }  # fmt: skip


def test_only_the_roles_that_were_asked_for(w: CheckedWorld) -> None:
    of_qa, of_ops = w.job(role="qa"), w.job(role="ops", priority=40)
    assert take(w, roles=["developer"]) is None
    assert take(w, roles=["qa", "developer", "qa"]) == of_qa
    assert take(w, roles=[]) == of_ops


def test_several_roles_compete_by_priority_and_age(w: CheckedWorld) -> None:
    made = []
    for role, priority in (("qa", 20), ("developer", 20), ("ops", 30), ("developer", 30)):
        w.clock.advance(1)
        made.append(w.job(role=role, priority=priority))
    roles = ["developer", "qa", "ops"]
    assert [take(w, roles=roles) for _ in range(4)] == [made[2], made[3], made[0], made[1]]


def test_roles_must_exist_and_be_ones_own(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",))
    w.refused("unknown_role", "POST", "P/claims", {"roles": ["chef"]}, token="b")
    w.refused("wrong_role", "POST", "P/claims", {"roles": ["qa", "developer"]}, token="b")
    w.ok("DELETE", "P/roles/qa", token="owner")
    w.refused("unknown_role", "POST", "P/claims", {"roles": ["qa"]}, token="b")
    assert nothing(w, "b")["skipped"] == {}


def test_nothing_now_says_when_to_ask_again(w: CheckedWorld) -> None:
    polls = {nothing(w)["poll_after_ms"] for _ in range(20)}
    assert all(1_000 <= poll < 2_000 for poll in polls)
    assert len(polls) > 10, "jitter"


def test_what_the_caller_may_not_take_is_skipped_and_counted(w: CheckedWorld) -> None:
    for _ in range(70):
        w.job(capabilities=["gpu"], priority=40)
    wanted = w.job(priority=10)
    assert take(w) == wanted
    assert nothing(w)["skipped"] == {"missing_capability": 70}


def test_pauses_are_skipped_and_noticed(w: CheckedWorld) -> None:
    w.job(role="qa")
    developers = w.job()
    w.ok("POST", "P/pause", {"role": "qa", "reason": "flaky"}, token="owner")
    assert take(w, roles=["qa", "developer"]) == developers
    answer = nothing(w)
    assert answer["skipped"] == {"paused": 1}
    assert [(n["code"], n["reason"]) for n in answer["notices"]] == [("paused", "flaky")]
    w.ok("POST", "P/pause", {"project": True}, token="owner")
    answer = nothing(w)
    assert answer["skipped"] == {"paused": 4}
    assert answer["poll_after_ms"] >= 5_000


def test_waiting_jobs_are_not_offered(w: CheckedWorld) -> None:
    w.job(not_before="2026-11-30T21:00:10Z")
    assert nothing(w)["skipped"] == {}


# ---- races


def test_a_lost_race_goes_on_to_the_next_candidate(w: CheckedWorld) -> None:
    w.enrol("b")
    first = w.job()
    w.clock.advance(1)
    second = w.job()
    racing(w, lambda: w.claim(first, "b"))
    assert take(w) == second


def test_a_race_lost_for_the_last_job_is_nothing_now_and_no_error(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    racing(w, lambda: w.claim(job, "b"))
    answer = nothing(w)
    assert answer["skipped"] == {"already_claimed": 1}


def test_a_job_whose_role_changed_under_the_claim_is_left_alone(w: CheckedWorld) -> None:
    w.enrol("b", ("developer",))
    job = w.job()
    move = {"role": "qa"}
    racing(w, lambda: w.ok("PATCH", f"P/jobs/{job}", move, token="owner", headers={"If-Match": '"v1"'}))
    assert take(w, "b") is None
    assert w.get(job)["status"] == "published"


def test_as_many_winners_as_jobs(w: CheckedWorld) -> None:
    jobs = {w.job() for _ in range(4)}
    for number in range(12):
        w.enrol(f"a{number}")
    taken = [take(w, f"a{number}") for number in range(12)]
    assert {job for job in taken if job} == jobs
    assert taken.count(None) == 8


def test_after_a_lost_race_equals_are_taken_at_random(w: CheckedWorld) -> None:
    w.enrol("b")
    taken = set()
    for seed in range(12):
        inner = checked(seed)
        inner.enrol("b")
        jobs = []
        for _ in range(9):
            inner.clock.advance(1)
            jobs.append(inner.job())
        racing(inner, lambda inner=inner, jobs=jobs: inner.claim(jobs[0], "b"))
        taken.add(jobs.index(take(inner) or ""))
    assert len(taken) > 3
    assert 0 not in taken


def test_a_race_is_never_an_excuse_for_less_urgent_work(w: CheckedWorld) -> None:
    w.enrol("b")
    urgent = [w.job(priority=40) for _ in range(2)]
    for _ in range(10):
        w.job()
    racing(w, lambda: w.claim(urgent[0], "b"))
    taken = take(w)
    assert w.get(str(taken))["priority"] == 40


def test_the_walk_is_bounded_by_time(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        w.job()
    ticks = iter(range(0, 10**9, board.WALK_MS))
    start = w.clock.now
    monkeypatch.setattr(type(w.clock), "__call__", lambda self: start + next(ticks))
    assert take(w) is None


# ---- what is late


def test_when_nothing_is_free_late_leases_are_ended_in_passing(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(64)
    assert take(w, "b") is None
    w.clock.advance(2)
    assert take(w, "b") == job
    assert w.types(job) == ["job.created", "job.claimed", "job.lease_expired", "job.claimed"]


def test_late_leases_of_other_roles_are_left_to_their_timers(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",))
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(100)
    assert take(w, "b") is None
    assert w.get(job)["status"] == "in_progress"


def test_a_renewed_lease_is_not_late(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(50)
    w.ok("POST", "P/heartbeat", {})
    w.clock.advance(50)
    assert take(w, "b") is None
    assert w.get(job)["status"] == "in_progress"


def test_when_nothing_is_free_due_jobs_are_opened_in_passing(w: CheckedWorld) -> None:
    job = w.job(not_before="2026-11-30T21:00:10Z")
    w.clock.advance(10)
    assert take(w) == job
    assert w.types(job) == ["job.created", "job.activated", "job.claimed"]


# ---- repeats


def test_a_repeated_call_with_a_key_answers_the_same_job(w: CheckedWorld) -> None:
    jobs = {w.job(), w.job()}
    first = w.ok("POST", "P/claims", {}, key="K")
    again = w.call("POST", "P/claims", {}, key="K")
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["claim"] == first["claim"]
    assert again.body["job"]["id"] == first["job"]["id"]
    other = w.ok("POST", "P/claims", {}, key="L")
    assert {first["job"]["id"], other["job"]["id"]} == jobs
    w.refused("idempotency_mismatch", "POST", "P/claims", {"roles": ["qa"]}, key="K")


def test_a_repeat_after_the_claim_has_ended_says_so(w: CheckedWorld) -> None:
    job = w.job()
    w.ok("POST", "P/claims", {}, key="K")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})
    again = w.ok("POST", "P/claims", {}, key="K")
    assert (again["claim"], again["job"]["status"]) == (None, "completed")


def test_a_call_that_found_nothing_is_asked_anew(w: CheckedWorld) -> None:
    nothing(w, roles=["developer"])
    assert w.ok("POST", "P/claims", {}, key="K")["job"] is None
    job = w.job()
    assert w.ok("POST", "P/claims", {}, key="K")["job"]["id"] == job


def test_the_twin_of_a_keyed_call_answers_what_the_first_one_took(w: CheckedWorld) -> None:
    for _ in range(3):
        w.job()
    won = []

    def twin() -> None:
        won.append(w.ok("POST", "P/claims", {}, key="K"))

    table, transact, todo = w.bus.store.table, w.bus.store.table.transact, [twin]

    def late(parts: Any) -> None:
        if todo:
            todo.pop()()
        transact(parts)

    table.transact = late  # type: ignore[method-assign]
    answer = w.ok("POST", "P/claims", {}, key="K")
    assert answer["job"]["id"] == won[0]["job"]["id"]
    assert answer["claim"] == won[0]["claim"]
    assert len(w.ok("GET", "P/me")["claims"]) == 1


def test_one_session_may_take_several_jobs(w: CheckedWorld) -> None:
    jobs = {w.job(), w.job()}
    assert {take(w, session="s"), take(w, session="s")} == jobs


def test_overdue_work_is_noticed_by_who_takes_it(w: CheckedWorld) -> None:
    job = w.job(deadline="2026-11-30T21:00:10Z")
    w.pump()
    w.clock.advance(20)
    w.pump()
    answer = w.ok("POST", "P/claims", {})
    assert [(n["code"], n["job"]) for n in answer["notices"]] == [("overdue", job)]


def test_owners_claim_nothing(w: CheckedWorld) -> None:
    job = w.job()
    w.refused("forbidden", "POST", "P/claims", {}, token="owner")
    w.refused("forbidden", "POST", f"P/jobs/{job}/claim", {}, token="owner")


def test_an_index_that_lags_only_proposes(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w.enrol("b")
    jobs = []
    for _ in range(12):
        w.clock.advance(1)
        jobs.append(w.job())
    table, query = w.bus.store.table, w.bus.store.table.query
    stale: dict[Any, Any] = {}

    def lagging(asked: Any) -> Any:
        if asked.index != 1:
            return query(asked)
        page = stale.setdefault(asked, query(asked))
        return Page(list(page.items), page.more)

    monkeypatch.setattr(table, "query", lagging)
    assert take(w, "b") == jobs[0]
    taken = [take(w) for _ in range(6)]
    assert len(set(taken)) == 6
    assert jobs[0] not in taken
    assert taken != jobs[1:7], "what is gone spreads the racers"
