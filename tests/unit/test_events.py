"""Custom events, a job's timeline, the project's feed."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_complete import noise

from interlock.app import cursors
from interlock.domain.ledger import verify
from interlock.domain.lifecycle import STATUSES


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def record(w: CheckedWorld, job: str, token: str = "agent", **more: Any) -> Any:
    return w.call("POST", f"P/jobs/{job}/events", {"type": "custom.step", **more}, token=token)


def timeline(w: CheckedWorld, job: str, limit: int = 100, token: str = "agent") -> list[dict[str, Any]]:
    """All events of a job, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    for _ in range(200):
        query = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        page = w.ok("GET", f"P/jobs/{job}/events", token=token, query=query)
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
    raise AssertionError("the timeline does not end")


def feed(
    w: CheckedWorld, limit: int = 100, token: str = "owner", after: str | None = None
) -> list[dict[str, Any]]:
    """All events of the project after a cursor."""
    found: list[dict[str, Any]] = []
    for _ in range(400):
        page = w.ok(
            "GET", "P/events", token=token, query={"limit": limit, **({"after": after} if after else {})}
        )
        found += page["items"]
        after = page["next_cursor"]
        if not page["more"]:
            return found
    raise AssertionError("the feed does not end")


# ---- custom events


@pytest.mark.parametrize("status", STATUSES)
def test_custom_events_are_recorded_in_every_status(w: CheckedWorld, status: str) -> None:
    job, _ = w.job_in(status)
    version = w.get(job)["version"]
    reply = record(w, job, data={"b": 1, "a": "é\ud800"})
    assert (reply.status, reply.headers["etag"]) == (201, f'"v{version + 1}"')
    assert reply.body["event"]["seq"] == version + 1
    assert reply.body["job"] == {"id": job, "status": status, "version": version + 1}
    w.dispatch()
    event = timeline(w, job)[-1]
    assert (event["type"], event["from"], event["to"], event["data"]) == (
        "custom.step",
        None,
        None,
        {"b": 1, "a": "é\ud800"},
    )
    assert event["digest"] == reply.body["event"]["digest"]
    assert w.get(job)["status"] == status


def test_everyone_who_sees_the_job_records_on_it_but_viewers(w: CheckedWorld) -> None:
    agent = w.enrol("b", ("qa",))
    w.viewer()
    job = w.job()
    assert record(w, job, "b").status == 201
    assert record(w, job, "owner").status == 201
    w.refused("forbidden", "POST", f"P/jobs/{job}/events", {"type": "custom.x"}, token="viewer")
    w.dispatch()
    actors = [event["actor"] for event in timeline(w, job)]
    assert actors[1] == {"kind": "agent", "id": agent, "label": "b"}
    assert actors[2]["kind"] == "owner"


@pytest.mark.parametrize(
    "kind",
    [
        "step",
        "job.created",
        "custom.",
        "custom",
        "Custom.x",
        "custom.a b",
        "custom.é",
        "custom.x\n",
        "custom." + "x" * 100,
    ],
)
def test_only_custom_types(w: CheckedWorld, kind: str) -> None:
    job = w.job()
    w.refused("invalid", "POST", f"P/jobs/{job}/events", {"type": kind})


def test_data_of_any_size_comes_back(w: CheckedWorld) -> None:
    job = w.job()
    for size in (1, 240, 300, 60_000):
        assert record(w, job, data={"text": noise(size)}).status == 201
    w.dispatch()
    assert [len(event["data"].get("text", "")) for event in timeline(w, job)] == [0, 1, 240, 300, 60_000]
    assert verify(timeline(w, job)) == []


# ---- the timeline


def test_a_timeline_is_complete_numbered_and_chained(w: CheckedWorld) -> None:
    job, fence = w.job_in("unblocked")
    w.ok("POST", f"P/jobs/{job}/resume", {"fence": fence})
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    w.dispatch()
    page = w.ok("GET", f"P/jobs/{job}/events")
    shown = w.get(job)
    assert [event["seq"] for event in page["items"]] == list(range(1, 7))
    assert [event["type"] for event in page["items"]] == [
        "job.created", "job.claimed", "job.blocked", "job.unblocked", "job.resumed", "job.completed",
    ]  # fmt: skip
    assert (page["version"], page["digest"]) == (6, shown["digest"])
    assert verify(page["items"], {f"job/{job}": (shown["version"], shown["digest"])}) == []
    statuses = [(event["from"], event["to"]) for event in page["items"]]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(statuses))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100, 1_000])
@pytest.mark.parametrize("dispatched", [True, False])
def test_pages_of_a_timeline(w: CheckedWorld, limit: int, dispatched: bool) -> None:
    job = w.job()
    for _ in range(4):
        w.dispatch()
        record(w, job)
    if dispatched:
        w.dispatch()
    assert [event["seq"] for event in timeline(w, job, limit)] == [1, 2, 3, 4, 5]


def test_the_last_write_is_always_there_and_what_is_missing_is_said(w: CheckedWorld) -> None:
    job = w.job()
    for _ in range(3):
        record(w, job)
    page = w.ok("GET", f"P/jobs/{job}/events")
    assert page["incomplete"] is True
    assert [event["seq"] for event in page["items"]] == [4]
    assert page["version"] == 4
    w.dispatch()
    page = w.ok("GET", f"P/jobs/{job}/events")
    assert "incomplete" not in page
    assert len(page["items"]) == 4


def test_a_timeline_waits_a_second_for_the_dispatcher(w: CheckedWorld) -> None:
    job = w.job()
    record(w, job)
    slept: list[float] = []

    def pause(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            w.dispatch()

    object.__setattr__(w.bus, "pause", pause)
    assert "incomplete" not in w.ok("GET", f"P/jobs/{job}/events")
    assert len(slept) == 3
    record(w, job)
    record(w, job)
    object.__setattr__(w.bus, "pause", slept.append)
    slept.clear()
    assert w.ok("GET", f"P/jobs/{job}/events")["incomplete"] is True
    assert 0.9 <= sum(slept) <= 1.1


def test_events_with_large_data_make_shorter_pages(w: CheckedWorld) -> None:
    job = w.job()
    for number in range(45):
        record(w, job, data={"n": number, "text": noise(300, number)})
        w.dispatch()
    first = w.ok("GET", f"P/jobs/{job}/events")
    assert len(first["items"]) == 21
    assert first["next_cursor"]
    assert "incomplete" not in first
    assert [event["seq"] for event in timeline(w, job)] == list(range(1, 47))
    latest = w.ok("GET", "P/events", token="owner", query={"last": 1_000})["items"]
    assert sum("text" in event["data"] for event in latest) == 20
    assert [e["seq"] for e in feed(w) if e["entity"] == f"job/{job}"] == list(range(1, 47))


def forged(scope: str, filters: dict[str, Any], position: str) -> str:
    """A cursor as a caller could make one, who has read the source."""
    text = json.dumps([scope, filters], sort_keys=True)
    binding = hashlib.sha256(text.encode()).hexdigest()[:12]
    return base64.urlsafe_b64encode(f"{binding}.{position}".encode()).decode().rstrip("=")


@pytest.mark.parametrize("position", ["²", "x", "-1", "1.5", " 1", "١", "1" * 400])
def test_a_forged_position_breaks_nothing(w: CheckedWorld, position: str) -> None:
    job = w.job()
    cursor = forged("timeline", {"job": job}, position)
    if len(position) < 300:
        assert cursor == cursors.write("timeline", {"job": job}, position)
        w.refused("bad_cursor", "GET", f"P/jobs/{job}/events", query={"cursor": cursor})
    else:
        assert w.call("GET", f"P/jobs/{job}/events", query={"cursor": cursor}).status in (200, 400, 422)
    for path, scope, filters in (
        ("P/events", "feed", {"project": "default"}),
        ("P/agents", "agents", {"scope": "default"}),
    ):
        name = "after" if scope == "feed" else "cursor"
        reply = w.call("GET", path, token="owner", query={name: forged(scope, filters, position)})
        assert reply.status in (200, 422)


def test_a_timelines_cursor_is_its_own(w: CheckedWorld) -> None:
    one, two = w.job(), w.job()
    for job in (one, two):
        record(w, job)
    w.dispatch()
    cursor = w.ok("GET", f"P/jobs/{one}/events", query={"limit": 1})["next_cursor"]
    w.refused("bad_cursor", "GET", f"P/jobs/{two}/events", query={"cursor": cursor})


# ---- the feed


def test_the_feed_holds_every_event_of_the_project_in_the_order_of_writing(w: CheckedWorld) -> None:
    w.dispatch()
    w.clock.advance(1)
    start = w.ok("GET", "P/events", token="owner", query={"last": 1})["next_cursor"]
    first = w.job()
    w.dispatch()
    w.clock.advance(1)
    w.claim(first)
    w.ok("POST", "P/roles", {"key": "cook", "label": "Cook"}, token="owner")
    w.dispatch()
    found = feed(w, after=start)
    assert found[0]["type"] == "job.created"
    assert {event["type"] for event in found[1:]} == {"job.claimed", "role.created"}
    assert verify(feed(w)) == []


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_of_the_feed_give_every_event_once(w: CheckedWorld, limit: int) -> None:
    for _ in range(5):
        w.job_in("completed")
        w.dispatch()
        w.clock.advance(1)
    found = feed(w, limit)
    keys = [(event["entity"], event["seq"]) for event in found]
    assert len(keys) == len(set(keys))
    assert sum(event["entity"].startswith("job/") for event in found) == 15


@pytest.mark.parametrize("last", [1, 2, 5, 1_000])
def test_the_last_events_oldest_first_and_what_comes_after_them(w: CheckedWorld, last: int) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(w.job())
        w.dispatch()
        w.clock.advance(1)
    everything = feed(w)
    page = w.ok("GET", "P/events", token="owner", query={"last": last})
    assert page["items"] == everything[-last:]
    assert page["more"] is False
    assert feed(w, after=page["next_cursor"]) == []
    late = w.job()
    w.dispatch()
    assert [event["entity"] for event in feed(w, after=page["next_cursor"])] == [f"job/{late}"]


def test_an_empty_feed_answers_a_cursor_to_go_on_from(w: CheckedWorld) -> None:
    other = w.project(roles=())
    page = w.ok("GET", f"{other}/events", token="owner")
    assert (page["items"], page["more"]) == ([], False)
    w.ok("POST", f"{other}/roles", {"key": "cook", "label": "Cook"}, token="owner")
    w.dispatch()
    page = w.ok("GET", f"{other}/events", token="owner", query={"after": page["next_cursor"]})
    assert [event["type"] for event in page["items"]] == ["project.created", "role.created"]


def test_last_and_after_exclude_each_other(w: CheckedWorld) -> None:
    cursor = w.ok("GET", "P/events", token="owner")["next_cursor"]
    w.refused("invalid", "GET", "P/events", token="owner", query={"last": 1, "after": cursor})


def test_agents_read_what_concerns_them(w: CheckedWorld) -> None:
    b = w.enrol("b", ("qa",))
    w.person("p")
    shown, hidden = w.job(role="qa"), w.job(role="ops")
    w.dispatch()
    of_owner = {event["type"] for event in feed(w)}
    assert {"agent.created", "owner.created", "project.created", "job.created"} <= of_owner
    of_agent = feed(w, token="b")
    assert {event["type"] for event in of_agent} == {"project.created", "role.created", "job.created"}
    assert {event["entity"] for event in of_agent} >= {f"job/{shown}", f"job/{hidden}"}
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    entities = {event["entity"] for event in feed(w, token="b")}
    assert f"job/{shown}" in entities
    assert f"job/{hidden}" not in entities
    w.ok("PATCH", f"P/agents/{b}", {"roles": []}, token="owner")
    assert feed(w, token="b") == []


def test_secrets_never_enter_the_ledger(w: CheckedWorld) -> None:
    agent = w.enrol("b")
    token = w.ok("POST", f"P/agents/{agent}/tokens", {"name": "second"}, token="owner")
    w.ok("POST", f"P/agents/{agent}/tokens/{token['id']}/rotate", {}, token="owner")
    w.person("p")
    w.dispatch()
    text = json.dumps(feed(w)) + repr(w.everything())
    for secret in (w.owner, w.agent, token["token"], *w.agents.values()):
        assert secret.rpartition(".")[2] not in text
