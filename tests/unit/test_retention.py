"""Retention: ended lineages go to the archive, whole, and the ledger still verifies."""

import contextlib
import json

import pytest
from tests.sim.faults import DiedError, Fault, Faults
from tests.sim.world import world

from interlock.app import retention, write
from interlock.domain import ledger
from interlock.errors import StoreError
from interlock.store import keys
from interlock.store.ports import Query

DAY = 86_400


def done(w, job, token="agent"):
    fence = w.claim(job, token=token)
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence, "result": {"data": {"n": 1}}}, token=token)
    w.pump()


def keep(w, days):
    w.ok("PATCH", "/v1/projects/default", {"settings": {"retention_days": days}}, token="owner")
    w.pump()


def old(w, days=31):
    w.clock.advance(days * DAY)
    w.pump()


def archives(w):
    """The records of every archive that the project's ledger names, by lineage."""
    w.pump()
    events = w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
    found = {}
    for event in events:
        if event["type"] == "project.archived":
            text = w.bus.store.blobs.get(event["data"]["blob"]).decode()
            found[event["data"]["lineage"]] = [json.loads(line) for line in text.splitlines()]
    return found


def rows(w, job):
    return w.engine.store.table.query(Query(keys.partition("default", "job", job))).items


def status(w, job):
    return w.call("GET", f"P/jobs/{job}", token="owner").status


def reviewed(w):
    """(a job that was sent back, its retry, the review), all ended."""
    w.enrol("rev", ("reviewer",))
    job = w.job()
    review = w.job(role="reviewer", blocked_by=[job])
    done(w, job)
    fence = w.claim(review, token="rev")
    body = {"fence": fence, "target": job, "reason": "again"}
    retry = w.ok("POST", f"P/jobs/{review}/reject", body, token="rev")["retry"]["id"]
    w.pump()
    done(w, retry)
    done(w, review, "rev")
    return job, retry, review


def test_nothing_goes_without_the_setting():
    w = world()
    job = w.job()
    done(w, job)
    old(w, 4_000)
    assert retention.retain(w.bus) == 0
    assert status(w, job) == 200


def test_a_lineage_goes_with_its_retries_links_and_events():
    w = world()
    keep(w, 30)
    job, retry, review = reviewed(w)
    before = [w.ok("GET", f"P/jobs/{name}/events", token="owner")["items"] for name in (job, retry)]
    young = w.job()
    old(w)
    assert retention.retain(w.bus) == 3
    assert [status(w, name) for name in (job, retry, review, young)] == [404, 404, 404, 200]
    found = archives(w)
    assert set(found) == {job, review}
    records = found[job]
    assert [r["id"] for r in records if r["kind"] == "job"] == [job, retry]
    events = [{k: v for k, v in r.items() if k != "kind"} for r in records if r["kind"] == "event"]
    assert events == before[0] + before[1]
    assert (
        ledger.verify(
            events, {f"job/{r['id']}": (r["version"], r["digest"]) for r in records if r["kind"] == "job"}
        )
        == []
    )
    assert {"kind": "link", "type": "reopen_of", "from": job, "to": retry} in records
    assert [rows(w, name) for name in (job, retry, review)] == [[], [], []]
    assert retention.retain(w.bus) == 0
    feed = w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
    assert ledger.verify(feed) == []
    assert not [e for e in feed if e["entity"] in (f"job/{job}", f"job/{retry}")]


@pytest.mark.parametrize("days", [29, 31])
def test_what_ended_later_stays(days):
    w = world()
    keep(w, 30)
    job = w.job()
    old(w, 60)
    done(w, job)
    old(w, days)
    assert retention.retain(w.bus) == (days > 30)


def test_what_others_still_wait_for_stays():
    w = world()
    keep(w, 1)
    up, child = w.job(), None
    below = w.job(blocked_by=[up])
    parent = w.job()
    child = w.job(parent=parent)
    done(w, up)
    done(w, parent)
    old(w)
    assert retention.retain(w.bus) == 0
    for name in (below, child):
        w.ok("POST", f"P/jobs/{name}/cancel", {"reason": "no"})
    w.pump()
    assert retention.retain(w.bus) == 0, "they have just ended"
    old(w)
    assert retention.retain(w.bus) == 4


def test_an_external_id_is_free_again_and_stays_with_its_new_job():
    w = world()
    keep(w, 1)
    first = w.job(external_id="T-1")
    done(w, first)
    second = w.job(external_id="T-1")
    old(w)
    assert retention.retain(w.bus) == 1
    listed = w.ok("GET", "P/jobs", query={"external_id": "T-1"})["items"]
    assert [job["id"] for job in listed] == [second]
    assert (
        w.call("POST", "P/jobs", {"summary": "x", "role": "developer", "external_id": "T-1"}).code
        == "already_exists"
    )


def test_a_large_board_is_gone_through_in_several_runs(monkeypatch):
    w = world()
    keep(w, 1)
    monkeypatch.setattr(retention, "ROWS", 3)
    waiting = [w.job() for _ in range(5)]
    ended = [w.job() for _ in range(5)]
    for job in ended:
        done(w, job)
    old(w)
    monkeypatch.setattr(retention, "WORK_MS", -1)  # a page a run
    moved = [retention.retain(w.bus) for _ in range(5)]
    assert sum(moved) == 5
    assert max(moved) <= 3
    assert moved[-1] == 0
    assert [status(w, job) for job in waiting] == [200] * 5
    assert [status(w, job) for job in ended] == [404] * 5


def test_who_comes_back_to_life_meanwhile_stays():
    """A retry between the look and the commit: nothing is archived, nothing is lost."""
    w = world()
    keep(w, 1)
    job = w.job()
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "no"})
    old(w)
    put = w.bus.store.blobs.put

    def retried(name, data):
        put(name, data)
        if name.startswith("archive/"):
            w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")

    w.bus.store.blobs.put = retried
    try:
        assert retention.retain(w.bus) == 0
    finally:
        w.bus.store.blobs.put = put
    w.pump()
    assert w.get(job)["status"] == "published"
    assert archives(w) == {}


@pytest.mark.parametrize("removed", [True, False])
def test_a_retry_that_was_let_in_before_the_commit_is_refused(monkeypatch, removed):
    w = world()
    keep(w, 1)
    job = w.job()
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "no"})
    old(w)
    change = write.change

    def late(*args, **more):
        monkeypatch.setattr(write, "change", change)
        if not removed:
            monkeypatch.setattr(retention, "_remove", lambda *_: None)
        assert retention.retain(w.bus) == 1
        return change(*args, **more)

    monkeypatch.setattr(write, "change", late)
    assert w.call("POST", f"P/jobs/{job}/retry", {}, token="owner").code == "not_found"
    w.pump()
    assert status(w, job) == 404
    assert set(archives(w)) == {job}


def _scene(faults):
    w = world(wrap=faults.wrap)
    keep(w, 1)
    up = w.job(external_id="T-1", context={"large": "x" * 2_000})
    below = w.job(blocked_by=[up], parent=up)
    done(w, up)
    done(w, below)
    other = w.job()
    old(w)
    return w, up, below, other


def _steps():
    faults = Faults()
    w, *_ = _scene(faults)
    faults.arm(None)
    retention.retain(w.bus)
    return len(faults.steps)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["crash", "unavailable"])
def test_a_run_that_dies_anywhere_is_finished_by_the_next(when, how):
    for at in range(1, _steps() + 1):
        faults = Faults()
        w, up, below, other = _scene(faults)
        faults.arm(Fault(at, when, how))
        with contextlib.suppress(DiedError, StoreError):
            retention.retain(w.bus)
        faults.disarm()
        feed = w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
        assert ledger.verify(feed) == [], at
        retention.retain(w.bus)
        assert set(archives(w)) == {up, below}, at
        assert rows(w, up) == rows(w, below) == [], at
        assert status(w, other) == 200
        assert w.ok("GET", "P/jobs", query={"external_id": "T-1"})["items"] == []
        assert w.job(external_id="T-1")
