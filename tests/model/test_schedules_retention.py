"""Schedules of retention: what comes back to life, or is named anew, while it goes to the archive.

Either a job goes whole, and nothing that was accepted is missing from its archive, or it stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.sim import oracle
from tests.sim.faults import DiedError
from tests.sim.hands import Hand, completed, messengers
from tests.sim.race import Race, explore

from interlock.app import retention
from interlock.domain import ledger, limits
from interlock.errors import StoreError
from interlock.store import keys

DAYS = 1


def aged(race: Race) -> None:
    """So long later that everything which has ended may go."""
    w = race.w
    w.ok("PATCH", "P", {"settings": {"retention_days": DAYS}}, token="owner")
    race.settle()
    w.clock.advance((DAYS + 1) * 86_400)
    race.settle()
    race.record.clear()  # what follows is judged by its archives


def failed(race: Race, token: str = "agent", **fields: Any) -> Hand:
    hand = Hand(race, race.w.job(max_retries=9, **fields), token).take()
    assert hand.step("fail").status == 200
    race.w.pump()
    return hand


def archives(race: Race) -> dict[str, list[dict[str, Any]]]:
    """Archived job → the events that its archive holds, as the project's ledger vouches for them."""
    state, found = oracle.memory(race.w), {}
    for event in state.events[keys.project_head("default").pk]:
        if event["type"] == "project.archived":
            data = race.w.bus.store.blobs.get(event["data"]["blob"])
            assert hashlib.sha256(data).hexdigest() == event["data"]["sha256"]
            lines = [json.loads(line) for line in data.splitlines()]
            for job in event["data"]["jobs"]:
                assert job["id"] not in found, "archived twice"
                mine = [
                    {name: value for name, value in one.items() if name != "kind"}
                    for one in lines
                    if one["kind"] == "event" and one["entity"] == f"job/{job['id']}"
                ]
                assert ledger.verify(mine, {f"job/{job['id']}": (job["version"], job["digest"])}) == []
                assert len(mine) == job["version"]
                found[job["id"]] = mine
    return found


def judge(race: Race) -> None:
    """Nothing is lost: what was answered of an archived job is in its archive. In the end its items are gone."""
    race.settle()
    for _ in range(3):
        race.w.clock.advance(limits.ARCHIVE_GRACE // 1_000 + 86_400)
        oracle.settle(race.w)
        retention.retain(race.w.bus)
    oracle.settle(race.w)
    gone = archives(race)
    for sent in race.record:
        job = sent.reply.body.get("job") if isinstance(sent.reply.body, dict) else None
        if sent.status < 300 and isinstance(job, dict) and "digest" in job and job["id"] in gone:
            events = {event["seq"]: event["digest"] for event in gone[job["id"]]}
            assert events.get(job["version"]) == job["digest"], f"not in the archive: {sent}"
    race.record[:] = [
        s for s in race.record if not any(name in json.dumps([s.path, s.reply.body]) for name in gone)
    ]
    race.history[:] = [one for one in race.history if not any(one.pk.endswith(name) for name in gone)]
    race.settle()
    state = oracle.memory(race.w)
    left = [key for key in state.items if any(name in f"{key.pk} {key.sk}" for name in gone)]
    assert not left
    assert not [job.id for job in state.jobs if job.status == "pending"], "somebody waits for ever"


def retain(race: Race, runs: int = 1) -> None:
    def work() -> None:
        for _ in range(runs):
            retention.retain(race.w.bus)

    race.does("retention", work)


def comes_back(race: Race) -> None:
    """A retry, a restart, a note, while it goes."""
    hand = failed(race)
    aged(race)
    hand.does(race.rng.choice([("retry",), ("restart",), ("note",), ("note", "retry"), ("retry", "note")]))
    retain(race, 2)
    messengers(race)
    race.run()
    judge(race)


def comes_back_with_its_downstream(race: Race) -> None:
    """The root of a cascade is retried while what it has failed goes, or both."""
    hand = failed(race)
    downs = [race.w.job(blocked_by=[hand.job]) for _ in range(2)]
    race.w.pump()
    aged(race)
    hand.does(race.rng.choice([("retry", "claim", "complete"), ("restart", "fail"), ("note", "retry")]))
    retain(race, 2)
    messengers(race, chaos=False)
    race.run()
    race.settle()
    gone = archives(race)
    for job in oracle.memory(race.w).jobs:
        if job.id in downs and job.id not in gone:
            assert (job.status == "failed") is (
                hand.job in gone or hand.step("note").body["job"]["status"] == "failed"
            )
    finish_all(race)
    judge(race)


def is_named_anew(race: Race) -> None:
    """Somebody lets a new job wait for it, or come from it, while it goes."""
    hand, done = failed(race), completed(race)
    open_job = race.w.job()
    aged(race)
    for number in range(2):
        up = race.rng.choice([hand.job, done])
        how = race.rng.choice(
            [{"blocked_by": [up]}, {"parent": up}, {"blocked_by": [up], "on_upstream_failure": "continue"}]
        )
        race.calls(
            f"new{number}", "POST", "P/jobs", {"summary": "x", "role": "developer", **how}, key=f"k{number}"
        )
    race.calls("link", "POST", f"P/jobs/{open_job}/links", {"upstream": race.rng.choice([hand.job, done])})
    retain(race, 2)
    messengers(race)
    race.run()
    race.settle()
    finish_all(race)
    judge(race)


def its_external_id_is_taken(race: Race) -> None:
    """A new job takes the external id while its old holder goes; the old one may come back instead."""
    hand = failed(race, external_id="T-1")
    aged(race)
    for number in range(2):
        body = {"summary": "x", "role": "developer", "external_id": "T-1"}
        race.calls(f"new{number}", "POST", "P/jobs", body, key=f"k{number}")
    if race.rng.random() < 0.5:
        hand.does(("retry",))
    retain(race, 2)
    race.run()
    race.settle()
    alive = [
        job.id for job in oracle.memory(race.w).jobs if job.external_id == "T-1" and job.status != "failed"
    ]
    assert len(alive) == 1
    finish_all(race)
    judge(race)


def two_runs_at_once(race: Race) -> None:
    """Overlapping runs, which die and fail; whatever they leave is finished by later ones."""
    hand, done = failed(race, external_id="T-1"), completed(race)
    race.w.job(blocked_by=[done], parent=done)
    down = Hand(race, race.w.job(blocked_by=[done])).take()
    down.step("complete")
    aged(race)
    race.trouble = 0.03
    for number in range(2):
        race.does(f"retention{number}", lambda: _often(race))
    race.run()
    race.trouble = 0.0
    assert (
        hand.job not in archives(race)
        or race.w.call("GET", f"P/jobs/{hand.job}", token="owner").status == 404
    )
    finish_all(race)
    judge(race)


def _often(race: Race) -> None:
    for _ in range(3):
        with contextlib.suppress(DiedError, StoreError):
            retention.retain(race.w.bus)


def finish_all(race: Race) -> None:
    """End whatever is open, so that nothing has to stay."""
    for _ in range(4):
        race.settle()
        for job in oracle.memory(race.w).jobs:
            if job.archived is None and job.status not in ("completed", "cancelled", "failed"):
                race.w.call("POST", f"P/jobs/{job.id}/cancel", {"reason": "tidy"}, token="owner")
    race.settle()


SCENARIOS: list[Callable[[Race], None]] = [
    comes_back,
    comes_back_with_its_downstream,
    is_named_anew,
    its_external_id_is_taken,
    two_runs_at_once,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_schedules(scenario: Any) -> None:
    explore(scenario, 8)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_many_schedules(scenario: Any) -> None:
    explore(scenario, 200)
