"""Reviews: a rejection, the retry that it makes, and what the retry is told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.chains import NOT_THERE, cancel, complete, create, events, fail
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import reviewed


@pytest.fixture
def w() -> CheckedWorld:
    made = checked()
    made.enrol("critic", ("developer", "reviewer"))
    return made


def review(w: CheckedWorld, target: str, token: str = "critic", **more: Any) -> tuple[str, int]:
    """(a job that reviews the target, the fence under which ``token`` holds it)."""
    job = create(w, target, **{"role": "reviewer", **more})["id"]
    return job, w.claim(job, token)


def reject(
    w: CheckedWorld, job: str, fence: int, target: str, reason: str = "no", token: str = "critic"
) -> Any:
    body = {"fence": fence, "target": target, "reason": reason}
    return w.ok("POST", f"P/jobs/{job}/reject", body, token=token)


def sent_back(w: CheckedWorld, target: str, reason: str = "no") -> tuple[str, str]:
    """(the reviewer that rejected the target, the retry)."""
    job, fence = review(w, target)
    return job, reject(w, job, fence, target, reason)["retry"]["id"]


# ---- what a rejection does


def test_the_work_is_published_once_more_and_the_review_waits_for_it(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    job, fence = review(w, target)
    answer = reject(w, job, fence, target, "not tested")
    retry, reviewer = answer["retry"], answer["reviewer"]
    assert (retry["status"], retry["reopen_of"], retry["role"], retry["retry_count"], retry["attempt"]) == (
        "published", target, "developer", 1, 2,
    )  # fmt: skip
    assert (reviewer["status"], reviewer["assignee"], reviewer["fence"], reviewer["retry_count"]) == (
        "pending", None, fence + 1, 0,
    )  # fmt: skip
    assert answer["reason_truncated"] is False
    assert reviewer["blocked_by"] == [retry["id"]]
    assert {up["id"]: up for up in reviewer["upstream"]} == {
        target: {"id": target, "type": "blocks", "state": "replaced", "replaced_by": retry["id"]},
        retry["id"]: {"id": retry["id"], "type": "blocks", "state": "open"},
    }
    original = w.get(target)
    assert (original["status"], original["retried_by"], original["downstream"]) == (
        "completed",
        retry["id"],
        [],
    )
    assert w.get(retry["id"])["downstream"] == [job]
    refused = w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": fence}, token="critic")
    assert "pending" in refused.body["detail"]
    w.refused("waiting_upstream", "POST", f"P/jobs/{job}/claim", {}, token="critic")
    complete(w, retry["id"], data="better")
    claimed = w.ok("POST", f"P/jobs/{job}/claim", {}, token="critic")
    (result,) = claimed["upstream_results"]
    assert (result["id"], result["result"]["data"]) == (retry["id"], "better")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": claimed["claim"]["fence"]}, token="critic")


def test_events_on_all_three(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    job, fence = review(w, target)
    retry = reject(w, job, fence, target, "not tested")["retry"]["id"]
    w.pump()
    (rejected,) = events(w, job, "job.rejected")
    assert (rejected["from"], rejected["to"], rejected["actor"]["label"]) == (
        "in_progress",
        "pending",
        "critic",
    )
    assert rejected["data"] == {"fence": fence, "target": target, "retry": retry, "reason": "not tested"}
    (reopened,) = events(w, target, "job.reopened")
    assert (reopened["from"], reopened["to"], reopened["actor"]["label"]) == (
        "completed",
        "completed",
        "critic",
    )
    assert reopened["data"] == {"reviewer": job, "retry": retry, "reason": "not tested"}
    (created,) = events(w, retry, "job.created")
    assert (created["to"], created["data"]["reopen_of"], created["data"]["attempt"]) == (
        "published",
        target,
        2,
    )
    complete(w, retry)
    assert w.types(job)[-1] == "job.activated"


def test_what_the_retry_has_from_its_original(w: CheckedWorld) -> None:
    w.enrol("other", ("qa",))
    parent, up = w.job(), w.job_in("completed")[0]
    rule = {"role": "qa", "summary": "check it", "when": {"field": "data.ok", "op": "eq", "value": True}}
    copied = {
        "role": "qa", "summary": "text", "priority": 30, "constraints": ["c"], "context": {"z": 1}, "requires": ["log"], "max_retries": 2,
        "lease_seconds": 60, "on_expire": "fail", "parent": parent, "capabilities": [], "independent": True,
    }  # fmt: skip
    target = create(
        w, up, external_id="T-1", deadline="2027-01-01T00:00:00Z", not_before="2026-01-01T00:00:00Z", routing=[rule],
        artifacts=[{"type": "plan", "uri": "s3://plan"}], **copied,
    )["id"]  # fmt: skip
    version = {"If-Match": '"v1"'}
    edited = {"constraints": ["c", "d"], "context": {"edited": True}, "summary": "text!"}
    w.ok("PATCH", f"P/jobs/{target}", edited, headers=version)
    fence = w.claim(target, "other")
    done = {"fence": fence, "result": {"data": 1, "artifacts": [{"type": "log", "uri": "s3://log"}]}}
    w.ok("POST", f"P/jobs/{target}/complete", done, token="other")
    w.pump()
    retry = w.get(sent_back(w, target)[1])
    assert {name: retry[name] for name in copied} == {**copied, **edited}
    assert retry["routing"] == w.get(target)["routing"]
    assert [(artifact["type"], artifact["author"]["kind"]) for artifact in retry["artifacts"]] == [
        ("plan", "agent"),
        ("rejection_reason", "system"),
    ]
    left_out = ("external_id", "deadline", "not_before", "result", "assignee", "completed_at", "retried_by")
    assert {name: retry[name] for name in left_out} == dict.fromkeys(left_out)
    assert retry["blocked_by"] == retry["upstream"] == []
    critic = w.ok("GET", "P/me", token="critic")["actor"]["id"]
    assert (retry["source"], retry["source_label"]) == (critic, "critic")


def test_the_evidence_and_the_rules_hold_for_the_retry(w: CheckedWorld) -> None:
    when = {"field": "data.ok", "op": "eq", "value": True}
    rule = {"role": "qa", "summary": "check it", "when": when}
    target = w.job(requires=["log"], routing=[rule])
    log = {"artifacts": [{"type": "log", "uri": "s3://log"}]}
    w.ok("POST", f"P/jobs/{target}/complete", {"fence": w.claim(target), "result": {"data": {}, **log}})
    w.pump()
    retry = sent_back(w, target)[1]
    fence = w.claim(retry)
    w.refused("evidence_missing", "POST", f"P/jobs/{retry}/complete", {"fence": fence})
    w.ok("POST", f"P/jobs/{retry}/complete", {"fence": fence, "result": {"data": {"ok": True}, **log}})
    w.pump()
    assert w.ok("GET", "P/jobs", query={"parent": target})["items"] == [], "its guard did not hold"
    (follow,) = w.ok("GET", "P/jobs", query={"parent": retry})["items"]
    assert follow["summary"] == "check it"


def test_the_rejection_is_an_artifact_of_the_retry(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    job, retry = sent_back(w, target, "not tested")
    (artifact,) = w.get(retry)["artifacts"]
    critic = w.ok("GET", "P/me", token="critic")["actor"]
    assert (artifact["type"], artifact["uri"], artifact["state"]) == (
        "rejection_reason", "inline://rejection_reason", "referenced",
    )  # fmt: skip
    assert artifact["metadata"] == {
        "reason": "not tested", "reason_truncated": False, "reviewer": job, "original": target, "retry_count": 1,
        "rejected_by": {name: critic[name] for name in ("kind", "id", "label")},
    }  # fmt: skip
    assert w.ok("GET", f"P/jobs/{retry}/artifacts/{artifact['id']}")["artifact"] == artifact


def test_who_has_begun_with_what_was_sent_back_is_named(w: CheckedWorld) -> None:
    target = w.job()
    below = {name: create(w, target)["id"] for name in ("published", "held", "done", "failed", "cancelled")}
    waiting = create(w, target, w.job())["id"]
    complete(w, target)
    w.claim(below["held"])
    complete(w, below["done"])
    fail(w, below["failed"])
    cancel(w, below["cancelled"])
    sent_back(w, target)
    (reopened,) = events(w, target, "job.reopened")
    assert sorted(reopened["data"]["already_started"]) == sorted(
        below[name] for name in ("published", "held", "done")
    )
    assert w.get(waiting)["status"] == "pending"


# ---- who, when, bad input


def test_only_the_holder_rejects(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    job, fence = review(w, target)
    body = {"fence": fence, "target": target, "reason": "no"}
    w.refused("not_holder", "POST", f"P/jobs/{job}/reject", body)
    w.refused("forbidden", "POST", f"P/jobs/{job}/reject", body, token="owner")
    for wrong in (fence + 1, 2**53):
        w.refused("lease_lost", "POST", f"P/jobs/{job}/reject", {**body, "fence": wrong}, token="critic")
    w.ok("POST", f"P/jobs/{job}/stop", {"reason": "no"}, token="owner")
    w.refused("stop_requested", "POST", f"P/jobs/{job}/reject", body, token="critic")


@pytest.mark.parametrize("verbs", [["block"], ["block", "unblock"]])
def test_only_work_in_progress_rejects(w: CheckedWorld, verbs: list[str]) -> None:
    target = w.job_in("completed")[0]
    job, fence = review(w, target)
    for verb in verbs:
        w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": fence, "reason": "r"}, token="critic")
    body = {"fence": fence, "target": target, "reason": "no"}
    w.refused("wrong_state", "POST", f"P/jobs/{job}/reject", body, token="critic")


def test_only_a_completed_upstream_is_sent_back(w: CheckedWorld) -> None:
    other, parent, failed = w.job_in("completed")[0], w.job_in("completed")[0], w.job_in("failed")[0]
    target = w.job_in("completed")[0]
    job, fence = review(w, target, parent=parent)
    going, number = review(w, failed, on_upstream_failure="continue")
    below = create(w, job)["id"]
    for name in (other, parent, job, below):
        body = {"fence": fence, "target": name, "reason": "no"}
        refused = w.refused("not_reviewable", "POST", f"P/jobs/{job}/reject", body, token="critic")
        assert refused.body["errors"][0]["path"] == "target"
    body = {"fence": number, "target": failed, "reason": "no"}
    w.refused("not_reviewable", "POST", f"P/jobs/{going}/reject", body, token="critic")


def test_what_was_sent_back_once_is_not_sent_back_again(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    job, retry = sent_back(w, target)
    complete(w, retry)
    body = {"fence": w.claim(job, "critic"), "target": target, "reason": "no"}
    w.refused("not_reviewable", "POST", f"P/jobs/{job}/reject", body, token="critic")


def test_the_target_must_be_a_job_that_the_caller_sees(w: CheckedWorld) -> None:
    other = w.project()
    w.enrol_in(other, "foreign")
    theirs = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="foreign")["job"][
        "id"
    ]
    job, fence = review(w, w.job_in("completed")[0])
    for number in (fence, 9):
        for unknown in (theirs, NOT_THERE, "x"):
            body = {"fence": number, "target": unknown, "reason": "no"}
            refused = w.refused("unknown_job", "POST", f"P/jobs/{job}/reject", body, token="critic")
            assert refused.body["errors"] == [{"path": "target", "message": f"unknown job {unknown}"}]


@pytest.mark.parametrize(
    ("field", "value"),
    [("target", None), ("target", ""), ("target", "JOB"), ("target", [1]), ("reason", None), ("reason", " "), ("reason", "x" * 20_001),
     ("reason", 1), ("fence", None), ("fence", 0), ("fence", "1")],
)  # fmt: skip
def test_fields_that_are_not_acceptable(w: CheckedWorld, field: str, value: Any) -> None:
    target, job, fence = reviewed(w)
    body = {"fence": fence, "target": target, "reason": "no", field: value}
    refused = w.refused("invalid", "POST", f"P/jobs/{job}/reject", body)
    assert [error["path"] for error in refused.body["errors"]] == [field]
