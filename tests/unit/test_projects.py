"""Projects with their settings, roles and pauses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_complete import noise


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


DEFAULTS = {
    "visibility": "project", "lease_seconds": 1800, "cancel_overdue": False, "retention_days": None, "max_claims": None,
    "daily_budget": None,
}  # fmt: skip


# ---- projects


def test_a_new_project_has_default_settings_and_no_roles(w: CheckedWorld) -> None:
    reply = w.call("POST", "/v1/projects", {"id": "p-1_x", "title": "Prõject"}, token="owner")
    assert (reply.status, reply.headers["etag"]) == (201, '"v1"')
    shown = reply.body["project"]
    assert {**shown, "digest": ""} == {
        "id": "p-1_x", "title": "Prõject", "settings": DEFAULTS, "roles": [], "paused": [], "broadcasts": [],
        "created_at": "2026-11-30T21:00:00.000Z", "version": 1, "digest": "",
    }  # fmt: skip
    assert w.ok("GET", "/v1/projects/p-1_x", token="owner")["project"] == shown


@pytest.mark.parametrize(
    "settings",
    [
        {"visibility": "roles"},
        {"lease_seconds": 60},
        {"cancel_overdue": True},
        {"retention_days": 30},
        {"max_claims": 3},
        {},
    ],
)
def test_settings_that_are_not_sent_keep_their_value(w: CheckedWorld, settings: dict[str, Any]) -> None:
    made = w.ok("POST", "/v1/projects", {"id": "p", "title": "P", "settings": settings}, token="owner")[
        "project"
    ]
    assert made["settings"] == {**DEFAULTS, **settings}
    all_other = {"visibility": "roles", "lease_seconds": 77, "cancel_overdue": True, "retention_days": 9, "max_claims": 4,
        "daily_budget": {"tokens": 9, "usd": 1.25, "seconds": 60.0}}  # fmt: skip
    w.ok("PATCH", "P", {"settings": all_other}, token="owner")
    shown = w.ok("PATCH", "P", {"settings": settings}, token="owner")["project"]
    assert shown["settings"] == {**all_other, **settings}
    assert w.ok("PATCH", "P", {"title": "Else"}, token="owner")["project"]["settings"] == shown["settings"]


def test_a_change_of_nothing_is_no_event(w: CheckedWorld) -> None:
    version = w.ok("GET", "P", token="owner")["project"]["version"]
    for body in (
        {"title": "Default project"},
        {"settings": DEFAULTS},
        {"settings": {}},
        {"settings": None},
        {},
    ):
        assert w.ok("PATCH", "P", body, token="owner")["project"]["version"] == version


def test_a_project_id_is_taken_once(w: CheckedWorld) -> None:
    w.refused("already_exists", "POST", "/v1/projects", {"id": "default", "title": "x"}, token="owner")
    first = w.call("POST", "/v1/projects", {"id": "p", "title": "P"}, token="owner", key="K")
    again = w.call("POST", "/v1/projects", {"id": "p", "title": "P"}, token="owner", key="K")
    assert (first.status, again.status, again.body) == (201, 200, first.body)
    w.refused(
        "idempotency_mismatch", "POST", "/v1/projects", {"id": "p", "title": "Q"}, token="owner", key="K"
    )


@pytest.mark.parametrize("name", ["installation", "Default", "1a", "", "a" * 41, "a#b", "a/b", "é"])
def test_ids_of_projects(w: CheckedWorld, name: str) -> None:
    w.refused("invalid", "POST", "/v1/projects", {"id": name, "title": "x"}, token="owner")


def test_projects_are_listed_page_by_page(w: CheckedWorld) -> None:
    for number in range(4):
        w.project(f"p{number}", roles=())
    found: list[str] = []
    cursor = None
    while True:
        page = w.ok(
            "GET", "/v1/projects", token="owner", query={"limit": 2, **({"cursor": cursor} if cursor else {})}
        )
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == ["default", "p0", "p1", "p2", "p3"]


def test_what_happens_to_a_project_is_in_its_ledger(w: CheckedWorld) -> None:
    w.ok("PATCH", "P", {"title": "New", "settings": {"lease_seconds": 60}}, token="owner")
    w.ok("POST", "P/pause", {"role": "qa", "reason": "r"}, token="owner")
    w.ok("POST", "P/resume", {"role": "qa"}, token="owner")
    w.dispatch()
    events = [e for e in w.ok("GET", "P/events", token="owner")["items"] if e["entity"] == "project/default"]
    assert [(event["type"], event["data"]) for event in events[2:]] == [
        (
            "project.updated",
            {"changes": {"title": ["Default project", "New"], "settings.lease_seconds": [1800, 60]}},
        ),
        ("project.paused", {"target": "role:qa", "reason": "r"}),
        ("project.resumed", {"target": "role:qa", "reason": None}),
    ]


# ---- roles


def test_a_role_with_and_without_defaults(w: CheckedWorld) -> None:
    full = {
        "key": "cook",
        "label": "Cook",
        "lease_seconds": 60,
        "on_expire": "fail",
        "capabilities": ["knife", "knife"],
        "independent": True,
        "max_claims": 2,
        "daily_budget": {"tokens": 5, "usd": 0.5, "seconds": None},
    }
    reply = w.call("POST", "P/roles", full, token="owner")
    assert reply.status == 201
    assert reply.body["role"] == {**full, "capabilities": ["knife"], "created_at": "2026-11-30T21:00:00.000Z"}
    plain = w.ok("POST", "P/roles", {"key": "a-1_b", "label": "A"}, token="owner")["role"]
    assert (plain["lease_seconds"], plain["on_expire"], plain["capabilities"]) == (None, None, [])
    assert plain["independent"] is False
    listed = w.ok("GET", "P/roles")
    assert [role["key"] for role in listed["items"]] == [
        "a-1_b",
        "cook",
        "developer",
        "ops",
        "qa",
        "reviewer",
    ]
    assert listed["next_cursor"] is None


@pytest.mark.parametrize("key", ["owner", "Cook", "1a", "-a", "", "a b", "a" * 41, "é", "a\n", "a#b"])
def test_keys_of_roles(w: CheckedWorld, key: str) -> None:
    w.refused("invalid", "POST", "P/roles", {"key": key, "label": "x"}, token="owner")


@pytest.mark.parametrize("key", ["a", "a" * 40, "a_-9"])
def test_accepted_keys_of_roles(w: CheckedWorld, key: str) -> None:
    assert w.ok("POST", "P/roles", {"key": key, "label": "x"}, token="owner")["role"]["key"] == key


def test_a_role_is_made_once_changed_deleted_and_made_again(w: CheckedWorld) -> None:
    w.refused("already_exists", "POST", "P/roles", {"key": "qa", "label": "x"}, token="owner")
    changed = w.ok(
        "PATCH",
        "P/roles/qa",
        {"label": "Quality", "capabilities": ["eye"], "lease_seconds": 60},
        token="owner",
    )["role"]
    assert (changed["label"], changed["capabilities"], changed["lease_seconds"]) == ("Quality", ["eye"], 60)
    cleared = w.ok("PATCH", "P/roles/qa", {"capabilities": None, "lease_seconds": None}, token="owner")[
        "role"
    ]
    assert (cleared["label"], cleared["capabilities"], cleared["lease_seconds"]) == ("Quality", [], None)
    assert w.ok("DELETE", "P/roles/qa", token="owner")["role"]["key"] == "qa"
    for method, body in (("PATCH", {"label": "x"}), ("DELETE", None)):
        w.refused("not_found", method, "P/roles/qa", body, token="owner")
    assert w.ok("POST", "P/roles", {"key": "qa", "label": "Again"}, token="owner")["role"]["label"] == "Again"


def test_a_repeated_creation_of_a_role(w: CheckedWorld) -> None:
    first = w.call("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner", key="K")
    again = w.call("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner", key="K")
    assert (first.status, again.status, again.body) == (201, 200, first.body)


def test_a_hundred_roles_at_most(w: CheckedWorld) -> None:
    for number in range(96):
        w.ok("POST", "P/roles", {"key": f"r{number}", "label": "R"}, token="owner")
    w.refused("limit_reached", "POST", "P/roles", {"key": "more", "label": "R"}, token="owner")


def test_roles_that_would_outgrow_the_control_item_are_refused(w: CheckedWorld) -> None:
    for number in range(60):
        fat = {
            "key": f"r{number}",
            "label": "R",
            "capabilities": [noise(100, number * 100 + n) for n in range(50)],
        }
        reply = w.call("POST", "P/roles", fat, token="owner")
        if reply.status != 201:
            break
    assert reply.code == "limit_reached"
    assert "65,536" in reply.body["detail"]
    w.refused("limit_reached", "PATCH", "P/roles/qa", {"capabilities": fat["capabilities"]}, token="owner")
    w.ok("DELETE", "P/roles/r0", token="owner")
    w.ok("POST", "P/roles", fat, token="owner")


# ---- pauses


@pytest.mark.parametrize("target", ["project", "role", "agent"])
def test_pause_and_resume(w: CheckedWorld, target: str) -> None:
    agent = w.enrol("b")
    body = {"project": {"project": True}, "role": {"role": "developer"}, "agent": {"agent": agent}}[target]
    shown = {"project": "project", "role": "role:developer", "agent": f"agent:{agent}"}[target]
    held = w.job()
    fence = w.claim(held, "b")
    (pause,) = w.ok("POST", "P/pause", {**body, "reason": "freeze"}, token="owner")["paused"]
    assert (pause["target"], pause["reason"], pause["since"]) == (shown, "freeze", "2026-11-30T21:00:00.000Z")
    assert pause["by"].startswith("own_")
    assert w.ok("GET", "P", token="owner")["project"]["paused"] == [pause]
    before = w.everything()
    assert w.ok("POST", "P/pause", {**body, "reason": "again"}, token="owner")["paused"] == [pause]
    assert w.everything() == before, "a pause is made once"
    w.job()
    assert w.ok("POST", "P/claims", {}, token="b")["job"] is None
    w.ok("POST", f"P/jobs/{held}/complete", {"fence": fence}, token="b")
    assert w.ok("POST", "P/resume", body, token="owner")["paused"] == []
    assert w.ok("POST", "P/claims", {}, token="b")["job"]
    assert w.ok("POST", "P/resume", body, token="owner")["paused"] == []


def test_pauses_of_others_do_not_bind(w: CheckedWorld) -> None:
    w.enrol("b", ("qa",))
    w.job(role="qa")
    w.ok("POST", "P/pause", {"role": "developer"}, token="owner")
    assert w.ok("POST", "P/claims", {}, token="b")["job"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"project": True, "role": "qa"},
        {"role": "qa", "agent": "agt_x"},
        {"project": False},
        {"project": None},
    ],
)
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_exactly_one_target(w: CheckedWorld, verb: str, body: dict[str, Any]) -> None:
    w.refused("invalid", "POST", f"P/{verb}", body, token="owner")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_targets_must_exist(w: CheckedWorld, verb: str) -> None:
    w.refused("unknown_role", "POST", f"P/{verb}", {"role": "chef"}, token="owner")
    w.refused("unknown_agent", "POST", f"P/{verb}", {"agent": "agt_none"}, token="owner")


def test_a_pause_of_what_is_gone_can_be_lifted(w: CheckedWorld) -> None:
    w.ok("POST", "P/pause", {"role": "qa"}, token="owner")
    w.ok("DELETE", "P/roles/qa", token="owner")
    assert w.ok("POST", "P/resume", {"role": "qa"}, token="owner")["paused"] == []


def test_two_hundred_pauses_at_most_and_as_many_bytes_as_fit(w: CheckedWorld) -> None:
    for number in range(4):
        w.enrol(f"a{number}")
    many = 0
    for number in range(96):
        w.ok("POST", "P/roles", {"key": f"r{number}", "label": "R"}, token="owner")
        reply = w.call(
            "POST", "P/pause", {"role": f"r{number}", "reason": noise(2_000, number)}, token="owner"
        )
        many += reply.status == 200
    assert reply.code == "limit_reached"
    assert 40 < many < 90


def test_a_keyed_pause_is_repeated_without_effect(w: CheckedWorld) -> None:
    w.ok("POST", "P/pause", {"project": True}, token="owner", key="K")
    w.ok("POST", "P/resume", {"project": True}, token="owner")
    again = w.call("POST", "P/pause", {"project": True}, token="owner", key="K")
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body["paused"] == []
