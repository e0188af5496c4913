"""Ids, times, limits, tokens and the messages that a head implies."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.test_lifecycle import CASCADED, HELD, NOW, job_in

from interlock.domain import identity, ids, limits, outbox
from interlock.domain.identity import Agent, Credential, Owner, Token
from interlock.domain.job import Job
from interlock.domain.lifecycle import ENDED, LEASED, STATUSES
from interlock.domain.plan import Plan
from interlock.domain.times import parse_rfc3339, rfc3339

ID = re.compile(r"job_[0-9a-hjkmnp-tv-z]{26}")
LAST = 253_402_300_799_999


# ---- ids


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=32))
def test_a_ulid_has_a_prefix_and_26_lower_case_characters(now: int, entropy: bytes) -> None:
    made = ids.ulid("job", now, entropy)
    assert ID.fullmatch(made)
    assert made == ids.ulid("job", now, entropy[:10])


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_ulids_carry_the_time(one: int, two: int, entropy: bytes) -> None:
    assert (ids.ulid("job", one, entropy) < ids.ulid("job", two, entropy)) is (one < two)


@given(st.lists(st.text(), min_size=1, max_size=3), st.lists(st.text(), min_size=1, max_size=3))
def test_a_derived_id_is_the_same_for_the_same_parts_only(one: list[str], two: list[str]) -> None:
    assume("\0" not in "".join(one + two))
    assert ID.fullmatch(ids.derived("job", *one))
    assert (ids.derived("job", *one) == ids.derived("job", *two)) is (one == two)


# ---- times


@given(st.integers(0, LAST))
def test_times_survive_a_round_trip(at: int) -> None:
    assert parse_rfc3339(rfc3339(at)) == at


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_times_are_rfc_3339_in_utc_with_milliseconds(moment: datetime) -> None:
    shown = rfc3339(int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:01Z", 1_000),
        ("1970-01-01T00:00:00.1Z", 100),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("9999-12-31T23:59:59.999Z", LAST),
    ],
)
def test_accepted_times(text: str, at: int) -> None:
    assert parse_rfc3339(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-12-01", "2026-12-01T10:00:00", "2026-12-01T10:00Z", "2026-12-01T10Z", "20261201T100000Z",
        "2026-W49-2T10:00:00Z", "2026-12-01T10:00:00,5Z", "2026-12-01T10:00:00.Z", "2026-12-01T10:00:00+0100",
        "2026-12-01T10:00:00+24:00", "2026-12-01T24:00:00Z", "2026-12-01T23:59:60Z", "2026-02-30T10:00:00Z",
        "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01", "+2026-12-01T10:00:00Z", " 2026-12-01T10:00:00Z",
        "2026-12-01T10:00:00Z\n", "２026-12-01T10:00:00Z", "\ud800", "2026-12-01T10:00:00ZZ",
    ],
)  # fmt: skip
def test_refused_times(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)


# ---- limits


def test_the_specifications_limits() -> None:
    assert (limits.BODY_BYTES, limits.JSON_DEPTH, limits.INTEGER_DIGITS, limits.KEY_CHARACTERS) == (
        1_000_000,
        64,
        1_000,
        255,
    )
    assert (limits.SUMMARY_CHARACTERS, limits.EXTERNAL_ID_CHARACTERS) == (200, 100)
    assert (limits.CONSTRAINTS, limits.CONSTRAINT_CHARACTERS, limits.ARTIFACTS) == (50, 1_000, 100)
    assert (limits.CONTEXT_BYTES, limits.PARTS_BYTES, limits.RESULT_BYTES, limits.METADATA_BYTES) == (
        262_144, 65_536, 65_536, 4_096
    )  # fmt: skip
    assert (limits.MAX_RETRIES, limits.DEFAULT_RETRIES) == (20, 3)
    assert (limits.LEASE_SECONDS, limits.DEFAULT_LEASE_SECONDS) == ((30, 86_400), 1_800)
    assert (limits.PAGE, limits.DEFAULT_PAGE) == ((1, 100), 50)
    assert (limits.FEED_PAGE, limits.DEFAULT_FEED_PAGE) == ((1, 1_000), 100)
    assert (limits.UPSTREAMS, limits.PLAN_JOBS, limits.RULES, limits.REJECTION_CHARACTERS) == (
        1_000,
        200,
        10,
        2_000,
    )
    assert (limits.CLAIMS_PAGE, limits.OPERATIONS_REMEMBERED, limits.TIMER_HOP_SECONDS) == (100, 8, 900)
    assert limits.SKEW == 2_000
    assert limits.BEATS_PER_LEASE == 3


# ---- tokens


def test_a_token_text_is_taken_apart_again() -> None:
    text = identity.write_token("agent", "my-project", "agt_01", "s3cr_t-")
    assert text == "il_agt_my-project.agt_01.s3cr_t-"
    assert identity.read_token(text) == Credential(
        "agent", "my-project", "agt_01", identity.secret_hash("s3cr_t-")
    )
    owner = identity.write_token("owner", "installation", "own_01", "x")
    assert identity.read_token(owner) == Credential(
        "owner", "installation", "own_01", identity.secret_hash("x")
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "il_", "il_agt_", "il_agt_a.b", "il_agt_a.b.c.d", "il_agt_.b.c", "il_agt_a..c", "il_agt_a.b.", "il_xxx_a.b.c",
        "IL_AGT_a.b.c", "il_agt_A.b.c", "il_agt_a.b#HEAD.c", "il_agt_a/b.c.d", "il_agt_a.b.é", "il_agt_a.b." + "c" * 300,
        "il_agt_installation.b.c", " il_agt_a.b.c", "il_own_a b.c.d", "il_agt_a\n.b.c",
    ],
)  # fmt: skip
def test_what_is_not_a_token(text: str) -> None:
    assert identity.read_token(text) is None


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = identity.read_token("il_agt_" + text)
    assert found is None or found.kind == "agent"


def test_a_token_is_judged_by_revocation_and_expiry() -> None:
    credential = Credential("agent", "p", "agt_1", identity.secret_hash("s"))
    token = Token("tok_1", identity.secret_hash("s"), created_at=NOW, expires_at=NOW + 10)
    assert identity.judge_token((token,), credential, NOW + 9) is None
    assert identity.judge_token((token,), credential, NOW + 10) == "token_expired"
    assert identity.judge_token((replace(token, revoked_at=NOW),), credential, NOW) == "token_revoked"
    assert identity.judge_token((replace(token, hash=b"x" * 32),), credential, NOW) == "token_invalid"
    assert identity.judge_token((), credential, NOW) == "token_invalid"


@given(st.lists(st.sampled_from(["live", "expired", "revoked"]), max_size=40))
def test_all_live_tokens_and_the_latest_ended_ones_are_remembered(states: list[str]) -> None:
    tokens = tuple(
        Token(
            f"tok_{n}",
            b"h",
            expires_at=1 if state == "expired" else 0,
            revoked_at=1 if state == "revoked" else 0,
        )
        for n, state in enumerate(states)
    )
    kept = identity.remembered(tokens, NOW)
    ended = [token for token in tokens if not token.live(NOW)]
    assert [token for token in kept if token.live(NOW)] == identity.live_tokens(tokens, NOW)
    assert [token for token in kept if not token.live(NOW)] == ended[-limits.DEAD_TOKENS :]


# ---- timers


def timers(head: object, *events: str) -> list[outbox.Message]:
    """The messages for the queue of timers; ``events`` by their types, none of which changes the status."""
    happened = [{"type": event, "from": None, "to": None, "seq": 1} for event in events]
    found = outbox.messages(head, happened or None)
    return [message for message in found if message.queue == "lease"]


@pytest.mark.parametrize("status", STATUSES)
def test_a_job_implies_its_timers(status: str) -> None:
    job = job_in(status, deadline=NOW + 9_000, not_before=NOW + 5_000, deadline_hop=3)
    kinds = {timer.body["kind"] for timer in timers(job)}
    expected = set()
    if status in LEASED:
        expected.add("lease")
    if status not in ENDED:
        expected.add("deadline")
    if status == "pending":
        expected.add("start")
    assert kinds == expected


def test_timers_name_the_head_and_their_hop_and_carry_no_facts() -> None:
    job = job_in("in_progress", deadline=NOW + 9_000, deadline_hop=3, lease_until=NOW + 60_000, lease_hop=2)
    lease, deadline = timers(job)
    assert lease.body == {"kind": "lease", "project": "default", "job": "job_x", "fence": 3, "hop": 2}
    assert lease.due == NOW + 60_000 + limits.TIMER_SLACK
    assert deadline.body == {
        "kind": "deadline",
        "project": "default",
        "job": "job_x",
        "at": NOW + 9_000,
        "hop": 3,
    }


@pytest.mark.parametrize(
    ("event", "armed"),
    [
        ("job.claimed", {"lease"}), ("job.restarted", {"lease", "deadline"}), ("job.retried", {"deadline"}), ("job.resumed", {"lease"}), ("job.unblocked", {"lease"}),
        ("job.revived", {"deadline"}), ("job.created", {"deadline"}), ("job.updated", {"deadline"}), ("job.artifact_added", set()), ("custom.x", set()),
    ],
)  # fmt: skip
def test_an_event_arms_only_its_own_timers(event: str, armed: set[str]) -> None:
    job = job_in("in_progress", deadline=NOW + 9_000)
    assert {timer.body["kind"] for timer in timers(job, event)} == armed


def test_an_overdue_or_undated_job_has_no_deadline_timer() -> None:
    assert timers(job_in("published")) == []
    assert timers(job_in("published", deadline=NOW, overdue=NOW)) == []


def test_a_retired_agent_implies_that_its_hands_are_emptied() -> None:
    agent = Agent(id="agt_a", project="default", label="a", created_at=1)
    assert outbox.messages(agent) == []
    (timer,) = timers(replace(agent, retired_at=NOW), "agent.retired")
    assert timer.body == {"kind": "retire", "project": "default", "agent": "agt_a"}
    assert timers(replace(agent, retired_at=NOW), "agent.updated") == []
    assert outbox.messages(Owner(id="own_a", scope="default", label="o", created_at=1)) == []


@given(st.integers(-10_000_000, 10_000_000))
def test_a_timer_is_never_early_within_its_hop_and_never_delayed_beyond_it(ahead: int) -> None:
    delay = outbox.Message("lease", {}, NOW + ahead).delay(NOW)
    assert 0 <= delay <= limits.TIMER_HOP_SECONDS
    if 0 < ahead <= limits.TIMER_HOP_SECONDS * 1_000:
        assert ahead <= delay * 1_000 < ahead + 1_000


@pytest.mark.parametrize("event", ["job.created", "job.revived", "job.linked", "job.rejected"])
def test_whatever_makes_a_job_wait_arms_its_start(event: str) -> None:
    (start,) = timers(job_in("pending", not_before=NOW + 5_000, start_hop=2), event)
    assert start.body == {"kind": "start", "project": "default", "job": "job_x", "at": NOW + 5_000, "hop": 2}
    assert timers(job_in("pending", not_before=NOW + 5_000), "job.updated") == []


# ---- messages to those who wait, and for those who end


def moved(begin: str | None, end: str | None, event: str = "job.x", seq: int = 7) -> dict[str, object]:
    return {"type": event, "from": begin, "to": end, "seq": seq}


STEPS = [(a, b) for a in STATUSES for b in STATUSES if b not in ("completed", "cancelled") or a != b]


@pytest.mark.parametrize(("begin", "end"), STEPS)
def test_those_who_wait_look_again_when_a_job_ends_or_comes_back(begin: str, end: str) -> None:
    found = [m for m in outbox.messages(job_in(end), [moved(begin, end)]) if m.queue == "barrier"]
    told = begin != end and not {begin, end}.isdisjoint(ENDED)
    assert [message.body for message in found] == (
        [{"kind": "spread", "project": "default", "job": "job_x"}] if told else []
    )
    assert all(message.if_waited_for for message in found)


@pytest.mark.parametrize(
    ("stage", "event", "looks"),
    [
        ("pending", moved(None, "pending"), True), ("pending", moved("published", "pending"), True),
        ("pending", moved("failed", "pending"), True), (CASCADED, moved("pending", "failed"), True),
        ("pending", moved(None, None), False), ("published", moved("pending", "published"), False),
        ("failed", moved("in_progress", "failed"), False), ("cancelled", moved("pending", "cancelled"), False),
    ],
)  # fmt: skip
def test_a_job_that_begins_to_wait_looks_at_what_it_waits_for(
    stage: str, event: dict[str, object], looks: bool
) -> None:
    found = outbox.messages(job_in(stage, upstreams=1), [event])
    assert ("gather" in [message.body["kind"] for message in found]) is looks
    alone = outbox.messages(job_in(stage, upstreams=0), [event])
    assert "gather" not in [message.body["kind"] for message in alone]


@pytest.mark.parametrize("end", ENDED)
def test_an_ending_that_is_not_routed_calls_for_its_jobs(end: str) -> None:
    """The message says nothing of the ending: the head knows which ones are still to be routed."""

    def routed(job: Job, *events: dict[str, object]) -> list[dict[str, object]]:
        return [m.body for m in outbox.messages(job, events or None) if m.queue == "routing"]

    job, told = job_in(end, unrouted={"7": end}), {"kind": "route", "project": "default", "job": "job_x"}
    assert routed(job, moved("in_progress", "in_progress", seq=6), moved("in_progress", end, seq=7)) == [told]
    assert routed(job) == [told], "what repair sends"
    assert routed(job, moved(end, end, seq=8)) == [], "another event of the same job"
    assert routed(job_in(end), moved("in_progress", end, seq=7)) == []


def test_a_plan_calls_for_its_jobs_until_it_is_made() -> None:
    plan = Plan(
        id="plan_x", project="default", created_at=NOW, jobs={"a": "job_a"}, parts=1, source="agent:a", source_label="a"
    )  # fmt: skip
    (message,) = outbox.messages(plan)
    assert (message.queue, message.body) == (
        "barrier",
        {"kind": "plan", "project": "default", "plan": "plan_x"},
    )
    assert outbox.messages(replace(plan, made=True)) == []


def test_held_statuses_here_and_there() -> None:
    assert {status for status in STATUSES if job_in(status, assignee="agt_a").held_by("agt_a")} == HELD
