"""Lists of jobs: filters, orders, pages, and who sees what."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock.app import lists
from interlock.domain.lifecycle import STATUSES


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def listed(w: CheckedWorld, token: str = "owner", **query: Any) -> list[str]:
    """All ids of a list, page by page."""
    found: list[str] = []
    cursor = None
    for _ in range(200):
        page = w.ok("GET", "P/jobs", token=token, query={**query, **({"cursor": cursor} if cursor else {})})
        found += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
    raise AssertionError("the list does not end")


def spread(w: CheckedWorld, count: int, **fields: Any) -> list[str]:
    """Jobs created one second apart."""
    made = []
    for _ in range(count):
        w.clock.advance(1)
        made.append(w.job(**fields))
    return made


@pytest.fixture
def mixed(w: CheckedWorld) -> dict[str, str]:
    """One job in every status, oldest first in the order of the statuses."""
    found = {}
    for status in STATUSES:
        w.clock.advance(1)
        found[status] = w.job_in(status)[0]
    w.dispatch()
    return found


# ---- filters


@pytest.mark.parametrize("count", [1, 2, 8])
def test_status_filters_any_set_of_statuses(w: CheckedWorld, mixed: dict[str, str], count: int) -> None:
    for statuses in itertools.combinations(STATUSES, count):
        wanted = [mixed[status] for status in reversed(STATUSES) if status in statuses]
        assert listed(w, status=list(statuses), order="newest") == wanted
        assert listed(w, status=list(statuses), order="oldest", limit=1) == wanted[::-1]


def test_without_filters_everything_newest_first(w: CheckedWorld, mixed: dict[str, str]) -> None:
    assert listed(w) == list(mixed.values())[::-1]
    assert listed(w, limit=3) == list(mixed.values())[::-1]


def test_items_are_summaries(w: CheckedWorld) -> None:
    w.job(context={"a": 1}, constraints=["x"])
    (item,) = w.ok("GET", "P/jobs")["items"]
    assert not {"context", "constraints", "result", "artifacts"} & item.keys()


def test_role_filters_and_mine(w: CheckedWorld) -> None:
    jobs = {role: w.job(role=role) for role in ("developer", "qa", "ops")}
    w.enrol("b", ("qa", "ops"))
    assert listed(w, role="qa") == [jobs["qa"]]
    assert set(listed(w, role=["qa", "developer"])) == {jobs["qa"], jobs["developer"]}
    assert set(listed(w, "b", role="mine")) == {jobs["qa"], jobs["ops"]}
    assert set(listed(w, "b", role=["mine", "developer"])) == set(jobs.values())
    assert listed(w, "b", role="mine", status="completed") == []
    w.refused("invalid", "GET", "P/jobs", token="owner", query={"role": "mine"})
    w.refused("unknown_role", "GET", "P/jobs", query={"role": "chef"})


def test_jobs_of_a_deleted_role_are_still_found(w: CheckedWorld) -> None:
    job = w.job(role="qa")
    w.ok("DELETE", "P/roles/qa", token="owner")
    assert (
        listed(w, role="qa")
        == listed(w, role="qa", status="published")
        == listed(w, status="published")
        == [job]
    )


def test_assignee_source_parent_and_me(w: CheckedWorld) -> None:
    b = w.enrol("b")
    mine, theirs = w.job(), w.job(token="b")
    child = w.job(parent=mine, token="b")
    w.claim(mine, "b")
    w.claim(theirs)
    me = w.ok("GET", "P/me")["actor"]["id"]
    assert listed(w, assignee=b) == listed(w, "b", assignee="me") == [mine]
    assert listed(w, "agent", assignee="me") == [theirs]
    assert set(listed(w, source=b)) == set(listed(w, "b", source="me")) == {theirs, child}
    assert listed(w, source=me) == [mine]
    assert listed(w, parent=mine) == [child]
    assert listed(w, parent=child) == []
    assert listed(w, assignee=b, status=["in_progress", "blocked"]) == [mine]


def test_q_finds_part_of_a_summary_in_any_case(w: CheckedWorld) -> None:
    one, two = w.job(summary="Fix the STRASSE"), w.job(summary="fix the % of it")
    assert set(listed(w, q="FIX")) == {one, two}
    assert listed(w, q="straße") == [one]
    assert listed(w, q="%") == [two]
    assert listed(w, q="nothing") == []


def test_filters_combine(w: CheckedWorld) -> None:
    wanted = w.job(summary="alpha", role="qa")
    w.job(summary="alpha")
    w.job(summary="beta", role="qa")
    assert listed(w, q="alpha", role="qa", status="published") == [wanted]


# ---- orders


def test_published_jobs_come_by_priority_then_age(w: CheckedWorld) -> None:
    old, new = spread(w, 2)
    (urgent,) = spread(w, 1, priority="urgent", role="qa")
    (low,) = spread(w, 1, priority="low")
    (high,) = spread(w, 1, priority="high")
    wanted = [urgent, high, old, new, low]
    assert listed(w, status="published") == wanted
    assert listed(w, status="published", limit=1) == wanted
    assert listed(w, status="published", order="priority", limit=2) == wanted
    assert listed(w, status="published", role="developer") == [high, old, new, low]
    assert listed(w, status="published", order="newest") == [high, low, urgent, new, old]


@pytest.mark.parametrize("query", [{}, {"status": ["published", "failed"]}, {"status": "failed"}])
def test_priority_order_is_for_published_jobs_only(w: CheckedWorld, query: dict[str, Any]) -> None:
    refused = w.refused("invalid", "GET", "P/jobs", query={**query, "order": "priority"})
    assert [error["path"] for error in refused.body["errors"]] == ["order"]


def test_updated_lists_each_job_once_by_its_latest_event(w: CheckedWorld) -> None:
    jobs = spread(w, 4)
    w.dispatch()
    for job in (jobs[2], jobs[0], jobs[3]):
        w.clock.advance(1)
        w.claim(job)
        w.dispatch()
    wanted = [jobs[3], jobs[0], jobs[2], jobs[1]]
    assert listed(w, order="updated") == listed(w, order="updated", limit=1) == wanted
    assert listed(w, order="updated", status="in_progress") == wanted[:3]


# ---- pages


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"order": "oldest"},
        {"status": "published"},
        {"status": ["published", "pending"]},
        {"role": "developer"},
    ],
)
def test_pages_give_every_job_once(w: CheckedWorld, limit: int, query: dict[str, Any]) -> None:
    jobs = spread(w, 7)
    found = listed(w, limit=limit, **query)
    assert sorted(found) == sorted(jobs)
    assert len(found) == len(jobs)


def test_a_page_may_be_short_and_still_carry_a_cursor(
    w: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "SCANNED", 3)
    wanted = w.job(summary="needle")
    spread(w, 8)
    first = w.ok("GET", "P/jobs", query={"q": "needle"})
    assert first["items"] == []
    assert first["next_cursor"]
    assert listed(w, q="needle") == [wanted]


def test_too_many_rows_to_gather_are_walked_instead(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "GATHERED", 4)
    jobs = spread(w, 6)
    assert listed(w, status=["published", "failed"]) == jobs[::-1]
    assert listed(w, status=["published", "failed"], order="oldest", limit=2) == jobs


def test_what_is_published_while_paging_neither_repeats_nor_hides_others(w: CheckedWorld) -> None:
    jobs = spread(w, 4)
    first = w.ok("GET", "P/jobs", query={"limit": 2})
    spread(w, 2)
    rest = w.ok("GET", "P/jobs", query={"limit": 100, "cursor": first["next_cursor"]})
    shown = [job["id"] for page in (first, rest) for job in page["items"]]
    assert shown == jobs[::-1]


@pytest.mark.parametrize(
    ("method_query", "other_path", "other_query"),
    [
        ({"q": "work"}, "P/jobs", {"q": "else"}),
        ({}, "P/jobs", {"status": "published"}),
        ({}, "P/jobs", {"order": "oldest"}),
        ({}, "P/jobs", {"role": "developer"}),
        ({"role": "developer"}, "P/jobs", {"role": "qa"}),
        ({}, "P/agents", {}),
        ({}, "P/owners", {}),
        ({}, "/v1/projects", {}),
        ({}, "/v1/owners", {}),
    ],
)
def test_a_cursor_belongs_to_its_list_and_filters(
    w: CheckedWorld, method_query: dict[str, Any], other_path: str, other_query: dict[str, Any]
) -> None:
    spread(w, 3)
    cursor = w.ok("GET", "P/jobs", token="owner", query={**method_query, "limit": 1})["next_cursor"]
    w.refused("bad_cursor", "GET", other_path, token="owner", query={**other_query, "cursor": cursor})
    w.ok("GET", "P/jobs", token="owner", query={**method_query, "limit": 2, "cursor": cursor})


@pytest.mark.parametrize(
    "cursor", ["x", "é", "====", "AAAA", "a b", "..", "%00", "\U0001f600", "e30", "A" * 500]
)
@pytest.mark.parametrize("path", ["P/jobs", "P/agents", "/v1/projects", "P/me"])
def test_a_made_up_cursor_is_refused(w: CheckedWorld, path: str, cursor: str) -> None:
    token = "agent" if path == "P/me" else "owner"
    w.refused("bad_cursor", "GET", path, token=token, query={"cursor": cursor})


def test_a_cursor_does_not_cross_projects(w: CheckedWorld) -> None:
    spread(w, 2)
    other = w.project()
    for path in ("jobs", "events"):
        w.dispatch()
        name = "after" if path == "events" else "cursor"
        cursor = w.ok("GET", f"P/{path}", token="owner", query={"limit": 1})["next_cursor"]
        w.refused("bad_cursor", "GET", f"{other}/{path}", token="owner", query={name: cursor})


# ---- who sees what


def test_an_agent_without_a_live_role_sees_nothing(w: CheckedWorld) -> None:
    agent = w.enrol("b", ("qa",))
    job = w.job(role="qa")
    assert listed(w, "b") == [job]
    w.ok("PATCH", f"P/agents/{agent}", {"roles": []}, token="owner")
    assert listed(w, "b") == []
    w.refused("not_found", "GET", f"P/jobs/{job}", token="b")


def test_the_visibility_setting_narrows_an_agents_view(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",))
    of_role, created, foreign = w.job(role="qa"), w.job(token="b"), w.job()
    held = w.job(role="qa")
    w.claim(held, "b")
    w.ok("POST", f"P/jobs/{held}/stop", {"reason": "r", "role": "ops"}, token="owner")
    assert len(listed(w, "b")) == 4
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    assert set(listed(w, "b")) == {of_role, created}
    assert len(listed(w, "owner")) == 4
    w.refused("not_found", "GET", f"P/jobs/{foreign}", token="b")
    w.refused("not_found", "GET", f"P/jobs/{held}", token="b")
    w.ok("GET", f"P/jobs/{created}", token="b")


def test_other_projects_jobs_are_never_listed(w: CheckedWorld) -> None:
    other = w.project()
    w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="owner")
    mine = w.job()
    assert listed(w) == [mine]
