"""Caps on claims: what a claim takes and leaves, who is refused and why, and what claim-next leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.requests_caps import cap, held
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_lifecycle import job_in

from interlock.app.caps import LOOK
from interlock.domain import caps
from interlock.domain.caps import Slot
from interlock.domain.identity import Actor, Agent, Project, Role
from interlock.store import keys
from interlock.store.ports import Query

KINDS = ("agent", "role", "project")


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def slots(w: CheckedWorld, kind: str = "agent", entity: str = "") -> dict[int, tuple[str, int]]:
    """The slots of a scope that were ever taken: number → (job, fence)."""
    own = {"agent": w.agent.split(".")[1], "role": "developer", "project": "default"}
    rows = w.engine.store.table.query(Query(keys.slots_partition("default", kind, entity or own[kind]))).items
    return {keys.slot_number(row["sk"]): (row["job"], row["fence"]) for row in rows}


def racing(w: CheckedWorld, name: str, before: Callable[[], object]) -> None:
    """Before the next transaction with a condition of this name something else happens, once."""
    table, transact, todo = w.bus.store.table, w.bus.store.table.transact, [before]

    def late(parts: Any) -> None:
        named = {part.condition.name for part in parts if part.condition is not None}
        if name in named and todo:
            todo.pop()()
        transact(parts)

    table.transact = late  # type: ignore[method-assign]


# ---- which slots are free


def live(*numbers: int) -> tuple[list[Slot], dict[str, Any]]:
    """Slots that are taken, and the heads of their jobs."""
    taken = [Slot(number, f"job_{number}", 1) for number in numbers]
    heads = {
        slot.job: replace(job_in("in_progress", assignee="agt_a"), id=slot.job, fence=1) for slot in taken
    }
    return taken, heads


@pytest.mark.parametrize(
    ("taken", "limit", "expected"),
    [
        ((), 1, [0]),
        ((), 3, [0, 1, 2]),
        ((1,), 3, [0, 2]),
        ((0, 1, 2), 3, []),
        # a cap that was lowered: what lives beyond it counts
        ((3,), 3, [0, 1]),
        ((3, 4), 3, [0]),
        ((2, 3, 4), 3, []),
        ((3, 4, 5), 3, []),
        ((0, 9), 3, [1]),
        ((0, 1, 9), 3, []),
        ((9,), 1, []),
        ((5, 6, 7, 8), 3, []),
    ],
)
def test_free_slots(taken: tuple[int, ...], limit: int, expected: list[int]) -> None:
    rows, heads = live(*taken)
    assert caps.free(rows, heads, limit) == expected
    assert caps.free(rows, {}, limit) == expected, "what is not known counts as live"
    assert caps.free(rows, dict.fromkeys(heads), limit) == list(range(limit)), "jobs that are gone"


@pytest.mark.parametrize("status", ["in_progress", "blocked", "unblocked"])
def test_a_held_job_keeps_its_slot(status: str) -> None:
    job = replace(job_in(status, assignee="agt_a"), fence=4)
    assert Slot(0, job.id, 4).live(job)
    assert not Slot(0, job.id, 3).live(job), "another claim of the same job"


@pytest.mark.parametrize("status", ["pending", "published", "completed", "failed", "cancelled"])
def test_a_job_that_nobody_holds_leaves_its_slot(status: str) -> None:
    assert not Slot(0, "j", 4).live(replace(job_in(status), fence=4))
    assert not Slot(0, "j", 4).live(None)


@given(st.sets(st.integers(0, 12)), st.integers(1, 8), st.data())
def test_racers_who_saw_the_same_never_exceed_the_cap(taken: set[int], limit: int, data: Any) -> None:
    """However many take what they found free, one each: no more live than the cap, or than lived before."""
    rows, heads = live(*taken)
    found = caps.free(rows, heads, limit)
    takers = data.draw(st.lists(st.sampled_from(found)) if found else st.just([]))
    assert len(taken | set(takers)) <= max(limit, len(taken))
    assert bool(found) is (len(taken) < limit), "there is room exactly when fewer live"


def test_a_claim_counts_in_the_scopes_that_have_a_cap() -> None:
    person = Agent(id="agt_a", project="default", label="a", created_at=0, roles=("developer",))
    roles = {key: Role(key, key, 0) for key in ("developer", "qa")}
    project = Project(id="default", title="D", created_at=0, roles=roles)
    actor = Actor("agent", "agt_a", "a", "default", roles=("developer",), person=person)
    assert caps.scopes(project, actor, "developer") == []
    whole = replace(
        project,
        settings={**project.settings, "max_claims": 5},
        roles={**roles, "qa": replace(roles["qa"], max_claims=3)},
    )
    mine = replace(actor, person=replace(person, max_claims=1))
    assert [(s.kind, s.id, s.cap) for s in caps.scopes(whole, mine, "qa")] == [
        ("agent", "agt_a", 1), ("role", "qa", 3), ("project", "default", 5)
    ]  # fmt: skip
    assert [s.kind for s in caps.scopes(whole, mine, "gone")] == ["agent", "project"]
    assert [s.kind for s in caps.scopes(project, mine, "developer")] == ["agent"]


# ---- setting caps


BAD = (0, 201, -1, "x", "3", True, 1.5, [3])


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_caps(w: CheckedWorld, kind: str, value: Any) -> None:
    agent = w.agent.split(".")[1]
    made: dict[str, tuple[str, Any]] = {
        "agent": ("P/agents", {"label": "b", "roles": ["qa"], "max_claims": value}),
        "role": ("P/roles", {"key": "extra", "label": "E", "max_claims": value}),
        "project": ("/v1/projects", {"id": "p2", "title": "T", "settings": {"max_claims": value}}),
    }
    edited = {"agent": f"P/agents/{agent}", "role": "P/roles/qa", "project": "P"}[kind]
    body = {"settings": {"max_claims": value}} if kind == "project" else {"max_claims": value}
    for method, path, sent in (("POST", *made[kind]), ("PATCH", edited, body)):
        reply = w.refused("invalid", method, path, sent, token="owner")
        assert [error["path"] for error in reply.body["errors"]] == [
            "settings/max_claims" if kind == "project" else "max_claims"
        ]


def test_caps_are_stored_shown_and_lifted(w: CheckedWorld) -> None:
    me = f"P/agents/{w.agent.split('.')[1]}"
    assert w.ok("GET", me, token="owner")["agent"]["max_claims"] is None
    made = w.ok("POST", "P/agents", {"label": "b", "roles": ["qa"], "max_claims": 200}, token="owner")
    assert made["agent"]["max_claims"] == 200
    role = w.ok("POST", "P/roles", {"key": "extra", "label": "E", "max_claims": 1}, token="owner")["role"]
    assert role["max_claims"] == 1
    project = {"id": "p2", "title": "T", "settings": {"max_claims": 7}}
    assert w.ok("POST", "/v1/projects", project, token="owner")["project"]["settings"]["max_claims"] == 7
    for value in (4, 2, None):
        for kind in KINDS:
            cap(w, kind, value)
        shown = w.ok("GET", me, token="owner")["agent"]["max_claims"]
        listed = {one["key"]: one["max_claims"] for one in w.ok("GET", "P/roles", token="owner")["items"]}
        settings = w.ok("GET", "P", token="owner")["project"]["settings"]
        assert (shown, listed["developer"], settings["max_claims"]) == (value, value, value)
        assert listed["qa"] is None
    w.dispatch()
    told = [
        event["data"]["changes"]["max_claims"]
        for event in w.ok("GET", "P/events", token="owner")["items"]
        if event["type"] == "agent.updated" and "max_claims" in event["data"]["changes"]
    ]
    assert told == [[None, 4], [4, 2], [2, None]]


# ---- claiming


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_claims_live_than_the_cap(w: CheckedWorld, kind: str) -> None:
    cap(w, kind, 2)
    jobs = [w.job() for _ in range(3)]
    fences = [w.claim(job) for job in jobs[:2]]
    refused = w.refused("cap_reached", "POST", f"P/jobs/{jobs[2]}/claim", {})
    who = {"agent": "agent " + w.ok("GET", "P/me")["actor"]["label"], "role": "role developer"}.get(
        kind, "project default"
    )
    assert who in refused.body["detail"]
    assert "2 claims" in refused.body["detail"]
    assert "owner" in refused.body["detail"]
    assert refused.body["job_status"] == "published"
    w.ok("POST", f"P/jobs/{jobs[0]}/complete", {"fence": fences[0]})
    w.claim(jobs[2])
    assert {job for job, _ in slots(w, kind).values()} == {jobs[1], jobs[2]}
    assert set(slots(w, kind)) == {0, 1}


def test_the_one_free_slot_of_many_is_found(w: CheckedWorld) -> None:
    """More than are looked at together."""
    limit = 2 * LOOK + 3
    cap(w, "project", limit)
    claims = [held(w) for _ in range(limit)]
    last = w.job()
    refused = w.refused("cap_reached", "POST", f"P/jobs/{last}/claim", {})
    assert f"{limit} claims" in refused.body["detail"]
    for job, fence in claims[:3]:
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
        taken = {number: claim for number, claim in slots(w, "project").items() if claim != (job, fence)}
        again = (last, w.claim(last))
        assert {**slots(w, "project"), **taken} == slots(w, "project"), "no slot of a live claim was taken"
        assert again in slots(w, "project").values()
        last = job


def test_scopes_without_a_cap_have_no_slots(w: CheckedWorld) -> None:
    held(w)
    assert [slots(w, kind) for kind in KINDS] == [{}, {}, {}]
    cap(w, "role", 3)
    held(w, role="qa")
    job, fence = held(w)
    assert [slots(w, kind) for kind in KINDS] == [{}, {**slots(w, "role")}, {}]
    assert list(slots(w, "role").values()) == [(job, fence)]


def test_caps_of_others_do_not_bind(w: CheckedWorld) -> None:
    bob = w.enrol("bob")
    cap(w, "agent", 1, bob)
    held(w, token="bob")
    held(w)
    held(w)
    w.refused("cap_reached", "POST", f"P/jobs/{w.job()}/claim", {}, token="bob")


ENDS: dict[str, Callable[[CheckedWorld, str, int], object]] = {
    "complete": lambda w, job, fence: w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}),
    "fail": lambda w, job, fence: w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"}),
    "release": lambda w, job, fence: w.ok("POST", f"P/jobs/{job}/release", {"fence": fence}),
    "stop": lambda w, job, _: w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r", "then": "fail"}, token="owner"),
    "cancel": lambda w, job, _: w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "r"}, token="owner"),
}  # fmt: skip


@pytest.mark.parametrize("way", ENDS)
def test_nothing_is_written_when_a_claim_ends_and_its_slot_is_free(w: CheckedWorld, way: str) -> None:
    for kind in KINDS:
        cap(w, kind, 1)
    job, fence = held(w)
    before = [slots(w, kind) for kind in KINDS]
    ENDS[way](w, job, fence)
    w.pump()
    assert [slots(w, kind) for kind in KINDS] == before == [{0: (job, fence)}] * 3
    again, fence = held(w)
    assert [slots(w, kind) for kind in KINDS] == [{0: (again, fence)}] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_blocked_and_unblocked_jobs_keep_their_slots(w: CheckedWorld, kind: str) -> None:
    cap(w, kind, 1)
    job, fence = held(w)
    other = w.job()
    for verb, body in (("block", {"reason": "r"}), ("unblock", {"reason": "r"}), ("resume", {})):
        w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": fence, **body})
        w.refused("cap_reached", "POST", f"P/jobs/{other}/claim", {})
        w.clock.advance(1)


@pytest.mark.parametrize("on_expire", ["publish", "fail", "ask"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_lapsed_lease_is_ended_before_its_slot_is_taken(w: CheckedWorld, kind: str, on_expire: str) -> None:
    w.enrol("bob")
    cap(w, kind, 1)
    token = "agent" if kind == "agent" else "bob"
    late, _ = held(w, token=token, lease_seconds=30, on_expire=on_expire)
    other = w.job()
    w.clock.advance(32)
    w.refused("cap_reached", "POST", f"P/jobs/{other}/claim", {})
    w.clock.advance(1)
    w.claim(other)
    assert w.get(late)["status"] == {"publish": "published", "fail": "failed", "ask": "blocked"}[on_expire]
    assert w.types(late)[-1] == "job.lease_expired"
    assert [job for job, _ in slots(w, kind).values()] == [other]


def test_a_lapsed_lease_is_left_alone_while_another_slot_is_free(w: CheckedWorld) -> None:
    cap(w, "project", 2)
    late, fence = held(w, lease_seconds=30)
    other = w.job()
    w.clock.advance(40)
    w.claim(other)
    w.ok("POST", "P/heartbeat", {"jobs": [{"id": late, "fence": fence}]})
    assert w.get(late)["status"] == "in_progress"


def test_a_job_that_lapsed_is_claimed_into_its_own_slot(w: CheckedWorld) -> None:
    for kind in KINDS:
        cap(w, kind, 1)
    job, _ = held(w, lease_seconds=30)
    w.clock.advance(40)
    fence = w.claim(job)
    assert [slots(w, kind) for kind in KINDS] == [{0: (job, fence)}] * 3
    assert w.types(job)[-2:] == ["job.lease_expired", "job.claimed"]
    events = w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"][-2:]
    assert {event["actor"]["kind"] for event in events} == {"agent"}, (
        "one write of the claim, not one of the bus before"
    )


def test_a_holder_who_renews_in_time_keeps_the_slot(w: CheckedWorld) -> None:
    cap(w, "project", 1)
    late, fence = held(w, lease_seconds=30)
    other = w.job()
    w.clock.advance(40)
    beat = {"jobs": [{"id": late, "fence": fence}]}
    table, write, todo = w.bus.store.table, w.bus.store.table.write, [None]

    def meanwhile(one: Any) -> Any:
        if one.condition is not None and one.condition.name == "lease_unrenewed" and todo:
            todo.pop()
            w.ok("POST", "P/heartbeat", beat)
        return write(one)

    table.write = meanwhile  # type: ignore[method-assign]
    assert w.call("POST", f"P/jobs/{other}/claim", {}).code == "cap_reached"
    assert not todo
    assert w.get(late)["status"] == "in_progress"


def test_a_lost_slot_is_no_lost_job(w: CheckedWorld) -> None:
    """Of two who found the same slot free one is faster; the other takes another slot, of the same job still."""
    cap(w, "project", 2)
    job, other = w.job(), w.job()
    w.enrol("bob")
    racing(w, "claimable", lambda: [w.claim(other, token="bob"), cap(w, "role", 9)])
    fence = w.claim(job)
    assert sorted(slots(w, "project").values()) == sorted([(job, fence), (other, 1)])


def test_who_lost_the_last_slot_is_refused(w: CheckedWorld) -> None:
    cap(w, "project", 1)
    job, other = w.job(), w.job()
    w.enrol("bob")
    racing(w, "claimable", lambda: w.claim(other, token="bob"))
    assert w.call("POST", f"P/jobs/{job}/claim", {}).code == "cap_reached"
    assert w.get(job)["status"] == "published"


@pytest.mark.parametrize("how", [{"key": "k"}, {"session": "s"}])
def test_a_twin_that_took_the_last_slot_is_no_stranger(w: CheckedWorld, how: dict[str, str]) -> None:
    """The call is made twice at once: the second finds the cap reached by the first."""
    cap(w, "agent", 1)
    job = w.job()
    key, body = how.get("key"), {name: value for name, value in how.items() if name != "key"}
    table, query, todo = w.bus.store.table, w.bus.store.table.query, [None]
    first: list[Any] = []

    def meanwhile(asked: Query) -> Any:
        if "#slots#" in asked.pk and todo:
            todo.pop()
            first.append(w.ok("POST", f"P/jobs/{job}/claim", body, key=key))
        return query(asked)

    table.query = meanwhile  # type: ignore[method-assign]
    second = w.call("POST", f"P/jobs/{job}/claim", body, key=key)
    assert second.status == 200
    assert second.headers["idempotency-replayed"] == "true"
    assert second.body["claim"] == first[0]["claim"]


# ---- lowered caps


@pytest.mark.parametrize("kind", KINDS)
def test_a_lowered_cap_counts_what_was_taken_before(w: CheckedWorld, kind: str) -> None:
    cap(w, kind, 5)
    claims = dict([held(w) for _ in range(5)])
    cap(w, kind, 2)
    other = w.job()
    order = sorted(slots(w, kind).items(), key=lambda slot: slot[0])
    for number, (_, (job, fence)) in enumerate(order):
        refused = w.call("POST", f"P/jobs/{other}/claim", {})
        assert refused.code == "cap_reached"
        assert f"{5 - number} claims" in refused.body["detail"]
        assert "is 2" in refused.body["detail"]
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
        if number == 3:
            break
    w.claim(other)
    w.refused("cap_reached", "POST", f"P/jobs/{w.job()}/claim", {})
    assert len(claims) == 5


def test_a_lifted_cap_binds_nobody(w: CheckedWorld) -> None:
    cap(w, "project", 1)
    held(w)
    cap(w, "project", None)
    held(w)
    assert len(slots(w, "project")) == 1


def test_a_cap_counts_the_claims_that_began_under_one(w: CheckedWorld) -> None:
    held(w)
    cap(w, "project", 1)
    held(w)
    w.refused("cap_reached", "POST", f"P/jobs/{w.job()}/claim", {})


# ---- restart


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_takes_a_slot_too(w: CheckedWorld, kind: str) -> None:
    cap(w, kind, 1)
    job, fence = held(w)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    other, fence = held(w)
    refused = w.refused("cap_reached", "POST", f"P/jobs/{job}/restart", {})
    assert refused.body["job_status"] == "failed"
    w.ok("POST", f"P/jobs/{other}/complete", {"fence": fence})
    fence = w.ok("POST", f"P/jobs/{job}/restart", {})["claim"]["fence"]
    assert slots(w, kind) == {0: (job, fence)}
    w.refused("cap_reached", "POST", f"P/jobs/{w.job()}/claim", {})


def test_spent_retries_are_told_before_a_cap(w: CheckedWorld) -> None:
    cap(w, "project", 1)
    job, fence = held(w, max_retries=0)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    held(w)
    w.refused("retries_spent", "POST", f"P/jobs/{job}/restart", {})


def test_a_restart_that_loses_its_slot_takes_another(w: CheckedWorld) -> None:
    cap(w, "project", 2)
    job, fence = held(w)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": fence, "reason": "r"})
    cap(w, "agent", 2)
    racing(w, "absent", lambda: held(w))
    fence = w.ok("POST", f"P/jobs/{job}/restart", {})["claim"]["fence"]
    assert (job, fence) in slots(w, "project").values()
    assert len({job for job, _ in slots(w, "project").values()}) == 2
