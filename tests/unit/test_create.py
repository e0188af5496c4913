"""Publishing a job: fields, defaults, references, external ids, repeats."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.world import START
from tests.unit.checked import ALONE, CheckedWorld, checked

from interlock.domain.times import rfc3339

CREATED = "2026-11-30T21:00:00.000Z"


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def publish(w: CheckedWorld, **fields: Any) -> dict[str, Any]:
    return w.ok("POST", "P/jobs", {"summary": "work", "role": "developer", **fields})["job"]


NOTHING = {"input_tokens": 0, "output_tokens": 0, "usd": 0.0, "seconds": 0.0}


def test_a_job_with_nothing_but_summary_and_role_has_the_documented_defaults(w: CheckedWorld) -> None:
    reply = w.call("POST", "P/jobs", {"summary": "work", "role": "developer"})
    assert reply.status == 201
    job = reply.body["job"]
    me = w.ok("GET", "P/me")["actor"]
    assert reply.headers["etag"] == '"v1"'
    assert job == {
        "id": job["id"], "external_id": None, "summary": "work", "status": "published", "role": "developer", "priority": 20,
        "parent": None, "source": me["id"], "source_label": "agent-1", "assignee": None, "assignee_label": None, "attempt": 1,
        "retry_count": 0, "max_retries": 3, "created_at": CREATED, "updated_at": CREATED, "published_at": CREATED, "not_before": None,
        "deadline": None, "overdue": False, "fence": 0, "version": 1, "digest": job["digest"], "constraints": [], "context": {},
        "artifacts": [], "result": None, "requires": [], "capabilities": [], "lease_seconds": 1800, "on_expire": "publish",
        "session": None, "lease_expires_at": None, "started_at": None, "blocked_at": None, "unblocked_at": None, "completed_at": None,
        "failed_at": None, "cancelled_at": None, "blocked_reason": None, "unblock_reason": None, "failure_reason": None,
        "cancel_reason": None, "last_failure": None, "traceparent": None, "rev": 1,
        "blocked_by": [], "upstream": [], "on_upstream_failure": "match", "independent": False, "routing": [], "caused_by": None,
        "reopen_of": None, "retried_by": None, "routed_from": None,
        "decision": None, "open_decisions": [], "approved_by": None, "budget": None,
        "usage": {"reported": NOTHING, "metered": {"seconds": 0.0}, "earlier": None, "model": None},
    }  # fmt: skip
    assert w.ok("GET", f"P/jobs/{job['id']}")["job"] == {**job, **ALONE}


def test_every_field_comes_back_as_it_was_sent(w: CheckedWorld) -> None:
    parent = w.job()
    context = {"z": [1, {"a": None}], "big": 10**999, "real": 1e-7, "text": "nul \0 lone \ud800 😀", "": {}}
    sent = {
        "external_id": "ISSUE-123", "priority": 40, "constraints": ["a", "b"], "context": context, "parent": parent,
        "max_retries": 7, "lease_seconds": 60, "on_expire": "fail", "requires": ["log"], "capabilities": ["gpu", "mac"],
        "not_before": "2026-11-30T23:00:00+01:00", "deadline": "2027-01-01T00:00:00.5Z",
    }  # fmt: skip
    job = publish(
        w,
        **sent,
        artifacts=[{"type": "log", "uri": "s3://x", "checksum": "sha256:1", "metadata": {"b": 1, "a": 2}}],
    )
    times = {"not_before": "2026-11-30T22:00:00.000Z", "deadline": "2027-01-01T00:00:00.500Z"}
    assert {name: job[name] for name in sent} == {**sent, **times}
    assert list(job["context"]) == list(context)
    (artifact,) = job["artifacts"]
    assert list(artifact["metadata"]) == ["b", "a"]
    assert artifact == {
        "id": artifact["id"], "type": "log", "uri": "s3://x", "checksum": "sha256:1", "metadata": {"b": 1, "a": 2},
        "state": "referenced", "author": {"kind": "agent", "id": job["source"], "label": "agent-1"}, "created_at": CREATED,
    }  # fmt: skip
    assert w.get(job["id"]) == {**job, **ALONE}


@pytest.mark.parametrize(("name", "number"), [("low", 10), ("normal", 20), ("high", 30), ("urgent", 40)])
def test_priorities_by_name_and_by_number(w: CheckedWorld, name: str, number: int) -> None:
    assert publish(w, priority=name)["priority"] == number
    assert publish(w, priority=number)["priority"] == number


def test_defaults_come_from_the_role_then_the_project(w: CheckedWorld) -> None:
    w.ok("PATCH", "P", {"settings": {"lease_seconds": 900}}, token="owner")
    w.ok(
        "POST", "P/roles", {"key": "robot", "label": "R", "lease_seconds": 77, "on_expire": "fail", "capabilities": ["arm"]},
        token="owner",
    )  # fmt: skip
    plain = publish(w)
    assert (plain["lease_seconds"], plain["on_expire"], plain["capabilities"]) == (900, "publish", [])
    made = publish(w, role="robot")
    assert (made["lease_seconds"], made["on_expire"], made["capabilities"]) == (77, "fail", ["arm"])
    own = publish(w, role="robot", lease_seconds=50, on_expire="publish", capabilities=[])
    assert (own["lease_seconds"], own["on_expire"], own["capabilities"]) == (50, "publish", [])


def test_a_later_change_of_the_role_leaves_jobs_as_they_are(w: CheckedWorld) -> None:
    job = w.job()
    w.ok("PATCH", "P/roles/developer", {"lease_seconds": 60}, token="owner")
    assert w.get(job)["lease_seconds"] == 1800
    assert w.get(w.job())["lease_seconds"] == 60


def test_not_before_ahead_makes_the_job_wait_and_behind_does_not(w: CheckedWorld) -> None:
    ahead = publish(w, not_before=rfc3339(START + 1))
    assert (ahead["status"], ahead["published_at"]) == ("pending", None)
    assert publish(w, not_before=rfc3339(START))["status"] == "published"
    assert publish(w, not_before="1970-01-02T00:00:00Z")["status"] == "published"


def test_text_keeps_every_character_and_replaces_lone_surrogates(w: CheckedWorld) -> None:
    text = "nul \0 rtl \u202e 😀 \ufeff"
    job = publish(w, summary=text + "\ud800", constraints=["\udfff x"], external_id="\ud83d")
    assert job["summary"] == text + "\ufffd"
    assert job["constraints"] == ["\ufffd x"]
    assert job["external_id"] == "\ufffd"


def test_repeated_capabilities_and_evidence_are_kept_once(w: CheckedWorld) -> None:
    job = publish(w, capabilities=["b", "a", "b"], requires=["log", "log"])
    assert (job["capabilities"], job["requires"]) == (["b", "a"], ["log"])


def test_the_trace_of_the_call_is_kept(w: CheckedWorld) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    body = {"summary": "work", "role": "developer"}
    assert w.ok("POST", "P/jobs", body, headers={"traceparent": trace})["job"]["traceparent"] == trace
    assert w.ok("POST", "P/jobs", body, headers={"traceparent": "nonsense"})["job"]["traceparent"] is None


def test_owners_publish_too(w: CheckedWorld) -> None:
    job = w.get(w.job(token="owner"))
    assert job["source_label"] == "local owner"
    assert job["source"].startswith("own_")


def test_an_unknown_role_is_refused_naming_the_roles_there_are(w: CheckedWorld) -> None:
    refused = w.refused("unknown_role", "POST", "P/jobs", {"summary": "x", "role": "chef"}).body
    assert all(role in refused["detail"] for role in ("developer", "qa", "reviewer", "ops"))
    assert [error["path"] for error in refused["errors"]] == ["role"]
    w.ok("DELETE", "P/roles/qa", token="owner")
    w.refused("unknown_role", "POST", "P/jobs", {"summary": "x", "role": "qa"})


def test_the_parent_must_be_a_job_that_the_caller_sees(w: CheckedWorld) -> None:
    other = w.project()
    w.enrol_in(other, "foreign")
    theirs = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="foreign")["job"][
        "id"
    ]
    for parent in ("job_00000000000000000000000000", theirs):
        refused = w.refused(
            "unknown_job", "POST", "P/jobs", {"summary": "x", "role": "developer", "parent": parent}
        )
        assert [error["path"] for error in refused.body["errors"]] == ["parent"]
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    hidden = w.job(role="ops", token="owner")
    w.enrol("narrow", ("developer",))
    w.refused(
        "unknown_job",
        "POST",
        "P/jobs",
        {"summary": "x", "role": "developer", "parent": hidden},
        token="narrow",
    )


@pytest.mark.parametrize(
    "field",
    ["flow", "type", "as_role", "change_of", "incident_of", "capability", "ref"],
)
def test_fields_of_what_is_not_offered_are_unknown(w: CheckedWorld, field: str) -> None:
    w.refused("unknown_field", "POST", "P/jobs", {"summary": "x", "role": "developer", field: []})


@pytest.mark.parametrize(
    "field",
    ["id", "status", "state", "assignee", "source", "fence", "version", "rev", "attempt", "retry_count", "created_at", "result",
     "blocked_reason", "usage", "digest", "started_at", "upstream", "downstream", "caused_by", "reopen_of", "retried_by", "routed_from"],
)  # fmt: skip
def test_read_only_fields_are_unknown(w: CheckedWorld, field: str) -> None:
    refused = w.refused("unknown_field", "POST", "P/jobs", {"summary": "x", "role": "developer", field: "x"})
    assert refused.body["errors"] == [{"path": field, "message": "is not a known field"}]


def test_no_job_is_for_owners(w: CheckedWorld) -> None:
    w.refused("unknown_role", "POST", "P/jobs", {"summary": "x", "role": "owner"})


# ---- external ids


def test_an_external_id_is_unique_among_jobs_that_have_not_ended(w: CheckedWorld) -> None:
    first = w.job(external_id="T-1")
    body = {"summary": "x", "role": "developer", "external_id": "T-1"}
    for key in (None, "k"):
        refused = w.refused("already_exists", "POST", "P/jobs", body, key=key)
        assert refused.body["job"] == first
        assert first in refused.body["detail"]
    w.ok("POST", f"P/jobs/{first}/cancel", {"reason": "no"})
    w.clock.advance(1)
    second = w.job(external_id="T-1")
    assert w.call("POST", "P/jobs", body).body["job"] == second
    found = w.ok("GET", "P/jobs", query={"external_id": "T-1"})["items"]
    assert [job["id"] for job in found] == [second, first], "newest first"
    found = w.ok("GET", "P/jobs", query={"external_id": "T-1", "status": "published"})["items"]
    assert [job["id"] for job in found] == [second]


def test_the_same_external_id_in_another_project_is_another(w: CheckedWorld) -> None:
    w.job(external_id="T-1")
    other = w.project()
    w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer", "external_id": "T-1"}, token="owner")


@pytest.mark.parametrize("way", ["retry", "restart"])
def test_a_failed_job_comes_back_only_while_its_external_id_is_free(w: CheckedWorld, way: str) -> None:
    job, _ = w.job_in("failed", external_id="T-1")
    twin = w.job(external_id="T-1")
    who = "owner" if way == "retry" else "agent"
    refused = w.refused("already_exists", "POST", f"P/jobs/{job}/{way}", {}, token=who)
    assert refused.body["job"] == twin
    w.ok("POST", f"P/jobs/{twin}/cancel", {"reason": "no"})
    w.ok("POST", f"P/jobs/{job}/{way}", {}, token=who)
    w.refused("already_exists", "POST", "P/jobs", {"summary": "x", "role": "developer", "external_id": "T-1"})


# ---- repeats


def test_a_repeat_answers_the_job_as_it_is_now(w: CheckedWorld) -> None:
    body = {"summary": "work", "role": "developer", "context": {"a": 1}}
    first = w.call("POST", "P/jobs", body, key="K")
    assert (first.status, first.headers.get("idempotency-replayed")) == (201, None)
    job = first.body["job"]["id"]
    w.claim(job)
    before = w.everything()
    again = w.call("POST", "P/jobs", {"role": "developer", "context": {"a": 1}, "summary": "work"}, key="K")
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert {**again.body["job"], **ALONE} == w.get(job)
    assert again.body["job"]["status"] == "in_progress"
    assert w.everything() == before


def test_another_body_under_the_same_key_is_refused(w: CheckedWorld) -> None:
    w.job(key="K")
    w.refused("idempotency_mismatch", "POST", "P/jobs", {"summary": "else", "role": "developer"}, key="K")


def test_keys_belong_to_their_caller_and_project(w: CheckedWorld) -> None:
    w.enrol("b")
    other = w.project()
    jobs = {w.job(key="K"), w.job(key="K", token="b"), w.job(key="K", token="owner"), w.job(key="L")}
    jobs.add(
        w.ok("POST", f"{other}/jobs", {"summary": "work", "role": "developer"}, token="owner", key="K")[
            "job"
        ]["id"]
    )
    assert len(jobs) == 5


def test_a_repeat_of_an_ended_job_is_answered_although_its_external_id_went_on(w: CheckedWorld) -> None:
    first = w.job(external_id="T-1", key="K")
    w.ok("POST", f"P/jobs/{first}/cancel", {"reason": "no"})
    w.job(external_id="T-1")
    assert w.job(external_id="T-1", key="K") == first


def test_what_was_created_is_in_the_ledger(w: CheckedWorld) -> None:
    parent = w.job()
    job = publish(w, parent=parent, not_before="2027-01-01T00:00:00Z", priority="high")
    (event,) = w.ok("GET", f"P/jobs/{job['id']}/events")["items"]
    assert (event["type"], event["from"], event["to"]) == ("job.created", None, "pending")
    assert event["data"] == {
        "role": "developer", "priority": 30, "summary": "work", "parent": parent, "not_before": "2027-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert event["digest"] == job["digest"]
