"""Answers that fit: whatever is in a job, nothing is cut silently, and nothing that matters for the next call is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.speaker import Speaker
from tests.sim.world import world

from interlock.edges.mcp import brief

TEXTS = (
    st.text(max_size=40)
    | st.integers(100, 1_500).map("wide ".__mul__)
    | st.integers(10, 900).map("作".__mul__)
)
LEAVES = st.none() | st.booleans() | st.integers() | TEXTS
MANY = LEAVES.map(lambda each: [each] * 60) | LEAVES.map(
    lambda each: {f"key {number}": each for number in range(60)}
)
VALUES = st.recursive(
    LEAVES | MANY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=6,
)
ANSWERS = st.dictionaries(st.sampled_from(["job", "events", "claims", "window"]), VALUES, min_size=1)


def same_kind(before: Any, after: Any) -> None:
    """Every value that is shown is of the kind it was, and what is shown of a text is its beginning."""
    assert type(before) is type(after)
    if isinstance(before, dict):
        assert after.keys() <= before.keys()
        for name in after:
            same_kind(before[name], after[name])
    elif isinstance(before, list):
        assert len(after) <= len(before)
        for one, other in zip(before, after, strict=False):
            same_kind(one, other)
    elif isinstance(before, str) and before != after:
        assert before.startswith(after[:-1])
        assert after.endswith("…")
        assert len(after) >= brief.KEPT
    else:
        assert before == after


@given(ANSWERS)
def test_what_is_cut_is_said_and_keeps_its_kind(value: dict[str, Any]) -> None:
    shown, cuts = brief.fit(value)
    same_kind(value, shown)
    assert (shown == value) == (cuts == [])
    if brief.weight(value) <= brief.ROOM:
        assert shown == value
    assert {cut.partition("/")[0] for cut in cuts} <= value.keys()
    changed = {name for name in value if shown.get(name) != value[name]}
    assert len(cuts) == 10 or changed <= {cut.partition("/")[0] for cut in cuts}


def deep(levels: int) -> Any:
    return {"a": deep(levels - 1), "b": [deep(levels - 1)]} if levels else "leaf"


CONTEXTS = {
    "one long text": {"text": "many words of it " * 14_000},
    "many keys": {f"key {number}": "value" * 5 for number in range(5_000)},
    "long keys": {"k" * 3_000 + str(number): 1 for number in range(60)},
    "deep": deep(11),
    "a long list": {"list": [{"n": number, "text": "x y " * 10} for number in range(2_000)]},
    "wide characters": {"text": "作業" * 40_000},
    "emoji": {"text": "🛠" * 50_000},
    "escapes": {"text": '"\\\n\t' * 30_000},
}


@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_job_of_any_size_is_shown_and_can_be_read_whole(kind: str) -> None:
    w = world()
    agent = Speaker(w)
    report = {"type": "report", "uri": "https://example.org/" + "r" * 1_500}
    job = w.job(
        summary="作" * 200,
        context=CONTEXTS[kind],
        constraints=["c " * 490] * 50,
        artifacts=[report] * 8,
        external_id="e" * 100,
    )
    taken = agent.ok("claim_job", job=job)
    assert taken["claim"]["fence"] == 1
    for answer in (taken, agent.ok("get_job", job=job, include=["events", "explain", "graph", "decisions"])):
        assert brief.weight(answer) <= brief.ROOM
        assert answer["job"]["id"] == job
        assert {"job/context", "job/constraints"} <= set(answer["cut"])
        assert any("get_job" in step and job in step for step in answer["next"])
    pieces, offset = "", 0
    while True:
        answer = agent.ok("get_job", job=job, part="context", offset=offset)
        assert brief.weight(answer) <= brief.ROOM
        assert "cut" not in answer
        pieces += answer["window"]["text"]
        offset = answer["window"]["to"]
        if offset == answer["window"]["of"]:
            break
    assert json.loads(pieces) == CONTEXTS[kind]


def test_many_results_of_other_jobs_fit_and_the_claim_stays_whole() -> None:
    w = world()
    agent = Speaker(w)
    ups = []
    for number in range(20):
        up = w.job()
        fence = w.claim(up)
        w.ok(
            "POST",
            f"P/jobs/{up}/complete",
            {"fence": fence, "result": {"summary": f"{number}", "data": "long " * 2_000}},
        )
        ups.append(up)
    job = w.job(blocked_by=ups)
    w.pump()
    answer = agent.ok("claim_job", job=job)
    assert brief.weight(answer) <= brief.ROOM
    assert answer["claim"]["fence"] == 1
    assert any(cut.startswith("upstream_results") for cut in answer["cut"])
    assert any("result" in step for step in answer["next"])


def test_many_broadcasts_do_not_hide_the_answer() -> None:
    w = world()
    for number in range(5):
        w.ok("POST", "P/broadcasts", {"text": f"{number} " + "listen " * 60}, token="owner")
    job = w.job()
    answer = Speaker(w).ok("claim_job", job=job)
    assert brief.weight(answer) <= brief.ROOM
    assert (answer["job"]["id"], answer["claim"]["fence"]) == (job, 1)
    assert len(answer["next"]) >= 2
