"""The bus itself: stats, repair, dead letters, health, sleep of the machine."""

from __future__ import annotations

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock import __version__
from interlock.app import dispatch, system, timers
from interlock.domain import limits
from interlock.domain.ledger import verify
from interlock.edges import openapi
from interlock.errors import StoreError
from interlock.store import keys
from interlock.store.ports import Delete, Query


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- stats


def test_stats_of_an_empty_board(w: CheckedWorld) -> None:
    shown = w.ok("GET", "P/stats")
    none = {"count": 0, "more": False}
    assert shown["counted_up_to"] == 1_000
    assert shown["stats"] == {
        "published": {
            role: {**none, "oldest_age_seconds": None} for role in ("developer", "ops", "qa", "reviewer")
        },
        **dict.fromkeys(("pending", "in_progress", "blocked", "unblocked", "failed"), none),
    }


def test_stats_count_what_may_still_move(w: CheckedWorld) -> None:
    for status, count in (
        ("pending", 1),
        ("in_progress", 2),
        ("blocked", 3),
        ("unblocked", 1),
        ("failed", 2),
        ("completed", 3),
        ("cancelled", 1),
    ):
        for _ in range(count):
            w.job_in(status)
    for _ in range(2):
        w.job(role="qa")
        w.clock.advance(10)
    shown = w.ok("GET", "P/stats")["stats"]
    counted = {name: part["count"] for name, part in shown.items() if name != "published"}
    assert counted == {"pending": 1, "in_progress": 2, "blocked": 3, "unblocked": 1, "failed": 2}
    assert shown["published"]["qa"] == {"count": 2, "more": False, "oldest_age_seconds": 20}
    assert shown["published"]["developer"]["count"] == 0


def test_stats_show_deleted_roles_that_jobs_still_wait_for(w: CheckedWorld) -> None:
    w.job(role="qa")
    w.ok("DELETE", "P/roles/qa", token="owner")
    w.ok("DELETE", "P/roles/ops", token="owner")
    assert set(w.ok("GET", "P/stats")["stats"]["published"]) == {"developer", "reviewer", "qa"}


def test_a_count_is_never_a_total_that_was_not_counted(
    w: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "COUNTED", 3)
    for _ in range(4):
        w.job()
    shown = w.ok("GET", "P/stats")
    assert shown["counted_up_to"] == 3
    assert {**shown["stats"]["published"]["developer"], "oldest_age_seconds": 0} == {
        "count": 3,
        "more": True,
        "oldest_age_seconds": 0,
    }


# ---- repair


def test_repair_writes_missing_rows_and_arms_missing_timers(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.engine.feed.acknowledge(w.engine.feed.read())  # the dispatcher's work is lost
    assert w.ok("GET", f"P/jobs/{job}/events")["incomplete"] is True
    assert w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner") == {"repaired": f"job/{job}"}
    w.clock.advance(64)
    w.consume()
    assert w.get(job)["status"] == "published"


def test_repair_changes_nothing_that_is_right(w: CheckedWorld) -> None:
    agent = w.enrol("b")
    job, _ = w.job_in("completed")
    owner = w.person("p")
    w.pump()
    before = w.everything()
    for entity in (f"job/{job}", f"agent/{agent}", f"owner/{owner}", "project/default"):
        w.ok("POST", "P/repair", {"entity": entity}, token="owner")
    assert w.everything() == before


def test_repair_of_a_live_claim_leaves_one_chain_of_timers(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=7_200)
    w.pump()
    for _ in range(3):
        w.ok("POST", "P/repair", {"entity": f"job/{job}"}, token="owner")
    assert w.bus.store.queues.depth("lease") == 4
    w.clock.advance(900)
    w.consume()
    assert w.bus.store.queues.depth("lease") == 1


@pytest.mark.parametrize("entity", ["job/job_none", "agent/agt_none", "owner/own_none"])
def test_repair_of_what_is_not_there(w: CheckedWorld, entity: str) -> None:
    w.refused("not_found", "POST", "P/repair", {"entity": entity}, token="owner")


@pytest.mark.parametrize(
    "entity",
    [
        "job",
        "job/",
        "/x",
        "role/qa",
        "project/other",
        "job/a#b",
        "job/A",
        "job/../x",
        "job/x/y",
        "job/" + "x" * 81,
    ],
)
def test_repair_of_what_is_no_entity(w: CheckedWorld, entity: str) -> None:
    w.project()
    w.refused("invalid", "POST", "P/repair", {"entity": entity}, token="owner")


# ---- dead letters


def test_dead_letters_are_counted(w: CheckedWorld) -> None:
    assert w.ok("GET", "/v1/dead-letters", token="owner") == {
        "queues": {"lease-dead": 0, "barrier-dead": 0, "routing-dead": 0, "dispatch-dead": 0},
        "total": 0,
    }
    w.bus.store.queues.send("lease-dead", [({"kind": "lease"}, 0)] * 2)
    assert w.ok("GET", "/v1/dead-letters", token="owner") == {
        "queues": {"lease-dead": 2, "barrier-dead": 0, "routing-dead": 0, "dispatch-dead": 0},
        "total": 2,
    }


def test_a_redriven_timer_does_its_work(w: CheckedWorld) -> None:
    job = w.job()
    w.claim(job, lease_seconds=60)
    w.bus.store.queues.send(
        "lease-dead", [({"kind": "lease", "project": "default", "job": job, "fence": 1, "hop": 1}, 0)]
    )
    w.clock.advance(64)
    assert w.ok("POST", "/v1/dead-letters/redrive", {"queue": "lease-dead"}, token="owner") == {
        "queue": "lease-dead", "redriven": 1, "failed": 0,
    }  # fmt: skip
    assert w.get(job)["status"] == "published"
    assert w.ok("GET", "/v1/dead-letters", token="owner")["total"] == 0


@pytest.mark.parametrize("kind", ["spread", "gather"])
def test_a_redriven_link_does_its_work(w: CheckedWorld, kind: str) -> None:
    up = w.job()
    down = w.job(blocked_by=[up])
    w.ok("POST", f"P/jobs/{up}/complete", {"fence": w.claim(up)})
    body = {"kind": kind, "project": "default", "job": {"spread": up, "gather": down}[kind]}
    w.bus.store.queues.send("barrier-dead", [(body, 0)])
    assert w.get(down)["status"] == "pending"
    done = w.ok("POST", "/v1/dead-letters/redrive", {"queue": "barrier-dead"}, token="owner")
    assert (done["redriven"], done["failed"]) == (1, 0)
    assert w.get(down)["status"] == "published"


def test_a_redriven_rule_does_its_work_once(w: CheckedWorld) -> None:
    job = w.job(routing=[{"role": "qa", "summary": "Check it"}])
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job)})
    w.dispatch()
    (message,) = w.bus.store.queues.receive("routing")
    w.bus.store.queues.send("routing-dead", [(message.body, 0)] * 2)
    done = w.ok("POST", "/v1/dead-letters/redrive", {"queue": "routing-dead"}, token="owner")
    assert (done["redriven"], done["failed"]) == (2, 0)
    assert len(w.ok("GET", "P/jobs", query={"parent": job})["items"]) == 1


def test_repair_lets_a_job_look_again_at_what_it_waits_for(w: CheckedWorld) -> None:
    up = w.job()
    down = w.job(blocked_by=[up])
    w.pump()
    w.ok("POST", f"P/jobs/{up}/complete", {"fence": w.claim(up)})
    w.dispatch()
    for message in w.bus.store.queues.receive("barrier"):
        w.bus.store.queues.delete("barrier", [message.receipt])  # it is lost
    w.pump()
    assert w.get(down)["status"] == "pending"
    w.ok("POST", "P/repair", {"entity": f"job/{down}"}, token="owner")
    w.pump()
    assert w.get(down)["status"] == "published"


def test_a_redriven_record_loses_no_event(w: CheckedWorld) -> None:
    job = w.job()
    (parked, *rest) = [change for change in w.engine.feed.read() if change.key.pk.endswith(job)]
    w.engine.feed.acknowledge(w.engine.feed.read())
    assert not rest
    dispatch.park(w.bus, parked.new, "unreadable")
    w.claim(job)
    w.dispatch()
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": 1})
    w.dispatch()
    assert w.ok("GET", f"P/jobs/{job}/events")["incomplete"] is True
    assert (
        w.ok("POST", "/v1/dead-letters/redrive", {"queue": "dispatch-dead"}, token="owner")["redriven"] == 1
    )
    page = w.ok("GET", f"P/jobs/{job}/events")
    assert "incomplete" not in page
    assert verify(page["items"]) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "nonsense", "project": "default", "job": "j"},
        {"kind": "lease"},
        {"kind": "lease", "project": 1, "job": 2},
    ],
)
def test_what_cannot_be_handled_stays(w: CheckedWorld, body: dict[str, object]) -> None:
    for queue in ("lease-dead", "barrier-dead", "routing-dead", "dispatch-dead"):
        w.bus.store.queues.send(queue, [(body, 0)])
        answer = w.ok("POST", "/v1/dead-letters/redrive", {"queue": queue}, token="owner")
        assert (answer["redriven"] + answer["failed"]) == 1
        if answer["failed"]:
            assert w.bus.store.queues.depth(queue) == 1
    assert w.bus.store.queues.depth("dispatch-dead") == 1


def test_a_redrive_is_bounded(w: CheckedWorld) -> None:
    job = w.job()
    w.bus.store.queues.send(
        "lease-dead", [({"kind": "lease", "project": "default", "job": job, "fence": 1, "hop": 1}, 0)] * 130
    )
    path, body = "/v1/dead-letters/redrive", {"queue": "lease-dead"}
    assert w.ok("POST", path, body, token="owner")["redriven"] == system.REDRIVEN
    assert w.ok("POST", path, body, token="owner")["redriven"] == 30


def test_only_dead_letter_queues_are_redriven(w: CheckedWorld) -> None:
    w.refused("invalid", "POST", "/v1/dead-letters/redrive", {"queue": "lease"}, token="owner")


# ---- health and the description


def test_health_asks_the_store(w: CheckedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert w.ok("GET", "/health", token=None) == {"status": "ok", "version": __version__}

    def broken(*_: object, **__: object) -> None:
        raise StoreError

    monkeypatch.setattr(w.bus.store.table, "get", broken)
    assert w.call("GET", "/health", token=None).code == "store_unavailable"


def test_the_description_is_served_to_everybody(w: CheckedWorld) -> None:
    assert w.ok("GET", "/openapi.json", token=None)["paths"].keys() == openapi.document()["paths"].keys()


def test_a_lost_document_is_the_stores_fault(w: CheckedWorld) -> None:
    job = w.job()
    w.bus.store.table.write(Delete(keys.head("default", "job", job)._replace(sk="BODY")))
    w.refused("store_unavailable", "GET", f"P/jobs/{job}")


# ---- the machine slept


def test_leases_are_moved_by_the_time_the_machine_slept(w: CheckedWorld) -> None:
    leased, _ = w.job_in("in_progress")
    window, _ = w.job_in("unblocked")
    blocked, _ = w.job_in("blocked")
    w.clock.advance(3_600)
    assert timers.bus_resumed(w.bus, 3_600_000) == 2
    w.pump()
    assert [w.get(job)["status"] for job in (leased, window, blocked)] == [
        "in_progress",
        "unblocked",
        "blocked",
    ]
    assert {claim["job"]: claim["expires_in"] for claim in w.ok("GET", "P/me")["claims"]} == {
        leased: 1810,
        window: 1810,
        blocked: None,
    }
    rows = w.bus.store.table.query(Query(keys.project_head("default").pk, prefix="LOG#")).items
    assert len(rows) == 3
    assert timers.bus_resumed(checked().bus, 60_000) == 0
