"""Heads and payloads as items: what goes in comes back, and index keys follow the state."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_jsonio import free, ordered
from tests.unit.test_lifecycle import NOW, job_in

from interlock.domain.identity import Agent, Owner, Project, Role, Token
from interlock.domain.job import Job
from interlock.domain.lifecycle import STATUSES
from interlock.store import items, keys, rules
from interlock.store.items import Head
from interlock.store.ports import Key, Put

digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
small = st.text(max_size=12)
names = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=20)
moments = st.integers(1, 253_402_300_799_999)
texts = st.tuples(small.filter(bool)) | st.just(())
tokens = st.lists(
    st.builds(Token, id=names, hash=st.binary(min_size=32, max_size=32), name=small, created_at=moments, expires_at=st.just(0) | moments, revoked_at=st.just(0) | moments),
    max_size=3,
).map(tuple)  # fmt: skip
memory = st.lists(st.binary(min_size=16, max_size=16), max_size=8).map(tuple)
common = {"version": st.integers(1, 10**9), "digest": digests, "ops": memory}
people = {
    **common,
    "id": names,
    "label": small.filter(bool),
    "created_at": moments,
    "tokens": tokens,
    "retired_at": st.just(0) | moments,
    "request": st.binary(min_size=16, max_size=16),
}
optional_text = st.none() | small.filter(bool)
optional_time = st.none() | moments

agents = st.builds(Agent, project=names, roles=texts, capabilities=texts, tool_family=optional_text, **people)
owners = st.builds(Owner, scope=names, rights=st.sampled_from(["owner", "viewer"]), **people)
roles = st.builds(
    Role, key=names, label=small, created_at=moments, lease_seconds=st.none() | st.integers(30, 86_400),
    on_expire=st.none() | st.sampled_from(["publish", "fail"]), capabilities=texts,
)  # fmt: skip
projects = st.builds(
    Project, id=names, title=small.filter(bool), created_at=moments,
    settings=st.fixed_dictionaries({"visibility": st.sampled_from(["project", "roles"]), "cancel_overdue": st.booleans()}),
    roles=st.lists(roles, max_size=3).map(lambda found: {role.key: role for role in found}), former_roles=texts,
    pauses=st.dictionaries(small, st.fixed_dictionaries({"since": moments, "by": names, "reason": st.none() | small}), max_size=2),
    **common,
)  # fmt: skip
_TIMES = {
    f.name
    for f in fields(Job)
    if f.name.endswith(("_at", "_until", "_first")) or f.name in ("not_before", "deadline", "overdue")
}
jobs = st.builds(
    Job, id=names, project=names, status=st.sampled_from(STATUSES), role=names, summary=small.filter(bool), priority=st.sampled_from([10, 20, 30, 40]),
    source=names, source_label=small.filter(bool), assignee=optional_text, session=optional_text, blocked_reason=optional_text,
    requires=texts, capabilities=texts, claim_key=st.none() | st.binary(min_size=8, max_size=8), result=st.none() | st.binary(min_size=1, max_size=50),
    last_failure=st.none() | st.fixed_dictionaries({"attempt": st.integers(1, 21), "at": moments, "reason": small.filter(bool), "by": names}),
    fence=st.integers(0, 10**6), lease_hop=st.none() | st.integers(1, 99), context=st.just("") | names, rev=st.integers(1, 99),
    **{name: moments if name in ("created_at", "updated_at") else optional_time for name in _TIMES}, **common,
)  # fmt: skip


@given(free)
def test_payloads_come_back_as_they_were(value: Any) -> None:
    assert ordered(items.unpack(items.pack(value))) == ordered(value)


def test_small_events_and_large_documents_pack_well() -> None:
    (event,) = items.unpack(items.pack([{"seq": 1, "type": "job.created"}]))
    assert event == {"seq": 1, "type": "job.created"}
    large = {"lines": ["the same line again"] * 10_000}
    assert len(items.pack(large)) < 2_000
    assert items.unpack(items.pack(large)) == large


@pytest.mark.parametrize("heads", [jobs, projects, agents, owners], ids=["job", "project", "agent", "owner"])
def test_a_head_survives_the_store(heads: st.SearchStrategy[Head]) -> None:
    @given(heads)
    def survives(head: Head) -> None:
        key = items.head_key(head)
        image = rules.put_image(Put(key, {**items.attributes_of(head), **items.index_keys(head)}))
        rules.check_size(image)
        assert None not in image.values()
        assert items.read(image) == head

    survives()


@pytest.mark.parametrize("heads", [jobs, projects, agents, owners], ids=["job", "project", "agent", "owner"])
def test_a_head_changed_to_another_by_its_attributes_is_the_other(heads: st.SearchStrategy[Head]) -> None:
    @given(heads, heads)
    def becomes(old: Head, new: Head) -> None:
        new = replace(new, id=old.id, **{n: getattr(old, n) for n in ("project", "scope") if hasattr(old, n)})
        values = {
            f.name: getattr(new, f.name) for f in fields(new) if f.name not in ("id", "project", "scope")
        }
        to_set, to_remove = items.encode(values)
        image = {"pk": items.head_key(old).pk, **items.attributes_of(old)}
        image = {name: value for name, value in {**image, **to_set}.items() if name not in to_remove}
        assert items.read(image) == new

    becomes()


def test_a_head_names_its_entity_and_key() -> None:
    job = job_in("published")
    key = items.head_key(job)
    assert key == Key("default#job#job_x", "HEAD")
    assert keys.entity_of(key.pk) == ("default", "job", "job_x")
    assert items.entity(job) == f"job/{job.id}" == job.entity


@pytest.mark.parametrize(
    ("status", "partition"),
    [
        ("published", "default#ready#developer"), ("in_progress", "default#live"), ("blocked", "default#live"),
        ("unblocked", "default#live"), ("pending", "default#waiting"), ("failed", "default#failed"),
        ("completed", None), ("cancelled", None),
    ],
)  # fmt: skip
def test_what_may_still_move_is_indexed_by_what_it_waits_for(status: str, partition: str | None) -> None:
    assert items.index_keys(job_in(status)).get("g1pk") == partition


def test_the_board_sorts_by_priority_then_age() -> None:
    def place(priority: int, published: int, job_id: str) -> str:
        return items.index_keys(job_in("published", priority=priority, published_at=published, id=job_id))[
            "g1sk"
        ]

    wanted = [
        place(40, NOW, "a"),
        place(30, NOW - 5, "a"),
        place(20, NOW - 9, "b"),
        place(20, NOW, "a"),
        place(20, NOW, "b"),
        place(10, 0, "a"),
    ]
    assert wanted == sorted(wanted)


def test_held_jobs_are_grouped_by_holder_oldest_claim_first() -> None:
    def place(agent: str, started: int) -> str:
        return items.index_keys(job_in("blocked", assignee=agent, started_at=started))["g1sk"]

    wanted = [place("agt_a", 1), place("agt_a", 2), place("agt_b", 0)]
    assert wanted == sorted(wanted)
    assert wanted[0].startswith("agt_a#")


@given(
    st.lists(
        st.fixed_dictionaries({"seq": st.integers(1, 99), "data": st.dictionaries(small, small)}),
        max_size=4,
        unique_by=lambda e: e["seq"],
    )
)
def test_events_keep_their_data_or_name_where_it_is(events: list[dict[str, Any]]) -> None:
    staged = {event["seq"]: "abc" for event in events[::2]}
    found = items.unpack(items.pack_events(events, staged))
    for before, after in zip(events, found, strict=True):
        if before["seq"] in staged:
            assert after == {**before, "data": None, "large": "abc"}
        else:
            assert after == before


def test_a_ledger_row_has_its_place_in_the_feed() -> None:
    event = {"seq": 12, "type": "custom.x"}
    row = items.log_row("default#job#job_x", event, NOW)
    assert row["sk"] == "LOG#0000000012"
    assert row["g2pk"] == "default#feed"
    assert row["g2sk"].startswith(f"{NOW}#")
    assert items.unpack(row["events"]) == [event]
