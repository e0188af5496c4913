"""Reports of usage: who reports what and how, what is told when a claim ends, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.requests_presence import USAGE
from tests.unit.checked import CheckedWorld, checked
from tests.unit.spending import beat, events, held, reason, settled, used
from tests.unit.test_review import reject, review


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def test_a_heartbeat_takes_a_report_without_an_event_or_a_version(w: CheckedWorld) -> None:
    job, fence = held(w)
    version, lease = w.get(job)["version"], w.get(job)["lease_expires_at"]
    w.clock.advance(60)
    said = beat(w, job, fence, **USAGE)
    assert (said["fence"], said["status"], said["expires_in"]) == (fence, "in_progress", 1_800)
    after = w.get(job)
    assert (after["version"], after["digest"]) == (version, w.get(job)["digest"])
    assert after["lease_expires_at"] > lease
    assert after["usage"] == {
        "reported": {"input_tokens": 900, "output_tokens": 90, "usd": 0.25, "seconds": 12.5},
        "metered": {"seconds": 0.0}, "earlier": None, "model": "m",
    }  # fmt: skip
    assert w.types(job) == ["job.created", "job.claimed"]


@pytest.mark.parametrize("status", ["in_progress", "blocked", "unblocked"])
def test_whoever_holds_a_job_may_report_whatever_its_status(w: CheckedWorld, status: str) -> None:
    job, fence = w.job_in(status)
    lease = w.get(job)["lease_expires_at"]
    w.clock.advance(10)
    assert beat(w, job, fence, usd=1.5)["status"] == status
    assert used(w, job)["usd"] == 1.5
    assert (w.get(job)["lease_expires_at"] == lease) is (status == "blocked"), "a lease that runs is renewed"


def test_reports_are_sums_so_far_and_never_less(w: CheckedWorld) -> None:
    job, fence = held(w)
    for report, total in [
        ({"usd": 1, "input_tokens": 10}, (1, 10)),
        ({"usd": 0.5, "input_tokens": 30}, (1, 30)),
        ({"usd": 1, "input_tokens": 30}, (1, 30)),
        ({}, (1, 30)),
        ({"usd": 2.25}, (2.25, 30)),
        ({"usd": 0, "input_tokens": 0}, (2.25, 30)),
    ]:
        beat(w, job, fence, **report)
        assert (used(w, job)["usd"], used(w, job)["input_tokens"]) == total


@pytest.mark.parametrize("way", ["complete", "fail", "block", "release"])
def test_the_end_of_a_claim_reports_too_and_is_told_once(w: CheckedWorld, way: str) -> None:
    job, fence = held(w)
    beat(w, job, fence, input_tokens=1_000, usd=0.1, model="early")
    body = {"fence": fence, "usage": USAGE, **reason(way)}
    for _ in range(2):
        w.ok("POST", f"P/jobs/{job}/{way}", body, key="k")
    wanted = {"input_tokens": 1_000, "output_tokens": 90, "usd": 0.25, "seconds": 12.5}
    assert used(w, job) == wanted
    if way == "block":
        assert events(w, job, "usage_reported") == []
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    (told,) = events(w, job, "usage_reported")
    assert told["data"] == {"fence": fence, **wanted, "model": "m"}
    settled(w)


@pytest.mark.parametrize(
    "way", ["stop", "cancel", "lapse", "claim of another", "agent stop", "retire", "reject"]
)
def test_however_a_claim_ends_what_was_reported_is_told_in_the_same_write(w: CheckedWorld, way: str) -> None:
    ann = w.enrol("ann", ("developer", "reviewer"))
    if way == "reject":
        target = w.job_in("completed")[0]
        job, fence = review(w, target, "ann")
    else:
        job, fence = held(w, "ann", lease_seconds=30)
    w.dispatch()
    beat(w, job, fence, "ann", usd=0.5, seconds=2)
    if way in ("stop", "cancel"):
        w.ok("POST", f"P/jobs/{job}/{way}", {"reason": "r"}, token="owner")
    elif way == "agent stop":
        w.ok("POST", f"P/agents/{ann}/stop", {"reason": "r"}, token="owner")
    elif way == "retire":
        w.ok("DELETE", f"P/agents/{ann}", token="owner")
    elif way == "reject":
        reject(w, job, fence, target, token="ann")
    else:
        w.clock.advance(33)
        w.pump() if way == "lapse" else w.claim(job)
    (told,) = events(w, job, "usage_reported")
    assert told["data"] == {"fence": fence, "input_tokens": 0, "output_tokens": 0, "usd": 0.5, "seconds": 2.0}
    ended = [
        event
        for event in w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"]
        if event["at"] == told["at"]
    ]
    assert ended[0]["type"] != "job.usage_reported"
    assert used(w, job)["usd"] == 0.5
    settled(w)


def test_where_nothing_was_reported_nothing_is_told(w: CheckedWorld) -> None:
    job, fence = held(w)
    beat(w, job, fence)
    beat(w, job, fence, model="m", usd=0)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "usage": {}})
    assert events(w, job, "usage_reported") == []
    assert w.get(job)["usage"]["model"] == "m"


def test_each_claim_adds_to_those_before(w: CheckedWorld) -> None:
    job = w.job()
    for number in range(1, 4):
        fence = w.claim(job)
        beat(w, job, fence, usd=number)
        beat(w, job, fence, usd=number)
        w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    assert used(w, job)["usd"] == 6
    assert [event["data"]["usd"] for event in events(w, job, "usage_reported")] == [1, 2, 3]
    settled(w)


@pytest.mark.parametrize("fence", ["older", "newer"])
def test_a_report_under_another_fence_is_answered_as_lost_and_counts_nothing(
    w: CheckedWorld, fence: str
) -> None:
    job, first = held(w)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": first})
    now = w.claim(job)
    said = beat(w, job, first if fence == "older" else now + 1, usd=5)
    assert said["stop"]["code"] == "lease_lost"
    assert used(w, job)["usd"] == 0
    twice = [{"id": job, "fence": first, "usage": {"usd": 5}}, {"id": job, "fence": now}]
    for named in (twice, twice[::-1]):
        w.ok("POST", "P/heartbeat", {"jobs": named})
        assert used(w, job)["usd"] == 0, "the report says under which claim it was"


def test_a_report_about_a_job_that_the_caller_does_not_hold_counts_nothing(w: CheckedWorld) -> None:
    w.enrol("bob")
    job, fence = held(w)
    done, _ = w.job_in("completed")
    for name, code in (
        (job, "lease_lost"),
        (done, "lease_lost"),
        ("job_00000000000000000000000000", "not_found"),
    ):
        said = beat(w, name, fence, "bob", usd=5)
        assert said["stop"]["code"] == code
    assert used(w, job)["usd"] == used(w, done)["usd"] == 0
    for way in ("complete", "fail", "block", "release"):
        body = {"fence": fence, "usage": {"usd": 5}, **reason(way)}
        w.refused("not_holder", "POST", f"P/jobs/{job}/{way}", body, token="bob")
    beat(w, job, fence, usd=1)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence})
    w.refused("lease_lost", "POST", f"P/jobs/{job}/complete", {"fence": fence, "usage": {"usd": 5}})
    assert used(w, job)["usd"] == 1


NONSENSE = [
    {"usd": -0.01}, {"usd": 10**6 + 1}, {"usd": 1e308}, {"usd": True}, {"usd": "1"}, {"usd": [1]}, {"seconds": -1}, {"seconds": 10**8 + 1},
    {"input_tokens": -1}, {"input_tokens": 1.5}, {"input_tokens": False}, {"input_tokens": 10**12 + 1}, {"input_tokens": 10**400},
    {"output_tokens": {}}, {"tokens": 5}, {"model": 5}, {"model": "m" * 201}, {"cost": 1}, 5, [], "usd=1",
]  # fmt: skip


@pytest.mark.parametrize("usage", NONSENSE, ids=lambda value: str(value)[:40])
def test_what_is_no_report_is_refused_whole(w: CheckedWorld, usage: Any) -> None:
    job, fence = held(w)
    other, other_fence = held(w)
    w.clock.advance(60)
    named = [
        {"id": other, "fence": other_fence, "usage": {"usd": 1}},
        {"id": job, "fence": fence, "usage": usage},
    ]
    unknown = isinstance(usage, dict) and usage.keys() & {"tokens", "cost"}
    code = "unknown_field" if unknown else "invalid"
    w.refused(code, "POST", "P/heartbeat", {"jobs": named})
    for way in ("complete", "fail", "block", "release"):
        w.refused(code, "POST", f"P/jobs/{job}/{way}", {"fence": fence, "usage": usage, **reason(way)})
    assert used(w, other)["usd"] == 0


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_not_finite_is_no_json(w: CheckedWorld, text: str) -> None:
    job, fence = held(w)
    raw = f'{{"jobs": [{{"id": "{job}", "fence": {fence}, "usage": {{"usd": {text}}}}}]}}'
    assert w.call("POST", "P/heartbeat", raw=raw).code == "malformed_json"


def test_the_largest_report_is_taken_and_shown(w: CheckedWorld) -> None:
    job, fence = held(w)
    beat(w, job, fence, input_tokens=10**12, output_tokens=10**12, usd=10**6, seconds=10**8)
    assert used(w, job) == {
        "input_tokens": 10**12,
        "output_tokens": 10**12,
        "usd": 1_000_000.0,
        "seconds": 100_000_000.0,
    }


def test_a_heartbeat_reports_of_some_jobs_and_renews_all(w: CheckedWorld) -> None:
    jobs = [held(w) for _ in range(4)]
    w.clock.advance(100)
    named = [{"id": job, "fence": fence, "usage": {"usd": n}} for n, (job, fence) in enumerate(jobs[:2], 1)]
    claims = w.ok("POST", "P/heartbeat", {"jobs": named})["claims"]
    assert {claim["job"]: claim["expires_in"] for claim in claims} == {job: 1_800 for job, _ in jobs}
    assert [used(w, job)["usd"] for job, _ in jobs] == [1, 2, 0, 0]


@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_a_lapse_that_asks_is_about_the_job_as_it_is_then(
    w: CheckedWorld, reports: bool, asked: bool
) -> None:
    """What was reported, and what had been asked under the claim, are events beside the lapse."""
    job, fence = held(w, on_expire="ask", lease_seconds=30)
    if reports:
        beat(w, job, fence, usd=1)
    if asked:
        question = {"kind": "approval", "prompt": "Ship it?", "wait": False}
        w.ok("POST", f"P/jobs/{job}/decisions", {"fence": fence, **question})
    w.dispatch()
    w.clock.advance(40)
    w.pump()
    shown = w.get(job)
    found = w.ok("GET", f"P/decisions/{shown['decision']}", token="owner")["decision"]
    assert (found["cause"], found["subject"]) == ("lapse", {"job": job, "rev": shown["rev"]})
    assert len(events(w, job, "usage_reported")) == reports
    settled(w)
