"""The hash chain: what seals it, and that nothing can be changed, dropped or put in unseen."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.ledger import GENESIS, Fact, Finding, canonical, digest_of, seal, verify

ACTOR = {"kind": "agent", "id": "agt_a", "label": "a"}
NOW = 1_796_072_400_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def chain(length: int, entity: str = "job/job_x") -> list[dict[str, Any]]:
    """A sealed chain, written two events at a time."""
    events: list[dict[str, Any]] = []
    version, digest = 0, GENESIS
    while len(events) < length:
        facts = [Fact("custom.step", "published", None, {"n": len(events) + i}) for i in range(2)]
        sealed = seal(entity, version, digest, NOW + len(events), ACTOR, facts[: length - len(events)])
        events += sealed.events
        version, digest = sealed.version, sealed.digest
    return events


def kinds(findings: list[Finding]) -> list[tuple[int, str]]:
    return [(found.seq, found.kind) for found in findings]


def test_an_event_looks_as_it_is_served() -> None:
    sealed = seal(
        "job/job_x", 0, GENESIS, NOW, ACTOR, [Fact("job.created", None, "published", {"role": "qa"})]
    )
    (event,) = sealed.events
    assert list(event) == ["seq", "at", "type", "entity", "actor", "from", "to", "data", "prev", "digest"]
    assert (event["seq"], event["prev"], event["at"]) == (1, "0" * 64, "2026-11-30T21:00:00.000Z")
    assert (sealed.version, sealed.digest) == (1, event["digest"])


def test_the_digest_is_what_the_documentation_says() -> None:
    (event,) = seal("job/job_x", 4, "ab" * 32, NOW, ACTOR, [Fact("custom.x", data={"é": "\ud800"})]).events
    body = {name: value for name, value in event.items() if name != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert event["digest"] == hashlib.sha256(("ab" * 32 + text).encode("ascii")).hexdigest()


def test_canonical_text_is_sorted_ascii_without_spaces() -> None:
    assert canonical({"b": [1, 2.5], "a": "é\ud800\x00"}) == b'{"a":"\\u00e9\\ud800\\u0000","b":[1,2.5]}'


@given(st.dictionaries(st.text(), values, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(data: dict[str, Any], rng: random.Random) -> None:
    names = list(data)
    rng.shuffle(names)
    assert canonical({name: data[name] for name in names}) == canonical(data)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_a_chain_survives_a_round_trip_as_json(data: dict[str, Any]) -> None:
    sealed = seal("job/job_x", 0, GENESIS, NOW, ACTOR, [Fact("custom.x", None, None, data)])
    served = json.loads(json.dumps(list(sealed.events)))
    assert verify(served, {"job/job_x": (sealed.version, sealed.digest)}) == []


@given(st.integers(0, 9), st.randoms(use_true_random=False))
def test_a_whole_chain_is_right_in_any_order_and_with_repeats(length: int, rng: random.Random) -> None:
    events = chain(length)
    shown = [*events, *rng.sample(events, len(events) // 2)]
    rng.shuffle(shown)
    last = events[-1]["digest"] if events else GENESIS
    assert verify(shown, {"job/job_x": (length, last)}) == []


@given(st.data())
def test_any_changed_member_is_found_at_its_event(data: st.DataObject) -> None:
    events = chain(5)
    place = data.draw(st.integers(0, 4))
    name = data.draw(st.sampled_from(["at", "type", "actor", "from", "to", "data", "prev", "digest"]))
    changed = copy.deepcopy(events)
    changed[place][name] = {
        "actor": {**ACTOR, "id": "agt_b"},
        "data": {"n": -1},
        "prev": "1" * 64,
        "digest": "2" * 64,
    }.get(name, "else")
    (found,) = verify(changed)
    assert found.kind == "broken"
    assert found.seq == place + 1
    assert found.entity == "job/job_x"


@given(st.integers(1, 4))
def test_a_missing_event_is_a_hole_and_named_as_one(place: int) -> None:
    events = [event for event in chain(5) if event["seq"] != place]
    (found,) = verify(events)
    assert (found.seq, found.kind) == (place, "hole")
    assert str(place) in found.detail


def test_a_renumbered_event_does_not_hide_a_hole() -> None:
    events = chain(5)
    left = [dict(event) for event in events if event["seq"] != 3]
    left[2]["seq"], left[3]["seq"] = 3, 4
    assert kinds(verify(left)) == [(3, "broken")]


def test_two_events_with_one_number_are_a_fork() -> None:
    events = chain(3)
    (twin,) = seal("job/job_x", 1, events[0]["digest"], NOW, ACTOR, [Fact("custom.other")]).events
    assert (2, "fork") in kinds(verify([*events, twin]))
    assert (2, "fork") in kinds(verify([twin, *events]))


def test_a_rebuilt_tail_is_found_by_the_heads_digest() -> None:
    events = chain(4)
    forged = seal("job/job_x", 2, events[1]["digest"], NOW, ACTOR, [Fact("custom.a"), Fact("custom.b")])
    assert verify([*events[:2], *forged.events]) == [], "a chain alone cannot know"
    heads = {"job/job_x": (4, events[-1]["digest"])}
    assert kinds(verify([*events[:2], *forged.events], heads)) == [(4, "broken")]


def test_a_ledger_behind_its_head_is_short() -> None:
    events = chain(4)
    heads = {"job/job_x": (4, events[-1]["digest"]), "job/job_gone": (2, "ab" * 32)}
    assert kinds(verify(events[:3], heads)) == [(1, "short"), (4, "short")]


def test_a_ledger_ahead_of_its_head_is_no_fault() -> None:
    events = chain(4)
    assert verify(events, {"job/job_x": (2, events[1]["digest"])}) == []
    assert kinds(verify(events, {"job/job_x": (2, "ab" * 32)})) == [(2, "broken")]


def test_entities_have_chains_of_their_own() -> None:
    mixed = [*chain(3, "job/job_a"), *chain(2, "job/job_b")]
    assert verify(mixed) == []
    del mixed[1]
    assert [(found.entity, found.seq, found.kind) for found in verify(mixed)] == [("job/job_a", 2, "hole")]


def test_an_event_of_one_chain_does_not_fit_into_another() -> None:
    mine, theirs = chain(3), chain(3, "job/job_y")
    swapped = [mine[0], {**theirs[1], "entity": "job/job_x"}, mine[2]]
    assert kinds(verify(swapped)) == [(2, "broken")]


@pytest.mark.parametrize("length", [1, 4])
def test_one_write_numbers_its_events_one_after_the_other(length: int) -> None:
    facts = [Fact(f"custom.{number}") for number in range(length)]
    sealed = seal("job/job_x", 7, "cd" * 32, NOW, ACTOR, facts)
    assert [event["seq"] for event in sealed.events] == list(range(8, 8 + length))
    assert [event["prev"] for event in sealed.events] == [
        "cd" * 32, *(event["digest"] for event in sealed.events[:-1])
    ]  # fmt: skip
    assert all(digest_of(event) == event["digest"] for event in sealed.events)
