"""Edits: who may change what and when, under If-Match."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock.domain.lifecycle import STATUSES

ALL = {
    "summary": "else", "priority": "high", "constraints": ["c"], "context": {"b": 1, "a": 2}, "deadline": "2027-01-01T00:00:00Z",
    "role": "qa", "max_retries": 9,
}  # fmt: skip
OWNERS_ONLY = ("role", "max_retries")


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def edit(
    w: CheckedWorld, job: str, body: dict[str, Any], token: str = "agent", etag: str | None = None
) -> Any:
    etag = etag or w.call("GET", f"P/jobs/{job}", token="owner").headers["etag"]
    return w.call("PATCH", f"P/jobs/{job}", body, token=token, headers={"If-Match": etag})


def test_an_edit_needs_if_match(w: CheckedWorld) -> None:
    job = w.job()
    w.refused("if_match_required", "PATCH", f"P/jobs/{job}", {"summary": "x"})


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"', ' "v1" '])
def test_the_etag_of_the_version_read_lets_it_through_once(w: CheckedWorld, etag: str) -> None:
    job = w.job()
    reply = edit(w, job, {"summary": "x"}, etag=etag)
    assert (reply.status, reply.headers["etag"]) == (200, '"v2"')
    w.refused("version_mismatch", "PATCH", f"P/jobs/{job}", {"summary": "y"}, headers={"If-Match": etag})


@pytest.mark.parametrize(
    "etag", ["", "v1", '"1"', "*", '"v"', '"v-1"', '"v1', '"v1", "v2"', '"v' + "9" * 16 + '"', "é", '"v１"']
)
def test_a_malformed_if_match_cannot_be_read(w: CheckedWorld, etag: str) -> None:
    job = w.job()
    w.refused("malformed_request", "PATCH", f"P/jobs/{job}", {"summary": "x"}, headers={"If-Match": etag})


@pytest.mark.parametrize("field", ALL)
def test_an_owner_may_change_every_field(w: CheckedWorld, field: str) -> None:
    job = w.job()
    before = w.get(job)
    reply = edit(w, job, {field: ALL[field]}, "owner")
    assert reply.status == 200, reply.body
    shown = {"high": 30, "2027-01-01T00:00:00Z": "2027-01-01T00:00:00.000Z"}
    value = ALL[field]
    wanted = shown.get(value, value) if isinstance(value, str) else value
    after = w.get(job)
    changed = {name for name in before if before[name] != after[name]}
    assert after[field] == wanted
    assert changed <= {field, "version", "rev", "digest", "updated_at"}


@pytest.mark.parametrize("field", ALL)
def test_the_source_may_change_all_but_role_and_budget(w: CheckedWorld, field: str) -> None:
    job = w.job()
    reply = edit(w, job, {field: ALL[field]})
    assert (reply.status, reply.code) == ((403, "forbidden") if field in OWNERS_ONLY else (200, None))


def test_nobody_else_edits(w: CheckedWorld) -> None:
    w.enrol("b")
    w.viewer()
    job = w.job()
    for token in ("b", "viewer"):
        w.refused(
            "forbidden", "PATCH", f"P/jobs/{job}", {"summary": "x"}, token=token, headers={"If-Match": '"v1"'}
        )


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("who", ["agent", "owner"])
def test_edits_are_for_jobs_that_nobody_has_started(w: CheckedWorld, status: str, who: str) -> None:
    job, _ = w.job_in(status)
    reply = edit(w, job, {"summary": "else"}, who)
    assert (reply.status, reply.code) == (
        (200, None) if status in ("pending", "published") else (409, "wrong_state")
    )


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("field", OWNERS_ONLY)
def test_an_owner_may_move_a_job_or_its_budget_while_nobody_holds_it(
    w: CheckedWorld, status: str, field: str
) -> None:
    job, _ = w.job_in(status)
    reply = edit(w, job, {field: ALL[field]}, "owner")
    assert (reply.status == 200) is (status in ("pending", "published", "failed"))


def test_a_moved_job_is_offered_to_its_new_role_only(w: CheckedWorld) -> None:
    w.enrol("b", ("developer",))
    w.enrol("c", ("qa",))
    job = w.job()
    edit(w, job, {"role": "qa"}, "owner")
    assert w.ok("POST", "P/claims", {}, token="b")["job"] is None
    assert w.ok("POST", "P/claims", {}, token="c")["job"]["id"] == job


def test_the_new_role_must_exist(w: CheckedWorld) -> None:
    job = w.job()
    w.refused(
        "unknown_role",
        "PATCH",
        f"P/jobs/{job}",
        {"role": "chef"},
        token="owner",
        headers={"If-Match": '"v1"'},
    )


def test_an_edited_priority_counts_on_the_board(w: CheckedWorld) -> None:
    first = w.job()
    w.clock.advance(1)
    second = w.job()
    edit(w, second, {"priority": 40})
    assert [w.ok("POST", "P/claims", {})["job"]["id"] for _ in range(2)] == [second, first]


def test_a_deadline_can_be_taken_away_and_set_again(w: CheckedWorld) -> None:
    job = w.job(deadline="2026-11-30T21:00:10Z")
    assert edit(w, job, {"deadline": None}).body["job"]["deadline"] is None
    w.pump()
    w.clock.advance(20)
    w.pump()
    assert w.get(job)["overdue"] is False
    edit(w, job, {"deadline": "2026-11-30T21:00:15Z"})
    w.pump()
    assert w.get(job)["overdue"] is True
    assert edit(w, job, {"deadline": "2027-01-01T00:00:00Z"}).body["job"]["overdue"] is False


def test_context_keeps_its_key_order_and_other_documents_stay(w: CheckedWorld) -> None:
    artifact = {"type": "log", "uri": "s3://x"}
    job = w.job(context={"a": 1}, constraints=["keep"], artifacts=[artifact])
    edited = edit(w, job, {"context": {"z": 1, "a": 2}}).body["job"]
    assert list(edited["context"]) == ["z", "a"]
    assert edited["constraints"] == ["keep"]
    assert len(edited["artifacts"]) == 1
    again = edit(w, job, {"constraints": []}).body["job"]
    assert (again["context"], again["constraints"]) == ({"z": 1, "a": 2}, [])


def test_an_edit_that_changes_nothing_is_no_event(w: CheckedWorld) -> None:
    job = w.job(context={"a": 1}, deadline="2027-01-01T00:00:00Z")
    same = {
        "summary": "work",
        "priority": "normal",
        "context": {"a": 1},
        "deadline": "2027-01-01T01:00:00+01:00",
    }
    reply = edit(w, job, same)
    assert (reply.status, reply.body["job"]["version"]) == (200, 1)
    assert w.types(job) == ["job.created"]


@pytest.mark.parametrize("body", [{}, {"summary": None}, {"priority": None}, {"role": None}, {"context": None}, {"constraints": None},
                                  {"summary": ""}, {"role": ""}, {"max_retries": None}])  # fmt: skip
def test_an_edit_names_at_least_one_field_and_null_is_only_for_the_deadline(
    w: CheckedWorld, body: dict[str, Any]
) -> None:
    job = w.job()
    w.refused("invalid", "PATCH", f"P/jobs/{job}", body, token="owner", headers={"If-Match": '"v1"'})


@pytest.mark.parametrize(
    "field",
    [
        "artifacts",
        "not_before",
        "lease_seconds",
        "external_id",
        "requires",
        "status",
        "parent",
        "capabilities",
    ],
)
def test_other_fields_cannot_be_edited(w: CheckedWorld, field: str) -> None:
    job = w.job()
    w.refused(
        "unknown_field", "PATCH", f"P/jobs/{job}", {field: "x"}, token="owner", headers={"If-Match": '"v1"'}
    )


def test_the_ledger_shows_what_changed_with_large_values_as_digests(w: CheckedWorld) -> None:
    job = w.job()
    edit(w, job, ALL, "owner")
    w.dispatch()
    event = w.ok("GET", f"P/jobs/{job}/events")["items"][-1]
    changes = event["data"]["changes"]
    assert event["type"] == "job.updated"
    assert changes["summary"] == ["work", "else"]
    assert changes["priority"] == [20, 30]
    assert changes["role"] == ["developer", "qa"]
    assert changes["max_retries"] == [3, 9]
    assert changes["deadline"] == [None, "2027-01-01T00:00:00.000Z"]
    for name in ("context", "constraints"):
        assert all(value.startswith("sha256:") for value in changes[name])
        assert changes[name][0] != changes[name][1]


def test_renewals_do_not_move_the_version_that_an_edit_names(w: CheckedWorld) -> None:
    job = w.job()
    fence = w.claim(job)
    version = w.get(job)["version"]
    w.clock.advance(1_000)
    w.ok("POST", "P/heartbeat", {})
    w.ok("GET", f"P/jobs/{job}")
    assert w.get(job)["version"] == version
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    assert edit(w, job, {"summary": "x"}, etag=f'"v{version + 1}"').status == 200


def test_an_edit_under_a_key_can_be_sent_again(w: CheckedWorld) -> None:
    job = w.job(token="owner")
    sent = {"token": "owner", "key": "once", "headers": {"if-match": '"v1"'}}
    first = w.call("PATCH", f"P/jobs/{job}", {"summary": "other"}, **sent)
    again = w.call("PATCH", f"P/jobs/{job}", {"summary": "other"}, **sent)
    assert (first.status, again.status, again.headers.get("idempotency-replayed")) == (200, 200, "true")
    assert again.body == first.body
    edited = [
        event
        for event in w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"]
        if event["type"] == "job.updated"
    ]
    assert len(edited) == 1
    w.refused("idempotency_mismatch", "PATCH", f"P/jobs/{job}", {"summary": "another"}, **sent)
    w.refused("version_mismatch", "PATCH", f"P/jobs/{job}", {"summary": "other"}, **(sent | {"key": "twice"}))
