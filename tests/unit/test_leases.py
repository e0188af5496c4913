"""Leases: renewal by the holder's calls and by heartbeats, stop information, `me`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def left(w: CheckedWorld, job: str, token: str = "agent") -> int | None:
    """Seconds that are left of a lease, without renewing it."""
    claims = w.ok("GET", "P/me", token=token)["claims"]
    return next(claim["expires_in"] for claim in claims if claim["job"] == job)


# ---- renewal by calls


RENEWING = {
    "get": ("GET", "", None),
    "timeline": ("GET", "/events", None),
    "explain": ("GET", "/explain", None),
    "record": ("POST", "/events", {"type": "custom.step"}),
    "attach": ("POST", "/artifacts", {"type": "log", "uri": "s3://x", "fence": 1}),
}


@pytest.mark.parametrize("name", RENEWING)
def test_any_call_on_the_job_by_its_holder_renews(w: CheckedWorld, name: str) -> None:
    method, path, body = RENEWING[name]
    job = w.job()
    w.claim(job, lease_seconds=300)
    w.clock.advance(101)
    w.ok(method, f"P/jobs/{job}{path}", body)
    assert left(w, job) == 300


def test_reading_an_artifact_renews_too(w: CheckedWorld) -> None:
    job = w.job(artifacts=[{"type": "log", "uri": "s3://x"}])
    w.claim(job, lease_seconds=300)
    w.clock.advance(101)
    artifact = w.get(job)["artifacts"][0]["id"]
    w.ok("GET", f"P/jobs/{job}/artifacts/{artifact}")
    assert left(w, job) == 300


@pytest.mark.parametrize(("used", "after"), [(99, 201), (100, 200), (101, 300), (299, 300), (301, 300)])
def test_a_renewal_is_written_only_when_more_than_a_third_is_used(
    w: CheckedWorld, used: int, after: int
) -> None:
    job = w.job()
    w.claim(job, lease_seconds=300)
    w.clock.advance(used)
    before = w.everything()
    w.ok("GET", f"P/jobs/{job}")
    assert left(w, job) == after
    assert (w.everything() == before) is (used <= 100)


def test_a_renewal_is_no_event_and_no_change_for_the_dispatcher(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job)
    w.dispatch()
    version = w.get(job)["version"]
    w.clock.advance(1_000)
    w.ok("GET", f"P/jobs/{job}")
    assert w.get(job)["version"] == version
    assert w.dispatch() == 0
    assert w.types(job) == ["job.created", "job.claimed"]


def test_others_calls_renew_nothing(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, lease_seconds=300)
    w.clock.advance(200)
    for token in ("b", "owner"):
        w.ok("GET", f"P/jobs/{job}", token=token)
    assert left(w, job) == 100


def test_a_renewal_grants_the_claims_own_lease_or_the_resume_window(w: CheckedWorld) -> None:
    job = w.job(lease_seconds=600)
    fence = w.claim(job, heartbeat_seconds=30)
    w.clock.advance(60)
    w.ok("GET", f"P/jobs/{job}")
    assert left(w, job) == 90
    w.ok("POST", f"P/jobs/{job}/block", {"fence": fence, "reason": "r"})
    assert left(w, job) is None
    w.ok("POST", f"P/jobs/{job}/unblock", {"fence": fence, "reason": "r"})
    w.clock.advance(300)
    w.ok("GET", f"P/jobs/{job}")
    assert left(w, job) == 600


def test_a_blocked_job_has_no_lease_to_renew(w: CheckedWorld) -> None:
    job, _ = w.job_in("blocked")
    w.clock.advance(100_000)
    w.ok("POST", "P/heartbeat", {})  # writes down that the agent is there
    before = w.everything()
    w.ok("GET", f"P/jobs/{job}")
    w.ok("POST", "P/heartbeat", {})
    assert w.everything() == before
    assert w.get(job)["status"] == "blocked"


# ---- heartbeat


def test_a_heartbeat_renews_all_leases_of_the_caller(w: CheckedWorld) -> None:
    w.enrol("b")
    jobs = [w.job() for _ in range(3)]
    w.claim(jobs[0], lease_seconds=60)
    w.claim(jobs[1], session="s")
    w.claim(jobs[2], "b", lease_seconds=60)
    w.clock.advance(10)
    answer = w.ok("POST", "P/heartbeat", {})
    assert sorted(answer["claims"], key=lambda claim: claim["expires_in"]) == [
        {"job": jobs[0], "fence": 1, "expires_in": 60, "status": "in_progress"},
        {"job": jobs[1], "fence": 1, "expires_in": 1800, "status": "in_progress"},
    ]
    assert left(w, jobs[2], "b") == 50


def test_a_session_renews_its_own_claims(w: CheckedWorld) -> None:
    mine, other = w.job(), w.job()
    w.claim(mine, session="s1", lease_seconds=60)
    w.claim(other, session="s2", lease_seconds=60)
    w.clock.advance(30)
    answer = w.ok("POST", "P/heartbeat", {"session": "s1"})
    assert [claim["job"] for claim in answer["claims"]] == [mine]
    assert (left(w, mine), left(w, other)) == (60, 30)
    named = w.ok("POST", "P/heartbeat", {"session": "s1", "jobs": [{"id": other, "fence": 1}]})
    assert {claim["job"] for claim in named["claims"]} == {mine, other}
    assert left(w, other) == 60


def test_a_heartbeat_is_no_event(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job)
    w.dispatch()
    w.ok("POST", "P/heartbeat", {})
    assert w.dispatch() == 0
    assert w.get(job)["version"] == 2


def test_blocked_jobs_are_answered_without_a_lease(w: CheckedWorld) -> None:
    job, fence = w.job_in("blocked")
    assert w.ok("POST", "P/heartbeat", {})["claims"] == [
        {"job": job, "fence": fence, "expires_in": None, "status": "blocked"}
    ]


def named(w: CheckedWorld, job: str, **fields: Any) -> dict[str, Any]:
    """What a heartbeat that names the job says about it."""
    answer = w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, **fields}]})
    (found,) = [claim for claim in answer["claims"] if claim["job"] == job]
    return dict(found)


@pytest.mark.parametrize("fence", [{}, {"fence": 1}])
@pytest.mark.parametrize("then", ["publish", "fail", "cancel"])
def test_a_stopped_job_answers_stop_requested(w: CheckedWorld, then: str, fence: dict[str, int]) -> None:
    job = w.job()
    w.claim(job)
    w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r", "then": then}, token="owner")
    found = named(w, job, **fence)
    assert found["stop"]["code"] == "stop_requested"
    assert found["expires_in"] == 0
    assert found["status"] in found["stop"]["detail"]


def test_a_stopped_job_that_another_took_still_answers_stop_requested_for_the_old_fence(
    w: CheckedWorld,
) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job)
    w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r"}, token="owner")
    w.claim(job, "b")
    assert named(w, job, fence=1)["stop"]["code"] == "stop_requested"
    assert named(w, job)["stop"]["code"] == "lease_lost"


def test_a_lapsed_and_taken_job_answers_lease_lost_and_where_it_is(w: CheckedWorld) -> None:
    w.enrol("b")
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(63)
    w.claim(job, "b")
    found = named(w, job, fence=1)
    assert found["stop"]["code"] == "lease_lost"
    assert "held by b under fence 3" in found["stop"]["detail"]
    assert left(w, job, "b") == 1800


def test_a_revived_worker_does_not_keep_alive_what_its_successor_with_the_same_token_holds(
    w: CheckedWorld,
) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(63)
    fence = w.claim(job, lease_seconds=60)
    w.clock.advance(10)
    assert named(w, job, fence=1)["stop"]["code"] == "lease_lost"
    assert left(w, job) == 50
    assert "stop" not in named(w, job, fence=fence)
    assert left(w, job) == 60


def test_unknown_and_foreign_jobs_are_answered_alike(w: CheckedWorld) -> None:
    other = w.project()
    foreign = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="owner")["job"]["id"]
    for job in (foreign, "job_none"):
        assert named(w, job) == {
            "job": job, "fence": None, "expires_in": 0, "stop": {"code": "not_found", "detail": "there is no such job here"},
        }  # fmt: skip


def test_a_heartbeat_of_a_late_holder_keeps_the_claim_that_nobody_took(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.clock.advance(1_000)
    assert w.ok("POST", "P/heartbeat", {})["claims"][0]["expires_in"] == 60


def test_the_heartbeat_brings_notices(w: CheckedWorld) -> None:
    w.ok("POST", "P/pause", {"project": True, "reason": "freeze"}, token="owner")
    job = w.job(deadline="2026-11-30T21:00:10Z")
    w.ok("POST", "P/resume", {"project": True}, token="owner")
    w.claim(job)
    w.pump()
    w.clock.advance(10)
    w.pump()
    w.ok("POST", "P/pause", {"project": True, "reason": "freeze"}, token="owner")
    assert [n["code"] for n in w.ok("POST", "P/heartbeat", {})["notices"]] == ["paused", "overdue"]
    assert [n["code"] for n in w.ok("GET", "P/me")["notices"]] == ["paused", "overdue"]


# ---- me


def test_me_is_what_a_restarted_agent_goes_on_from(w: CheckedWorld) -> None:
    job = w.job(summary="the work")
    w.claim(job, session="s", heartbeat_seconds=30)
    w.clock.advance(5)
    me = w.ok("GET", "P/me")
    assert me["actor"] == {"kind": "agent", "id": me["actor"]["id"], "label": "agent-1"}
    assert (me["roles"], me["project"], me["next_cursor"]) == (
        ["developer", "qa", "reviewer", "ops"],
        "default",
        None,
    )
    assert me["claims"] == [
        {"job": job, "summary": "the work", "role": "developer", "status": "in_progress", "fence": 1, "expires_in": 85,
         "expires_at": "2026-11-30T21:01:30.000Z", "lease_seconds": 90, "heartbeat_seconds": 30, "session": "s"}
    ]  # fmt: skip


def test_me_for_owners_and_for_agents_without_roles(w: CheckedWorld) -> None:
    agent = w.enrol("b", ("qa",), capabilities=["gpu"])
    w.ok("DELETE", "P/roles/qa", token="owner")
    me = w.ok("GET", "P/me", token="b")
    assert (me["actor"]["id"], me["roles"], me["capabilities"]) == (agent, [], ["gpu"])
    owner = w.ok("GET", "P/me", token="owner")
    assert owner["actor"] | {"id": ""} == {
        "kind": "owner", "id": "", "label": "local owner", "rights": "owner", "scope": "installation",
    }  # fmt: skip
    assert (owner["claims"], owner["roles"]) == ([], [])


def test_me_and_heartbeat_answer_a_hundred_claims_and_a_cursor(w: CheckedWorld) -> None:
    jobs = set()
    for _ in range(101):
        w.job()
        jobs.add(w.ok("POST", "P/claims", {"heartbeat_seconds": 30})["job"]["id"])
    first = w.ok("GET", "P/me")
    rest = w.ok("GET", "P/me", query={"cursor": first["next_cursor"]})
    assert len(first["claims"]) == 100
    assert {claim["job"] for page in (first, rest) for claim in page["claims"]} == jobs
    assert rest["next_cursor"] is None
    one = w.ok("GET", "P/me", query={"limit": 1})
    assert one["claims"] == first["claims"][:1]
    assert (
        w.ok("GET", "P/me", query={"cursor": one["next_cursor"]})["claims"]
        == first["claims"][1:] + rest["claims"]
    )
    w.clock.advance(60)
    beat = w.ok("POST", "P/heartbeat", {})
    assert len(beat["claims"]) == 100
    assert {claim["expires_in"] for claim in beat["claims"]} == {90}
    rest = w.ok("GET", "P/me", query={"cursor": beat["next_cursor"]})
    assert [claim["expires_in"] for claim in rest["claims"]] == [90], "all leases are renewed"
