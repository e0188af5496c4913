"""Completion: results of every size, evidence, artifacts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.unit.checked import ALONE, CheckedWorld, checked
from tests.unit.test_jsonio import ordered


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def noise(size: int, seed: int = 0) -> str:
    """Text that does not compress."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size))


def finish(w: CheckedWorld, result: Any, **fields: Any) -> dict[str, Any]:
    job = w.job(**fields)
    w.claim(job)
    shown = w.ok(
        "POST", f"P/jobs/{job}/complete", {"fence": 1, **({} if result is None else {"result": result})}
    )["job"]
    assert w.get(job) == {**shown, **ALONE}
    return dict(shown)


def test_the_answer_is_the_completed_job(w: CheckedWorld) -> None:
    shown = finish(w, {"summary": "done é", "data": {"z": 1, "a": [None, 1.5]}})
    assert (shown["status"], shown["completed_at"], shown["lease_expires_at"]) == (
        "completed",
        "2026-11-30T21:00:00.000Z",
        None,
    )
    assert shown["assignee_label"] == "agent-1"
    assert shown["result"] == {"summary": "done é", "data": {"z": 1, "a": [None, 1.5]}, "artifacts": []}
    assert list(shown["result"]["data"]) == ["z", "a"]


def test_a_result_is_optional_and_so_are_its_parts(w: CheckedWorld) -> None:
    assert finish(w, None)["result"] is None
    assert finish(w, {})["result"] == {"summary": None, "data": None, "artifacts": []}


@pytest.mark.parametrize(
    "data", [None, 0, "", [], {}, False, "text", [1, {"a": 2}], 10**999, -0.0, "\ud800\0", {"\ud800": [[]]}]
)
def test_result_data_is_any_json(w: CheckedWorld, data: Any) -> None:
    shown = finish(w, {"summary": "s", "data": data})
    assert ordered(shown["result"]["data"]) == ordered(data)


@pytest.mark.parametrize("size", [1, 150, 400, 5_000, 40_000, 65_534])
@pytest.mark.parametrize("compressible", [True, False])
def test_results_of_every_size_come_back(w: CheckedWorld, size: int, compressible: bool) -> None:
    data = "a" * size if compressible else noise(size)
    shown = finish(w, {"data": data})
    assert shown["result"]["data"] == data
    listed = w.ok("GET", "P/jobs", query={"status": "completed"})["items"]
    assert [job["id"] for job in listed] == [shown["id"]]


def test_the_event_names_summary_and_artifacts(w: CheckedWorld) -> None:
    shown = finish(w, {"summary": "s", "artifacts": [{"type": "log", "uri": "s3://x", "checksum": "c"}]})
    w.dispatch()
    event = w.ok("GET", f"P/jobs/{shown['id']}/events")["items"][-1]
    (artifact,) = shown["artifacts"]
    assert event["data"] == {
        "fence": 1, "summary": "s", "artifacts": [{"id": artifact["id"], "type": "log", "uri": "s3://x", "checksum": "c", "state": "referenced"}],
    }  # fmt: skip
    assert shown["result"]["artifacts"] == [artifact["id"]]


# ---- evidence


def test_evidence_is_checked_first_and_every_missing_type_is_named(w: CheckedWorld) -> None:
    job = w.job(requires=["log", "report", "diff"], artifacts=[{"type": "report", "uri": "s3://r"}])
    w.claim(job)
    path = f"P/jobs/{job}/complete"
    body = {"fence": 1, "result": {"artifacts": [{"type": "diff", "uri": "s3://d"}]}}
    refused = w.refused("evidence_missing", "POST", path, body)
    assert ["log" in error["message"] for error in refused.body["errors"]] == [True]
    refused = w.refused("evidence_missing", "POST", path, {"fence": 1})
    assert len(refused.body["errors"]) == 2
    w.ok("POST", f"P/jobs/{job}/artifacts", {"fence": 1, "type": "log", "uri": "s3://l"})
    shown = w.ok("POST", path, body)["job"]
    assert {artifact["type"] for artifact in shown["artifacts"]} == {"log", "report", "diff"}


def test_fence_and_status_are_judged_before_evidence(w: CheckedWorld) -> None:
    job = w.job(requires=["log"])
    w.claim(job)
    w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": 9})
    w.ok("POST", f"P/jobs/{job}/block", {"fence": 1, "reason": "r"})
    w.refused("wrong_state", "POST", f"P/jobs/{job}/complete", {"fence": 1})


# ---- artifacts of a job


def attach(w: CheckedWorld, job: str, token: str = "agent", **more: Any) -> Any:
    return w.call("POST", f"P/jobs/{job}/artifacts", {"type": "log", "uri": "s3://x", **more}, token=token)


def test_an_attached_artifact_is_shown_and_read_alone(w: CheckedWorld) -> None:
    job = w.job()
    reply = attach(w, job, checksum="sha256:1", metadata={"b": 1, "a": {"c": 10**999}})
    assert (reply.status, reply.headers["etag"]) == (201, '"v2"')
    artifact = reply.body["artifact"]
    assert (artifact["type"], artifact["uri"], artifact["checksum"], artifact["state"]) == (
        "log",
        "s3://x",
        "sha256:1",
        "referenced",
    )
    assert list(artifact["metadata"]) == ["b", "a"]
    assert artifact["author"]["label"] == "agent-1"
    assert w.get(job)["artifacts"] == [artifact]
    assert w.ok("GET", f"P/jobs/{job}/artifacts/{artifact['id']}")["artifact"] == artifact
    w.refused("not_found", "GET", f"P/jobs/{job}/artifacts/art_none")
    w.refused("not_found", "GET", f"P/jobs/{w.job()}/artifacts/{artifact['id']}")


def test_artifacts_come_in_the_order_they_were_attached(w: CheckedWorld) -> None:
    job = w.job(artifacts=[{"type": "first", "uri": "s3://0"}])
    for number in range(3):
        w.clock.advance(1)
        attach(w, job, uri=f"s3://{number}")
    assert [a["uri"] for a in w.get(job)["artifacts"]] == ["s3://0", "s3://0", "s3://1", "s3://2"]


@pytest.mark.parametrize(
    "status",
    ["pending", "published", "in_progress", "blocked", "unblocked", "completed", "failed", "cancelled"],
)
def test_who_may_attach_when(w: CheckedWorld, status: str) -> None:
    for name in ("source", "stranger"):
        w.enrol(name)
    w.viewer()
    job, fence = w.job_in(status, token="source")
    ended, held = (
        status in ("completed", "failed", "cancelled"),
        status in ("in_progress", "blocked", "unblocked"),
    )
    assert attach(w, job, "source").code == ("wrong_state" if ended else None)
    assert attach(w, job, "owner").status == 201
    assert attach(w, job, "stranger").code == "forbidden"
    assert attach(w, job, "viewer").code == "forbidden"
    if held:
        assert attach(w, job).code == "invalid", "the holder sends its fence"
        assert attach(w, job, fence=fence).status == 201
        assert attach(w, job, "stranger", fence=fence).code == "not_holder"
        assert attach(w, job, fence=fence + 1).code == "lease_lost"
    elif status in ("completed", "failed"):
        assert attach(w, job, fence=fence).code == "wrong_state"


def test_a_hundred_artifacts_at_most(w: CheckedWorld) -> None:
    job = w.job(artifacts=[{"type": "t", "uri": f"u{n}"} for n in range(50)])
    for number in range(49):
        assert attach(w, job, uri=f"v{number}").status == 201
    w.claim(job)
    two = [{"type": "t", "uri": "w1"}, {"type": "t", "uri": "w2"}]
    w.refused("limit_reached", "POST", f"P/jobs/{job}/complete", {"fence": 1, "result": {"artifacts": two}})
    assert attach(w, job, fence=1).status == 201
    w.refused("limit_reached", "POST", f"P/jobs/{job}/artifacts", {"type": "t", "uri": "z", "fence": 1})
    assert len(w.get(job)["artifacts"]) == 100
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})


def test_fifty_artifacts_come_with_a_result(w: CheckedWorld) -> None:
    given = [{"type": "t", "uri": f"u{n}", "metadata": {"n": n}} for n in range(50)]
    shown = finish(w, {"artifacts": given, "data": noise(60_000)})
    assert [artifact["metadata"]["n"] for artifact in shown["artifacts"]] == list(range(50))
    assert shown["result"]["artifacts"] == [artifact["id"] for artifact in shown["artifacts"]]


def test_a_repeated_attachment_attaches_once(w: CheckedWorld) -> None:
    job = w.job()
    body = {"type": "log", "uri": "s3://x"}
    first = w.call("POST", f"P/jobs/{job}/artifacts", body, key="K")
    attach(w, job, uri="s3://else")
    again = w.call("POST", f"P/jobs/{job}/artifacts", body, key="K")
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.body == first.body
    assert len(w.get(job)["artifacts"]) == 2
    w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/artifacts", {**body, "uri": "y"}, key="K")
