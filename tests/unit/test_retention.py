"""Retention: ended lineages go to the archive, whole, and the ledger still verifies."""

import contextlib
import json

import pytest
from tests.sim import oracle
from tests.sim.faults import DiedError, Fault, Faults
from tests.sim.world import world
from tests.unit.cli_stub import Stub, cli, serving
from tests.unit.test_cli_export import Behind

from interlock.app import dispatch, retention, write
from interlock.domain import ledger
from interlock.errors import StoreError
from interlock.store import keys
from interlock.store.ports import Delete, Key, Put, Query

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


def sweep(w):
    """So long later that archived jobs leave the table."""
    old(w, 16)
    assert retention.retain(w.bus) == 0


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
    old(w)
    young = w.job()
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
    old(w, 14)
    assert retention.retain(w.bus) == 0
    assert all(rows(w, name) for name in (job, retry, review)), "a message may still name them"
    sweep(w)
    assert [rows(w, name) for name in (job, retry, review)] == [[], [], []]
    assert [status(w, name) for name in (job, retry, review, young)] == [404, 404, 404, 200]
    feed = w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
    assert ledger.verify(feed) == []
    assert not [e for e in feed if e["entity"] in (f"job/{job}", f"job/{retry}")]


def test_decisions_go_with_their_jobs():
    w = world()
    keep(w, 30)
    job = w.job()
    fence, made = w.claim(job), []
    for kind in ("review", "approval"):
        body = {"fence": fence, "kind": kind, "prompt": "p", "wait": False}
        made.append(w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]["id"])
    w.ok("POST", f"P/decisions/{made[0]}/answer", {"answer": "approve"}, token="owner")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence})
    w.dispatch()
    lost = w.bus.store.queues.receive("lease")
    w.bus.store.queues.delete("lease", [message.receipt for message in lost])
    old(w)
    assert retention.retain(w.bus) == 0, "what was open is still to be closed"
    w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    old(w)
    assert retention.retain(w.bus) == 1
    asked = [r for r in archives(w)[job] if r["kind"] == "decision"]
    assert [(r["id"], r["decision_kind"], r["state"], r["answer"]) for r in asked] == [
        (made[0], "review", "answered", "approve"),
        (made[1], "approval", "withdrawn", None),
    ]
    for decision in made:
        assert w.call("GET", f"P/decisions/{decision}", token="owner").status == 404
        assert w.call("POST", f"P/decisions/{decision}/withdraw", {}, token="owner").status == 404
    assert w.ok("GET", "P/decisions", query={"state": "all"}, token="owner")["items"] == []
    assert [key["sk"] for key in rows(w, job) if key["sk"].startswith(keys.DECISION_PREFIX)]
    sweep(w)
    assert rows(w, job) == []
    partition = keys.decisions_partition("default")
    assert w.engine.store.table.query(Query(partition, index=2)).items == []


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
    w.clock.advance(DAY)
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
    sweep(w)
    assert rows(w, first) == []
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


def meanwhile(w, monkeypatch, module, name, others):
    """Others do something just before ``module.name`` is called, once."""
    original = getattr(module, name)

    def late(*given, **more):
        monkeypatch.setattr(module, name, original)
        others()
        return original(*given, **more)

    monkeypatch.setattr(module, name, late)


def failed(w, **fields):
    job = w.job(**fields)
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "no"})
    w.pump()
    return job


def test_who_comes_back_to_life_meanwhile_stays(monkeypatch):
    """A retry between the look and the commit: nothing is archived, nothing is lost."""
    w = world()
    keep(w, 1)
    job = failed(w)
    old(w)
    retried = lambda: w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")  # noqa: E731
    meanwhile(w, monkeypatch, write, "reload", retried)
    assert retention.retain(w.bus) == 0
    w.pump()
    assert w.get(job)["status"] == "published"
    assert archives(w) == {}


@pytest.mark.parametrize(
    ("path", "body", "token"),
    [("retry", {}, "owner"), ("restart", {}, "agent"), ("events", {"type": "custom.x"}, "agent")],
)
def test_who_comes_too_late_is_told_that_it_is_gone(monkeypatch, path, body, token):
    """The call was let in before the commit: its write no longer holds, and it is answered like any other."""
    w = world()
    keep(w, 1)
    job = failed(w)
    old(w)
    meanwhile(w, monkeypatch, write, "change", lambda: retention.retain(w.bus))
    reply = w.call("POST", f"P/jobs/{job}/{path}", body, token=token)
    assert (reply.status, reply.code) == (404, "not_found")
    assert set(archives(w)) == {job}


def test_nobody_finds_what_is_archived():
    w = world()
    keep(w, 1)
    job, gone = w.job(), failed(w, external_id="T-1", parent=w.job())
    parent = w.get(gone)["parent"]
    w.ok("POST", f"P/jobs/{parent}/cancel", {"reason": "no"}, token="owner")
    old(w)
    w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "no"}, token="owner")
    assert retention.retain(w.bus) == 2
    unknown = w.call("GET", f"P/jobs/job_{'0' * 26}", token="owner")
    for token in ("owner", "agent"):
        for path in ("", "/events", "/explain", "/graph"):
            reply = w.call("GET", f"P/jobs/{gone}{path}", token=token)
            assert (reply.status, reply.body) == (
                404,
                {**unknown.body, "request_id": reply.body["request_id"]},
            )
        for query in (
            {},
            {"status": "failed"},
            {"external_id": "T-1"},
            {"parent": parent},
            {"order": "updated"},
        ):
            assert gone not in {one["id"] for one in w.ok("GET", "P/jobs", token=token, query=query)["items"]}
    assert w.ok("GET", "P/stats", token="owner")["stats"]["failed"]["count"] == 0
    assert w.ok("GET", "P/attention", token="owner")["items"] == []
    for body in ({"blocked_by": [gone]}, {"parent": gone}):
        assert w.call("POST", "P/jobs", {"summary": "x", "role": "developer", **body}).code == "unknown_job"


def test_what_is_not_in_the_ledger_yet_stays():
    """The dispatcher would write rows for what is gone."""
    w = world()
    keep(w, 1)
    job = failed(w)
    old(w)
    w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.x"})
    w.clock.advance(31 * DAY)
    assert retention.retain(w.bus) == 0
    w.pump()
    old(w, 1)
    assert retention.retain(w.bus) == 1


def test_a_job_that_was_let_wait_for_it_at_the_last_moment_ends_first(monkeypatch):
    """Its creator had read the upstream before it was archived. It fails as that did; then both go."""
    w = world()
    keep(w, 30)
    job = failed(w)
    old(w)
    meanwhile(w, monkeypatch, write, "create", lambda: retention.retain(w.bus))
    late = w.job(blocked_by=[job], parent=job)
    assert status(w, job) == 404
    w.pump()
    assert w.get(late)["status"] == "failed"
    hold = w.job(parent=late)
    old(w, 31)
    retention.retain(w.bus)
    assert rows(w, job) == []
    assert status(w, late) == 200, "its child is not at rest"
    w.ok("POST", f"P/jobs/{hold}/cancel", {"reason": "no"}, token="owner")
    for _ in range(3):
        old(w)
        retention.retain(w.bus)
    assert rows(w, late) == rows(w, hold) == []


def test_an_open_job_that_names_it_keeps_its_items(monkeypatch):
    w = world()
    keep(w, 1)
    job, other = w.job(), w.job()
    done(w, job)
    old(w)
    meanwhile(w, monkeypatch, write, "create", lambda: retention.retain(w.bus))
    late = w.job(blocked_by=[job, other])
    old(w, 100)
    retention.retain(w.bus)
    assert rows(w, job), "who may review it is known from it"
    for name in (late, other):
        w.ok("POST", f"P/jobs/{name}/cancel", {"reason": "no"}, token="owner")
    for _ in range(3):
        old(w)
        retention.retain(w.bus)
    assert rows(w, job) == []


def test_a_cascade_goes_from_its_root():
    w = world()
    keep(w, 1)
    root = failed(w)
    middle = w.job(blocked_by=[root])
    last = w.job(blocked_by=[middle])
    w.pump()
    w.enrol("other")
    old(w)
    w.ok("POST", f"P/jobs/{root}/events", {"type": "custom.x"})
    assert retention.retain(w.bus) == 0, "its root may still be retried"
    old(w, 2)
    assert root not in archives(w)
    moved = retention.retain(w.bus)
    assert root in archives(w)
    old(w, 1)
    assert moved + retention.retain(w.bus) == 3
    sweep(w)
    assert [rows(w, name) for name in (root, middle, last)] == [[], [], []]


def test_nothing_is_deleted_whose_archive_is_not_there():
    w = world()
    keep(w, 1)
    job = failed(w)
    old(w)
    assert retention.retain(w.bus) == 1
    blobs = w.engine.blobs._blobs
    (name,) = [key for key in blobs if key.startswith("archive/")]
    kept = blobs.pop(name)
    sweep(w)
    assert rows(w, job)
    blobs[name] = kept[:-1]
    sweep(w)
    assert rows(w, job)
    blobs[name] = kept
    sweep(w)
    assert rows(w, job) == []


def test_a_parked_record_of_what_is_gone_brings_nothing_back():
    w = world()
    keep(w, 1)
    job = failed(w)
    head = w.engine.store.table.get(keys.head("default", "job", job))
    dispatch.park(w.bus, head, "unreadable")
    old(w)
    assert retention.retain(w.bus) == 1
    sweep(w)
    answer = w.ok("POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner")
    assert (answer["redriven"], answer["failed"]) == (1, 0)
    assert rows(w, job) == []


def test_a_project_is_left_alone_for_most_of_a_day():
    w = world()
    keep(w, 1)
    first = failed(w)
    old(w)
    second = failed(w)
    w.clock.advance(12 * 3_600)
    assert retention.retain(w.bus) == 1
    w.clock.advance(13 * 3_600)
    assert retention.retain(w.bus) == 0
    assert set(archives(w)) == {first}
    w.clock.advance(11 * 3_600)
    assert retention.retain(w.bus) == 1
    assert set(archives(w)) == {first, second}


def test_a_job_does_not_name_what_waited_for_it_and_is_archived():
    w = world()
    keep(w, 1)
    up = w.job()
    down = w.job(blocked_by=[up])
    done(w, up)
    done(w, down)
    old(w)
    w.ok("POST", f"P/jobs/{up}/events", {"type": "custom.x"})
    assert w.get(up)["downstream"] == [down]
    assert retention.retain(w.bus) == 1
    assert w.get(up)["downstream"] == []


def test_a_chain_with_a_hole_stays():
    w = world()
    keep(w, 1)
    job = failed(w)
    old(w)
    key = keys.log(keys.partition("default", "job", job), 1)
    row = w.engine.store.table.get(key)
    w.engine.store.table.write(Delete(key))
    assert retention.retain(w.bus) == 0
    w.engine.store.table.write(Put(key, row))
    old(w, 1)
    assert retention.retain(w.bus) == 1


def test_export_and_archives_verify_together(tmp_path):
    w = world()
    keep(w, 30)
    job, *_ = reviewed(w)
    old(w)
    retention.retain(w.bus)
    young = failed(w)
    w.pump()
    files = [tmp_path / "export.ndjson"]

    def export():
        with serving(Stub(Behind(w))) as stub:
            assert cli("export", "--out", str(files[0]), url=stub.url, token=w.owner).code == 0
            verified = cli("audit", "verify", "--json", url=stub.url, token=w.owner)
        assert verified.code == 0, verified.out
        exported = [json.loads(line) for line in files[0].read_text().splitlines()]
        assert [one["id"] for one in exported if one["kind"] == "job"] == [young]

    def verify(*paths):
        options = [option for path in paths for option in ("--file", str(path))]
        return cli("audit", "verify", *options, "--json", token=None).document

    for number, (name, data) in enumerate(w.engine.blobs._blobs.items()):
        if name.startswith("archive/"):
            files.append(tmp_path / f"{number}.ndjson")
            files[-1].write_bytes(data)
    assert len(files) == 3
    log = [row["sk"] for row in rows(w, job) if row["sk"].startswith(keys.LOG_PREFIX)]
    begun = Delete(Key(keys.partition("default", "job", job), log[-1]))  # as a run that died leaves it
    for after in (lambda: None, lambda: w.engine.store.table.write(begun), lambda: sweep(w)):
        after()
        export()
        assert verify(*files)["ok"]
        assert verify(files[0])["ok"]
        assert all(verify(path)["ok"] for path in files[1:])
    text = files[1].read_text().splitlines()
    cut = max(n for n, line in enumerate(text) if '"kind": "event"' in line)
    files[1].write_text("\n".join(text[:cut] + text[cut + 1 :]))
    assert [one["kind"] for one in verify(*files)["findings"]] == ["short"]


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


def _archived(w):
    """The first half is done: what is archived is old enough to leave the table."""
    assert retention.retain(w.bus) == 2
    old(w, 16)


PHASES = {"archiving": lambda w: None, "removing": _archived}


def _steps(prepare):
    faults = Faults()
    w, *_ = _scene(faults)
    prepare(w)
    faults.arm(None)
    retention.retain(w.bus)
    return len(faults.steps)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("when", "how"), [("before", "crash"), ("after", "crash"), ("after", "unavailable"), ("again", "")]
)
def test_a_run_that_dies_anywhere_is_finished_by_the_next(phase, when, how):
    steps = _steps(PHASES[phase])
    assert steps > 20
    for at in range(1, steps + 1):
        faults = Faults()
        w, up, below, other = _scene(faults)
        PHASES[phase](w)
        faults.arm(Fault(at, when, how))
        with contextlib.suppress(DiedError, StoreError):
            retention.retain(w.bus)
        faults.disarm()
        feed = w.ok("GET", "P/events", token="owner", query={"limit": 1_000})["items"]
        assert ledger.verify(feed) == [], at
        for _ in range(3):
            old(w, 16)
            retention.retain(w.bus)
        assert set(archives(w)) == {up, below}, at
        assert rows(w, up) == rows(w, below) == [], at
        assert not [key for key in oracle.memory(w).items if up in key.sk or below in key.sk], at
        assert status(w, other) == 200
        assert w.ok("GET", "P/jobs", query={"external_id": "T-1"})["items"] == []
        assert w.job(external_id="T-1")
        oracle.settle(w)
        oracle.check(w)
