"""Who may take which job: every reason, in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_lifecycle import NOW, job_in

from interlock.domain import claim
from interlock.domain.identity import Actor, Project
from interlock.domain.lifecycle import ENDED, STATUSES
from interlock.errors import CODES

ACTOR = Actor("agent", "agt_b", "b", "default", roles=("developer", "qa"), capabilities=("gpu",))
PROJECT = Project(id="default", title="D", created_at=0)
PAUSE = {"since": 1, "by": "own_1", "reason": None}


def codes(job: Any, actor: Actor = ACTOR, project: Project = PROJECT, now: int = NOW) -> list[str]:
    return [reason.code for reason in claim.reasons(job, actor, project, now)]


def test_a_published_job_of_ones_role_is_claimable() -> None:
    assert codes(job_in("published")) == []
    assert codes(job_in("published", capabilities=("gpu",))) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"role": "ops"}, ["wrong_role"]),
        ({"capabilities": ("gpu", "mac")}, ["missing_capability"]),
        ({"role": "ops", "capabilities": ("mac",)}, ["wrong_role", "missing_capability"]),
        ({"status": "pending", "not_before": NOW + 1}, ["not_yet"]),
        ({"status": "pending", "upstreams": 1}, ["waiting_upstream"]),
        ({"status": "pending", "links": 1}, ["waiting_upstream"]),
        ({"status": "pending", "upstreams": 1, "not_before": NOW + 1}, ["waiting_upstream", "not_yet"]),
        ({"status": "pending", "upstreams": 1, "not_before": NOW}, ["waiting_upstream"]),
        ({"status": "pending", "not_before": NOW}, ["not_yet"]),
        ({"upstreams": 3, "links": 1}, []),
        ({"excluded": ("agt_a", "agt_b")}, ["excluded"]),
        ({"excluded": ("agt_a",)}, []),
        ({"status": "completed"}, ["ended"]),
        ({"status": "failed", "cascade": {"upstream": "job_u", "root": "job_r"}}, ["ended"]),
        ({"status": "failed"}, ["ended"]),
        ({"status": "cancelled"}, ["ended"]),
        ({"status": "in_progress", "assignee": "agt_a", "lease_until": NOW}, ["already_claimed"]),
        ({"status": "in_progress", "assignee": "agt_a", "lease_until": NOW - 2_000}, ["already_claimed"]),
        ({"status": "in_progress", "assignee": "agt_a", "lease_until": NOW - 2_001}, []),
        ({"status": "unblocked", "assignee": "agt_a", "lease_until": NOW - 2_001}, []),
        ({"status": "blocked", "assignee": "agt_a"}, ["already_claimed"]),
        ({"status": "in_progress", "lease_until": NOW - 9_000, "on_expire": "fail"}, ["ended"]),
        ({"status": "in_progress", "lease_until": NOW - 9_000, "retry_count": 3}, ["ended"]),
        ({"status": "in_progress", "lease_until": NOW - 9_000, "retry_count": 2}, []),
    ],
)
def test_each_reason(fields: dict[str, Any], expected: list[str]) -> None:
    assert codes(replace(job_in("published"), **fields)) == expected


@pytest.mark.parametrize("target", ["project", "role:developer", "agent:agt_b"])
def test_pauses_bind_and_name_their_target(target: str) -> None:
    paused = replace(PROJECT, pauses={target: PAUSE})
    (found,) = claim.reasons(job_in("published"), ACTOR, paused, NOW)
    assert found.code == "paused"
    assert target.replace(":", " ") in found.detail


@pytest.mark.parametrize("target", ["role:qa", "agent:agt_a"])
def test_a_pause_of_something_else_does_not_bind(target: str) -> None:
    assert codes(job_in("published"), project=replace(PROJECT, pauses={target: PAUSE})) == []


def test_all_reasons_are_listed_rights_before_state() -> None:
    job = job_in("completed", role="ops", capabilities=("mac",))
    paused = replace(PROJECT, pauses={"project": PAUSE})
    assert codes(job, project=paused) == ["wrong_role", "missing_capability", "ended", "paused"]


def test_the_holder_itself_learns_that_it_holds_the_job_elsewhere() -> None:
    job = job_in("in_progress", assignee="agt_b", lease_until=NOW + 60_000)
    (reason,) = claim.reasons(job, ACTOR, PROJECT, NOW)
    refused = claim.refusal(reason, job, ACTOR)
    assert refused.code == "already_claimed"
    assert "another session" in refused.detail
    assert "session" in refused.hint
    assert refused.extra["until"] == "2026-11-30T21:01:00.000Z"
    other = claim.refusal(reason, replace(job, assignee="agt_a"), ACTOR)
    assert other.hint == CODES["already_claimed"].hint


@given(
    status=st.sampled_from(STATUSES),
    role=st.sampled_from(["developer", "qa", "ops"]),
    wanted=st.sets(st.sampled_from(["gpu", "mac"])),
    until=st.none() | st.integers(NOW - 10_000, NOW + 10_000),
    on_expire=st.sampled_from(["publish", "fail"]),
    used=st.integers(0, 3),
    pauses=st.sets(st.sampled_from(["project", "role:developer", "role:ops", "agent:agt_b", "agent:agt_a"])),
)
def test_a_job_is_claimable_exactly_when_nothing_speaks_against_it(
    status: str, role: str, wanted: set[str], until: int | None, on_expire: str, used: int, pauses: set[str]
) -> None:
    leased = status in ("in_progress", "unblocked")
    job = job_in(
        status, role=role, capabilities=tuple(sorted(wanted)), on_expire=on_expire, retry_count=used,
        **({"lease_until": until, "assignee": "agt_a"} if leased else {}),
    )  # fmt: skip
    project = replace(PROJECT, pauses=dict.fromkeys(pauses, PAUSE))
    lapsed = leased and until is not None and until + 2_000 < NOW
    free = status == "published" or (lapsed and on_expire == "publish" and used < 3)
    bound = bool(pauses & {"project", f"role:{role}", "agent:agt_b"})
    expected = free and role != "ops" and wanted <= {"gpu"} and not bound
    found = codes(job, project=project)
    assert (not found) is expected
    assert all(CODES[code].status in (403, 409) for code in found)
    assert ("ended" in found) is (status in ENDED or (lapsed and not free))
