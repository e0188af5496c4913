"""What a rejection says, whole or cut, and what the retry's worker is told of it; repeats."""

from __future__ import annotations

import pytest
from tests.unit.chains import complete, create, events
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import reviewed


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def sent_back(w: CheckedWorld, reason: str = "no", **target: object) -> tuple[str, str, str]:
    """(a completed job, its reviewer, the retry)."""
    name, job, fence = reviewed(w, **target)
    body = {"fence": fence, "target": name, "reason": reason}
    return name, job, w.ok("POST", f"P/jobs/{job}/reject", body)["retry"]["id"]


def test_it_says_who_sent_the_work_back_and_why(w: CheckedWorld) -> None:
    target, job, retry = sent_back(w, "not tested", constraints=["tests pass"], summary="text", max_retries=5)
    me = w.ok("GET", "P/me")["actor"]
    rejection = {
        "reviewer": job, "rejected_by": {name: me[name] for name in ("kind", "id", "label")}, "rejected_at": "2026-11-30T21:00:00.000Z",
        "reason": "not tested", "reason_truncated": False,
    }  # fmt: skip
    assert w.ok("GET", f"P/jobs/{retry}/reopen-context") == {
        "retry": retry, "original": target, **rejection, "retry_count": 1, "max_retries": 5, "summary": "text",
        "constraints": ["tests pass"], "role": "developer", "rejections": [rejection],
    }  # fmt: skip
    for token in ("owner", "agent"):
        assert w.ok("GET", f"P/jobs/{retry}/reopen-context", token=token)["reason"] == "not tested"


def test_of_several_rejections_the_latest_comes_first_and_all_are_listed(w: CheckedWorld) -> None:
    target = w.job_in("completed")[0]
    reviewers = [create(w, target)["id"] for _ in range(3)]
    fences = [w.claim(job) for job in reviewers]
    for number, (job, fence) in enumerate(zip(reviewers, fences, strict=True)):
        w.clock.advance(1)
        body = {"fence": fence, "target": target, "reason": f"reason {number}"}
        retry = w.ok("POST", f"P/jobs/{job}/reject", body)["retry"]["id"]
    told = w.ok("GET", f"P/jobs/{retry}/reopen-context")
    assert (told["reason"], told["reviewer"]) == ("reason 2", reviewers[2])
    assert [rejection["reason"] for rejection in told["rejections"]] == ["reason 0", "reason 1", "reason 2"]


def test_each_retry_of_a_lineage_is_told_its_own(w: CheckedWorld) -> None:
    target, job, first = sent_back(w, "slow")
    complete(w, first)
    body = {"fence": w.claim(job), "target": first, "reason": "ugly"}
    second = w.ok("POST", f"P/jobs/{job}/reject", body)["retry"]["id"]
    told = w.ok("GET", f"P/jobs/{second}/reopen-context")
    assert (told["original"], told["reason"], told["retry_count"], len(told["rejections"])) == (
        first,
        "ugly",
        2,
        1,
    )
    assert w.ok("GET", f"P/jobs/{first}/reopen-context")["original"] == target


def test_nobody_else_can_give_a_reason(w: CheckedWorld) -> None:
    _, _, retry = sent_back(w, "not tested")
    forged = {
        "type": "rejection_reason",
        "uri": "inline://rejection_reason",
        "metadata": {"reason": "all is well"},
    }
    w.clock.advance(1)
    w.ok("POST", f"P/jobs/{retry}/artifacts", {**forged, "fence": w.claim(retry)})
    w.ok("POST", f"P/jobs/{retry}/artifacts", forged, token="owner")
    told = w.ok("GET", f"P/jobs/{retry}/reopen-context")
    assert (told["reason"], len(told["rejections"])) == ("not tested", 1)


@pytest.mark.parametrize("made", ["plain", "forged", "original", "reviewer"])
def test_what_was_not_sent_back_has_none(w: CheckedWorld, made: str) -> None:
    target, reviewer, _ = sent_back(w)
    job = {"plain": w.job(), "original": target, "reviewer": reviewer}.get(made) or w.job(
        artifacts=[
            {"type": "rejection_reason", "uri": "inline://rejection_reason", "metadata": {"reason": "r"}}
        ]
    )
    refused = w.refused("not_found", "GET", f"P/jobs/{job}/reopen-context")
    assert "not a retry" in refused.body["detail"]


@pytest.mark.parametrize("character", ["x", "é", "😀", "\ud800"])
def test_a_long_reason_is_cut_and_the_answers_say_so(w: CheckedWorld, character: str) -> None:
    kept = "\ufffd" if character == "\ud800" else character
    for length, cut in ((2_000, False), (2_001, True), (20_000, True)):
        target, job, fence = reviewed(w)
        body = {"fence": fence, "target": target, "reason": character * length}
        answer = w.ok("POST", f"P/jobs/{job}/reject", body)
        assert answer["reason_truncated"] is cut
        told = w.ok("GET", f"P/jobs/{answer['retry']['id']}/reopen-context")
        assert (told["reason"], told["reason_truncated"]) == (kept * min(length, 2_000), cut)
        (rejected,) = events(w, job, "job.rejected")
        assert (rejected["data"]["reason"], rejected["data"].get("reason_truncated", False)) == (
            told["reason"],
            cut,
        )


def test_a_keyed_repeat_answers_both_jobs_as_they_are_now(w: CheckedWorld) -> None:
    target, job, fence = reviewed(w)
    body = {"fence": fence, "target": target, "reason": "x" * 2_001}
    first = w.call("POST", f"P/jobs/{job}/reject", body, key="K").body
    complete(w, first["retry"]["id"])
    before = w.everything()
    again = w.call("POST", f"P/jobs/{job}/reject", body, key="K")
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.body["retry"] == {**again.body["retry"], "id": first["retry"]["id"], "status": "completed"}
    assert (again.body["reviewer"]["status"], again.body["reason_truncated"]) == ("published", True)
    assert w.everything() == before
    w.refused("idempotency_mismatch", "POST", f"P/jobs/{job}/reject", {**body, "reason": "else"}, key="K")
    w.refused("lease_lost", "POST", f"P/jobs/{job}/reject", body)


def test_what_a_rejection_makes_is_visible_to_those_who_see_it(w: CheckedWorld) -> None:
    target, job, retry = sent_back(w)
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("narrow", ("qa",))
    for name in (target, job, retry):
        w.refused("not_found", "GET", f"P/jobs/{name}", token="narrow")
        w.refused("not_found", "GET", f"P/jobs/{name}/reopen-context", token="narrow")
