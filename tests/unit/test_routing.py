"""Routing: the jobs that follow from one that ended, by its rules, and what the ended job tells of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.ruled import at_rest, children, complete, events, message, routed, rule

from interlock.domain import routing as rules

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- what follows


def test_a_routed_job_is_what_its_rule_says(w: CheckedWorld) -> None:
    w.ok("POST", "P/roles", {"key": "critic", "label": "C", "capabilities": ["taste"], "independent": True, "on_expire": "fail"}, token="owner")  # fmt: skip
    w.ok("PATCH", "P", {"settings": {"lease_seconds": 900}}, token="owner")
    said = {
        "role": "critic", "summary": "Look at it", "context": {"z": [10**400, None], "routed_from_job_id": "else"},
        "constraints": ["be kind"], "priority": "urgent", "max_retries": 7,
        "artifacts": [{"type": "spec", "uri": "s3://x", "checksum": "c", "metadata": {"a": 1}}],
    }  # fmt: skip
    body = {
        "summary": "work",
        "role": "developer",
        "routing": [said],
        "context": {"own": 1},
        "external_id": "T-1",
    }
    job = w.ok("POST", "P/jobs", body, headers={"traceparent": TRACE})["job"]
    w.clock.advance(60)
    complete(w, job["id"], data={"ok": True})
    w.clock.advance(5)
    w.pump()
    (shown,) = children(w, job["id"])
    found = w.get(shown["id"])
    at = "2026-11-30T21:01:05.000Z"
    assert found == {
        **found, "status": "published", "role": "critic", "summary": "Look at it", "priority": 40, "constraints": ["be kind"],
        "context": {"z": [10**400, None], "routed_from_job_id": job["id"]}, "max_retries": 7, "retry_count": 0, "parent": job["id"],
        "routed_from": job["id"], "source": job["source"], "source_label": job["source_label"], "external_id": None,
        "created_at": at, "published_at": at, "updated_at": at, "lease_seconds": 900, "on_expire": "fail", "capabilities": ["taste"],
        "independent": True, "requires": [], "routing": [], "blocked_by": [], "assignee": None, "version": 1, "rev": 1,
        "traceparent": TRACE, "result": None, "deadline": None, "not_before": None, "reopen_of": None,
    }  # fmt: skip
    (artifact,) = found["artifacts"]
    me = {"kind": "agent", "id": job["source"], "label": job["source_label"]}
    assert artifact == {
        **said["artifacts"][0], "id": artifact["id"], "state": "referenced", "author": me, "created_at": at,
    }  # fmt: skip
    assert w.ok("GET", f"P/jobs/{found['id']}/artifacts/{artifact['id']}")["artifact"] == artifact
    at_rest(w)


def test_both_jobs_tell_of_it(w: CheckedWorld) -> None:
    job = w.job(routing=[rule(on="failed"), rule(), rule(role="ops")])
    complete(w, job)
    w.pump()
    first, second = children(w, job)
    (event,) = events(w, job, "job.routed")
    system = {"kind": "system", "id": "system", "label": "Interlock"}
    assert (event["seq"], event["from"], event["to"], event["actor"]) == (4, "completed", "completed", system)
    assert sorted(event["data"]["created"]) == sorted([first["id"], second["id"]])
    assert event["data"]["skipped"] == []
    for child, number, role in zip(event["data"]["created"], (1, 2), ("qa", "ops"), strict=True):
        (made,) = events(w, child, "job.created")
        assert (made["actor"], made["to"]) == (system, "published")
        assert made["data"] == {
            "role": role, "priority": 20, "summary": "follow", "parent": job, "routed_from": job, "rule": number,
        }  # fmt: skip
    head = w.get(job)
    assert (head["status"], head["version"], head["rev"]) == ("completed", 4, 3)  # no change of the work
    graph = w.ok("GET", f"P/jobs/{job}/graph")
    assert {(edge["to"], edge["type"]) for edge in graph["edges"]} == {
        (first["id"], "routed_from"),
        (second["id"], "routed_from"),
    }
    assert {edge["from"] for edge in graph["edges"]} == {job}


def test_a_routed_job_can_be_worked_on_as_any_other(w: CheckedWorld) -> None:
    w.enrol("bob", ("qa",))
    job = w.job(routing=[rule(context={"see": "there"})])
    complete(w, job)
    w.pump()
    taken = w.ok("POST", "P/claims", {}, token="bob")
    assert taken["job"]["context"] == {"see": "there", "routed_from_job_id": job}
    w.ok("POST", f"P/jobs/{taken['job']['id']}/complete", {"fence": taken["claim"]["fence"]}, token="bob")
    w.pump()
    assert w.types(taken["job"]["id"]) == ["job.created", "job.claimed", "job.completed"]
    at_rest(w)


def test_its_source_sees_a_routed_job_and_may_cancel_it(w: CheckedWorld) -> None:
    w.enrol("bob", ("developer",))
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    job = w.job(token="bob", routing=[rule()])
    complete(w, job)
    w.pump()
    (child,) = w.ok("GET", "P/jobs", query={"parent": job}, token="bob")["items"]
    w.ok("POST", f"P/jobs/{child['id']}/cancel", {"reason": "not needed"}, token="bob")


def test_a_job_of_an_owner_routes_in_the_owners_name(w: CheckedWorld) -> None:
    job = w.job(token="owner", routing=[rule(artifacts=[{"type": "spec", "uri": "s3://x"}])])
    complete(w, job)
    w.pump()
    (child,) = children(w, job)
    assert child["source"] == w.get(job)["source"]
    assert w.get(child["id"])["artifacts"][0]["author"]["kind"] == "owner"


def test_ten_rules_make_ten_jobs(w: CheckedWorld) -> None:
    artifacts = [{"type": "spec", "uri": f"s3://{n}"} for n in range(5)]
    many = [
        rule(summary=f"{n} " + "s" * 190, artifacts=artifacts, context={"n": n, "text": "t" * 4_000})
        for n in range(10)
    ]
    job = w.job(routing=many)
    complete(w, job)
    w.pump()
    (data,) = routed(w, job)
    found = [w.get(child) for child in data["created"]]
    assert [child["context"]["n"] for child in found] == list(range(10))
    assert len({made["id"] for child in found for made in child["artifacts"]}) == 50
    assert {child["id"] for child in children(w, job)} == set(data["created"])
    at_rest(w)


def test_a_plans_jobs_route(w: CheckedWorld) -> None:
    plan = {"jobs": [{"ref": "a", "summary": "s", "role": "developer", "routing": [rule()]}]}
    job = w.ok("POST", "P/plans", plan)["jobs"]["a"]
    w.pump()
    complete(w, job)
    w.pump()
    assert [child["role"] for child in children(w, job)] == ["qa"]


def test_an_edit_leaves_the_rules_as_they_are(w: CheckedWorld) -> None:
    job = w.job(routing=[rule(context={"a": 1})])
    w.ok(
        "PATCH", f"P/jobs/{job}", {"context": {"new": 1}, "constraints": ["c"]}, headers={"if-match": '"v1"'}
    )
    assert w.get(job)["routing"][0]["context"] == {"a": 1}
    complete(w, job)
    w.pump()
    (child,) = children(w, job)
    assert w.get(child["id"])["context"] == {"a": 1, "routed_from_job_id": job}


# ---- guards


GUARDED: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"data": {"ok": True}}, {"field": "data.ok", "op": "eq", "value": True}, True),
    ({"data": {"ok": 1}}, {"field": "data.ok", "op": "eq", "value": True}, False),
    ({"data": {"n": 10**500}}, {"field": "data.n", "op": "gt", "value": 1e300}, True),
    ({"data": [3, 4]}, {"field": "data.1", "op": "gte", "value": 4}, True),
    ({"data": "done"}, {"field": "data", "op": "contains", "value": "on"}, True),
    ({"data": None}, {"field": "data", "op": "exists"}, False),
    ({"summary": "all green"}, {"field": "summary", "op": "contains", "value": "green"}, True),
    ({"summary": "red"}, {"field": "summary", "op": "in", "value": ["green", "red"]}, True),
    ({"data": 1}, {"field": "summary", "op": "exists"}, False),
    ({"data": 1}, {"field": "summary", "op": "not_exists"}, True),
    ({"artifacts": [{"type": "log", "uri": "s3://x"}]}, {"field": "artifacts.0", "op": "exists"}, True),
    ({"summary": "s"}, {"field": "artifacts.0", "op": "exists"}, False),
    ({"data": {"large": "x" * 60_000}}, {"field": "data.large", "op": "contains", "value": "xx"}, True),
    ({}, {"field": "data.ok", "op": "neq", "value": True}, False),
    ({}, {"field": "data.ok", "op": "not_exists"}, True),
]


@pytest.mark.parametrize(("result", "when", "holds"), GUARDED)
def test_a_guard_looks_at_the_result(
    w: CheckedWorld, result: dict[str, Any], when: dict[str, Any], holds: bool
) -> None:
    job = w.job(routing=[rule(when=when)])
    complete(w, job, **result)
    w.pump()
    assert len(children(w, job)) == holds
    (data,) = routed(w, job)
    assert data["skipped"] == ([] if holds else [{"rule": 0, "reason": "guard"}])


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_a_job_that_did_not_complete_has_no_result_to_look_at(w: CheckedWorld, ending: str) -> None:
    absent = rule(on=ending, when={"field": "data", "op": "not_exists"})
    there = rule(on=ending, when={"field": "summary", "op": "neq", "value": ""})
    job, _ = w.job_in(ending, routing=[absent, there])
    w.pump()
    (data,) = routed(w, job)
    assert (len(data["created"]), data["skipped"]) == (1, [{"rule": 1, "reason": "guard"}])


def test_when_no_guard_holds_the_job_tells_it(w: CheckedWorld) -> None:
    when = {"field": "data.ok", "op": "eq", "value": True}
    job = w.job(routing=[rule(when=when), rule(on="failed"), rule(when=when)])
    complete(w, job)
    w.pump()
    assert children(w, job) == []
    assert routed(w, job) == [
        {"created": [], "skipped": [{"rule": 0, "reason": "guard"}, {"rule": 2, "reason": "guard"}]}
    ]


def test_verdicts_come_in_order_and_name_the_first_reason() -> None:
    never = {"field": "data", "op": "exists"}
    listed = [rule(on=on, when=when, role=role) for on, when, role in (
        ("failed", None, "qa"), ("completed", never, "gone"), ("completed", None, "gone"), ("completed", None, "qa"),
    )]  # fmt: skip
    found = [(v.number, v.skipped) for v in rules.judge(listed, "completed", None, {"qa"})]
    assert found == [(1, "guard"), (2, "unknown_role"), (3, None)]
    assert rules.judge(listed, "cancelled", None, {"qa"}) == []


# ---- roles that are gone


def test_a_rule_whose_role_is_gone_is_skipped_and_the_job_stays_completed(w: CheckedWorld) -> None:
    job = w.job(routing=[rule(role="ops"), rule(), rule(role="ops")])
    w.ok("DELETE", "P/roles/ops", token="owner")
    complete(w, job)
    w.pump()
    (data,) = routed(w, job)
    assert [child["role"] for child in children(w, job)] == ["qa"]
    gone = {"reason": "unknown_role", "role": "ops"}
    assert data["skipped"] == [{"rule": 0, **gone}, {"rule": 2, **gone}]
    assert w.get(job)["status"] == "completed"
    # it was decided then: a role that is made again brings nothing back
    w.ok("POST", "P/roles", {"key": "ops", "label": "O"}, token="owner")
    w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    w.pump()
    assert len(children(w, job)) == len(routed(w, job)) == 1
    at_rest(w)


def test_a_role_that_goes_after_the_job_was_made_changes_nothing(w: CheckedWorld) -> None:
    job = w.job(routing=[rule()])
    complete(w, job)
    w.pump()
    w.ok("DELETE", "P/roles/qa", token="owner")
    w.bus.store.queues.send("routing", [(message(job), 0)])
    w.pump()
    (data,) = routed(w, job)
    assert data == {"created": [children(w, job)[0]["id"]], "skipped": []}


def test_a_role_that_went_and_came_back_counts_as_there(w: CheckedWorld) -> None:
    job = w.job(routing=[rule()])
    w.ok("DELETE", "P/roles/qa", token="owner")
    complete(w, job)
    w.ok("POST", "P/roles", {"key": "qa", "label": "Q", "lease_seconds": 77}, token="owner")
    w.pump()
    (child,) = children(w, job)
    assert w.get(child["id"])["lease_seconds"] == 77
