"""The graph around a job: nodes, links of every kind, and its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.chains import NOT_THERE, chain, complete, create, planned
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import reviewed

from interlock.domain import limits
from interlock.store import keys
from interlock.store.ports import Put

Links = set[tuple[str, str, str]]


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def graph(w: CheckedWorld, job: str, depth: int | None = None, token: str = "owner") -> dict[str, Any]:
    query = {} if depth is None else {"depth": depth}
    return dict(w.ok("GET", f"P/jobs/{job}/graph", token=token, query=query))


def nodes(found: dict[str, Any]) -> set[str]:
    names = [node["id"] for node in found["nodes"]]
    assert len(names) == len(set(names))
    return set(names)


def links(found: dict[str, Any]) -> Links:
    shown = [(edge["from"], edge["to"], edge["type"]) for edge in found["edges"]]
    assert len(shown) == len(set(shown))
    assert {end for edge in shown for end in edge[:2]} <= nodes(found)
    return set(shown)


def test_a_job_alone(w: CheckedWorld) -> None:
    job = w.job(summary="text", role="qa")
    shown = {"id": job, "summary": "text", "status": "published", "role": "qa"}
    assert graph(w, job) == {"nodes": [shown], "edges": [], "truncated": False}


def test_every_kind_of_link(w: CheckedWorld) -> None:
    origin, up, added = w.job(), w.job(), w.job()
    rule = {"role": "qa", "summary": "follow"}
    job = create(w, up, parent=origin, routing=[rule])["id"]
    w.ok("POST", f"P/jobs/{job}/links", {"upstream": added})
    complete(w, up, added, job)
    follow = w.ok("GET", "P/jobs", query={"parent": job})["items"][0]["id"]
    reviewer = create(w, job)["id"]
    body = {"fence": w.claim(reviewer), "target": job, "reason": "no"}
    retry = w.ok("POST", f"P/jobs/{reviewer}/reject", body)["retry"]["id"]
    expected = {
        (origin, job, "parent"), (up, job, "blocks"), (added, job, "blocks"), (job, follow, "routed_from"), (job, retry, "reopen_of"),
        (retry, reviewer, "blocks"), (origin, retry, "parent"),
    }  # fmt: skip
    for start in (origin, up, added, job, follow, reviewer, retry):
        found = graph(w, start)
        assert links(found) == expected, "the same from everywhere; a link that was replaced is none"
        assert found["nodes"][0]["id"] == start
        assert not found["truncated"]


def test_one_job_can_be_both_parent_and_upstream(w: CheckedWorld) -> None:
    up = w.job()
    job = create(w, up, parent=up)["id"]
    assert links(graph(w, job)) == links(graph(w, up)) == {(up, job, "blocks"), (up, job, "parent")}


def test_depth_counts_links_in_both_directions(w: CheckedWorld) -> None:
    jobs = chain(w, 14)
    for depth in (1, 2, 3):
        found = graph(w, jobs[5], depth)
        assert nodes(found) == set(jobs[5 - depth : 6 + depth])
        assert len(links(found)) == 2 * depth
        assert found["truncated"]
    assert nodes(graph(w, jobs[6])) == set(jobs[1:12]), "five, when nothing is asked for"
    whole = graph(w, jobs[0], 13)
    assert (nodes(whole), whole["truncated"]) == (set(jobs), False)
    assert graph(w, jobs[0], 12)["truncated"]


def test_links_among_the_outermost_are_shown(w: CheckedWorld) -> None:
    top = w.job()
    left = create(w, top)["id"]
    right = create(w, top, left)["id"]
    found = graph(w, top, 1)
    assert links(found) == {(top, left, "blocks"), (top, right, "blocks"), (left, right, "blocks")}
    assert not found["truncated"]


def test_a_satisfied_link_stays_in_the_graph(w: CheckedWorld) -> None:
    jobs = chain(w, 3)
    complete(w, *jobs)
    assert links(graph(w, jobs[1])) == {(jobs[0], jobs[1], "blocks"), (jobs[1], jobs[2], "blocks")}


@pytest.mark.parametrize("depth", [1, 2])
def test_it_ends_at_a_thousand_nodes(w: CheckedWorld, depth: int) -> None:
    hub = w.job()
    planned(w, 999, blocked_by=[hub])
    found = graph(w, hub, depth)
    assert (len(nodes(found)), len(links(found)), found["truncated"]) == (1_000, 999, False)
    create(w, hub)
    found = graph(w, hub, depth)
    assert (len(nodes(found)), len(links(found)), found["truncated"]) == (limits.GRAPH_NODES, 999, True)


def test_a_wide_fan_in(w: CheckedWorld) -> None:
    ups = planned(w, 999)
    job = create(w, *ups)["id"]
    found = graph(w, job, 1)
    assert (nodes(found), found["truncated"]) == ({job, *ups}, False)
    assert graph(w, ups[0], 1)["truncated"]


def test_nobody_sees_more_in_it_than_elsewhere(w: CheckedWorld) -> None:
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("narrow", ("qa",))
    first, hidden, beyond = w.job(role="qa"), w.job(role="ops"), w.job(role="qa")
    seen = create(w, first, hidden, role="qa")["id"]
    w.ok("POST", f"P/jobs/{hidden}/links", {"upstream": beyond})
    found = graph(w, seen, token="narrow")
    assert (nodes(found), links(found)) == ({seen, first}, {(first, seen, "blocks")})
    assert not graph(w, first, 1, token="narrow")["truncated"], "what is hidden is not more"
    assert graph(w, first, 1)["truncated"]
    assert nodes(graph(w, seen)) == {seen, first, hidden, beyond}
    assert hidden in nodes(graph(w, hidden, 1, token="narrow")), "a link leads there from what it sees"
    w.refused("not_found", "GET", f"P/jobs/{w.job(role='ops')}/graph", token="narrow")


def test_jobs_that_never_came_are_not_shown(w: CheckedWorld) -> None:
    """Rows are staged before the head that they speak of, which a crash may have kept from coming."""
    job = w.job()
    pk = keys.partition("default", "job", job)
    for key, more in (
        (keys.waiting(pk, NOT_THERE), {}),
        (keys.descending(pk, NOT_THERE), {"type": "parent"}),
    ):
        w.bus.store.table.write(Put(key, {"pk": key.pk, "sk": key.sk, **more}))
    for depth in (1, 5):
        found = graph(w, job, depth)
        assert (nodes(found), found["edges"], found["truncated"]) == ({job}, [], False)
    assert w.get(job)["downstream"] == []


def test_a_graph_writes_nothing_and_says_the_version(w: CheckedWorld) -> None:
    _, reviewer, _ = reviewed(w)
    before = w.everything()
    reply = w.call("GET", f"P/jobs/{reviewer}/graph")
    assert reply.headers["etag"] == f'"v{w.get(reviewer)["version"]}"'
    assert w.everything() == before


@pytest.mark.parametrize(
    "query", ["depth=0", "depth=51", "depth=-1", "depth=1.5", "depth=", "depth=x", "depth=1&depth=2", "deep=1", "depth=9999999999999"]
)  # fmt: skip
def test_queries_that_are_not_acceptable(w: CheckedWorld, query: str) -> None:
    reply = w.call("GET", f"P/jobs/{w.job()}/graph", query=query)
    assert reply.status in (400, 422)
    assert "depth" in str(reply.body["errors"]) or "deep" in str(reply.body["errors"])


@pytest.mark.parametrize("job", [NOT_THERE, "x", "job_", "J"])
def test_the_graph_of_no_job(w: CheckedWorld, job: str) -> None:
    w.refused("not_found", "GET", f"P/jobs/{job}/graph")
