"""The graph as people see it: layers, numbers, links by their types, statuses that need no colour."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli import around
from interlock.domain.lifecycle import STATUSES


def node(name, status="published"):
    return {"id": name, "summary": f"do {name}", "status": status, "role": "qa"}


def edge(start, end, kind="blocks"):
    return {"from": start, "to": end, "type": kind}


def drawn(nodes, edges, here=""):
    return around.graph({"nodes": nodes, "edges": edges, "truncated": False}, here, lambda node: node["id"])


def test_every_status_has_a_mark_of_its_own():
    assert around.MARKS.keys() == set(STATUSES)
    assert len(set(around.MARKS.values())) == len(STATUSES)


def test_a_fan_in_is_drawn_in_layers_with_numbers():
    nodes = [node("end", "pending"), *(node(name, "completed") for name in "abcd"), node("e", "failed")]
    edges = [edge("a", "b"), *(edge(name, "end") for name in "bcde")]
    assert drawn(nodes, edges) == [
        "1  ✓ completed    a",
        "2  ✓ completed    c",
        "3  ✓ completed    d",
        "4  ✗ failed       e",
        "5    ✓ completed    b  (blocked by 1)",
        "6      ◌ pending      end  (blocked by 2–5)",
    ]


def test_links_say_their_types():
    edges = [
        edge("a", "b", "reopen_of"),
        edge("b", "c"),
        edge("c", "d", "routed_from"),
        edge("c", "d", "parent"),
    ]
    assert [line.partition("(")[2] for line in drawn([node(name) for name in "dcba"], edges)] == [
        "",
        "reopen of 1)",
        "blocked by 2)",
        "routed from 3 · child of 3)",
    ]


def test_with_ids_each_job_is_two_lines_and_the_one_asked_about_is_marked():
    answer = {"nodes": [node("a"), node("b", "pending")], "edges": [edge("a", "b")], "truncated": False}
    assert around.graph(answer, "b") == [
        "1  ○ published    do a",
        "     qa  a",
        "2    ◌ pending      do b  (this job)",
        "       qa  b  blocked by 1",
    ]


def test_a_job_that_waits_for_its_own_child_comes_after_it():
    edges = [edge("mother", "child", "parent"), edge("child", "mother")]
    lines = drawn([node("mother"), node("child")], edges)
    assert [line.split()[3] for line in lines] == ["child", "mother"]
    assert "blocked by 1" in lines[1]


def test_a_deep_chain_is_not_indented_beyond_the_screen():
    names = [f"j{n}" for n in range(60)]
    lines = drawn([node(name) for name in names], [edge(*pair) for pair in itertools.pairwise(names)])
    assert [line.split()[3] for line in lines] == names
    assert max(map(len, lines)) < 60


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(
                st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from(sorted(around.LINKS)))
            ),
        )
    )
)
def test_every_job_is_drawn_once_after_those_that_hold_it_back(drawing):
    count, pairs = drawing
    # links that hold back lead from lower to higher numbers here; the others lead anywhere
    edges = [edge(f"j{a}", f"j{b}", kind) for a, b, kind in pairs if kind != "blocks" or a < b]
    order = [line.split()[3] for line in drawn([node(f"j{n}") for n in reversed(range(count))], edges)]
    assert sorted(order) == sorted(f"j{n}" for n in range(count))
    for one in edges:
        if one["type"] == "blocks":
            assert order.index(one["from"]) < order.index(one["to"])


@pytest.mark.parametrize("count", [20, 21, 1_000])
def test_a_job_with_many_neighbours_stays_short(count):
    job = {
        "upstream": [{"id": f"u{n}", "type": "blocks", "state": "open"} for n in range(count)],
        "downstream": [f"d{n}" for n in range(100)],
        "downstream_more": True,
    }
    lines = list(around.neighbours(job))
    assert len(lines) <= 2 * (around.NAMED + 1)
    rest = [line for line in lines if line.endswith(" more")]
    assert rest == [f"  blocked by  {count - 20:,} more"] * (count > 20) + ["  blocks      at least 80 more"]
