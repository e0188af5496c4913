"""Caps on claims in claim-next and explain: what is left out, what is tried again, what is told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.requests_caps import cap, held
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_caps import KINDS, racing, slots

from interlock.store import keys
from interlock.store.ports import Query


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def take(w: CheckedWorld, token: str = "agent", **body: Any) -> Any:
    """The answer of claim-next."""
    return w.ok("POST", "P/claims", body, token=token)


# ---- claim-next


def counted(w: CheckedWorld) -> list[str]:
    """The partitions that are queried from now on."""
    table, query, seen = w.bus.store.table, w.bus.store.table.query, list[str]()

    def noted(asked: Query) -> Any:
        seen.append(asked.pk)
        return query(asked)

    table.query = noted  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize("kind", ["agent", "project"])
def test_nothing_is_walked_where_the_agent_or_the_project_is_full(w: CheckedWorld, kind: str) -> None:
    cap(w, kind, 1)
    held(w)
    w.job()
    w.job(role="qa")
    seen = counted(w)
    answer = take(w, roles=["developer", "qa"])
    assert answer["job"] is None
    assert answer["skipped"] == {"cap_reached": 2}
    assert answer["poll_after_ms"] >= 1_000
    assert [pk for pk in seen if "#slots#" not in pk] == []


def test_a_full_role_is_left_out(w: CheckedWorld) -> None:
    cap(w, "role", 1)
    held(w)
    w.job(priority="urgent")
    wanted = w.job(role="qa")
    seen = counted(w)
    answer = take(w, roles=["developer", "qa"])
    assert answer["job"]["id"] == wanted
    assert keys.ready_partition("default", "developer") not in seen
    assert take(w, roles=["developer"])["skipped"] == {"cap_reached": 1}


def test_claim_next_takes_a_slot_in_every_scope(w: CheckedWorld) -> None:
    for kind in KINDS:
        cap(w, kind, 2)
    jobs = [w.job(priority=priority) for priority in ("urgent", "high", "low")]
    assert [take(w)["job"]["id"] for _ in range(2)] == jobs[:2]
    answer = take(w, roles=["developer"])
    assert (answer["job"], answer["skipped"]) == (None, {"cap_reached": 1})
    for kind in KINDS:
        assert sorted(slots(w, kind).values()) == sorted((job, 1) for job in jobs[:2])


def test_claim_next_tries_a_lost_slot_again(w: CheckedWorld) -> None:
    cap(w, "project", 2)
    best, other = w.job(priority="urgent"), w.job()
    w.enrol("bob")
    racing(w, "claimable", lambda: w.claim(other, token="bob"))
    answer = take(w, roles=["developer"])
    assert answer["job"]["id"] == best, "the job was not lost"
    assert len(slots(w, "project")) == 2


def test_claim_next_ends_where_the_last_slot_is_lost(w: CheckedWorld) -> None:
    cap(w, "project", 1)
    w.job(priority="urgent")
    other = w.job()
    w.enrol("bob")
    racing(w, "claimable", lambda: w.claim(other, token="bob"))
    answer = take(w, roles=["developer", "qa"])
    assert (answer["job"], answer["skipped"]) == (None, {"cap_reached": 1})


def test_claim_next_goes_on_to_another_role_where_the_last_slot_is_lost(w: CheckedWorld) -> None:
    cap(w, "role", 1)
    w.job(priority="urgent")
    other, wanted = w.job(), w.job(role="qa", priority="low")
    w.enrol("bob")
    racing(w, "claimable", lambda: w.claim(other, token="bob"))
    assert take(w, roles=["developer", "qa"])["job"]["id"] == wanted


def test_claim_next_takes_the_slot_of_a_lapsed_lease(w: CheckedWorld) -> None:
    cap(w, "agent", 1)
    late, _ = held(w, lease_seconds=30, on_expire="fail")
    wanted = w.job()
    w.clock.advance(33)
    assert take(w)["job"]["id"] == wanted
    assert w.get(late)["status"] == "failed"


def test_a_keyed_claim_next_is_repeated_though_the_cap_is_reached(w: CheckedWorld) -> None:
    cap(w, "agent", 1)
    job = w.job()
    first = w.call("POST", "P/claims", {}, key="k")
    again = w.call("POST", "P/claims", {}, key="k")
    assert (first.body["job"]["id"], again.body["claim"]) == (job, first.body["claim"])
    assert again.headers["idempotency-replayed"] == "true"


def test_a_twin_of_a_keyed_claim_next_finds_what_the_other_took(w: CheckedWorld) -> None:
    cap(w, "agent", 1)
    job = w.job()
    table, query, todo = w.bus.store.table, w.bus.store.table.query, [None]

    def meanwhile(asked: Query) -> Any:
        if "#slots#" in asked.pk and todo:
            todo.pop()
            assert w.ok("POST", "P/claims", {}, key="k")["job"]["id"] == job
        return query(asked)

    table.query = meanwhile  # type: ignore[method-assign]
    second = w.call("POST", "P/claims", {}, key="k")
    assert second.body["job"]["id"] == job
    assert second.headers["idempotency-replayed"] == "true"


# ---- explain


def codes(w: CheckedWorld, job: str, token: str = "agent", **query: Any) -> list[str]:
    before = w.everything()
    answer = w.ok("GET", f"P/jobs/{job}/explain", token=token, query=query)
    assert w.everything() == before
    assert answer["claimable"] is (not answer["reasons"])
    return [reason["code"] for reason in answer["reasons"]]


def test_explain_names_every_cap_that_is_reached(w: CheckedWorld) -> None:
    job = w.job()
    for kind in KINDS:
        cap(w, kind, 1)
    assert codes(w, job) == []
    held(w, lease_seconds=30)
    assert codes(w, job) == ["cap_reached"] * 3
    assert codes(w, job, token="owner") == ["cap_reached"] * 2, "of nobody's own cap"
    me, bob = w.agent.split(".")[1], w.enrol("bob")
    assert codes(w, job, token="owner", agent=me) == ["cap_reached"] * 3
    assert codes(w, job, token="owner", agent=bob) == ["cap_reached"] * 2
    w.clock.advance(33)
    assert codes(w, job) == [], "a claim would end the lapsed lease"
    assert codes(w, w.job(capabilities=["gpu"])) == ["missing_capability"]
