"""`interlock doctor`: one line for each check, exit 1 when something is wrong, and what --repair sends."""

import time
from email.utils import formatdate

import pytest
from tests.unit.cli_stub import Stub, cli, problem, serving
from tests.unit.test_cli_audit import CHAINS, Ledger, tampered

from interlock.cli import client as client_module
from interlock.domain.times import rfc3339


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr("interlock.cli.audit.SETTLE", 0.01)


class Sick(Ledger):
    """A bus with things wrong; ``refuse`` maps the end of a path to a problem."""

    def __init__(self, chains=CHAINS, *, dead=0, lease_ago=0, refuse=(), clock=0, heals=True, waits=None):
        super().__init__(chains)
        self.heals = heals
        self.dead, self.lease_ago, self.refuse, self.clock = dead, lease_ago, dict(refuse), clock
        self.waits = waits

    def __call__(self, asked):
        end = asked.path.rpartition("/")[2]
        headers = {"Date": formatdate(time.time() + self.clock, usegmt=True)}
        if end in self.refuse:
            return self.refuse[end]
        known = {
            "health": {"status": "ok", "version": "1"},
            "me": {"actor": {"kind": "owner", "id": "o", "label": "o"}},
            "stats": {"stats": {"published": {"qa": {"count": 2, "more": False, "oldest_age_seconds": 40}}}},
            "dead-letters": {"queues": {}, "total": self.dead},
            "repair": {"repaired": (asked.body or {}).get("entity")},
        }
        if end == "repair" and self.heals:
            self.chains, self.lease_ago, self.waits = CHAINS, 0, None
        if end in known:
            return 200, known[end], headers
        if end == "graph":
            return 200, self.graph(asked.path.split("/")[-2]), headers
        if "/jobs/" in asked.path and end != "events":
            until = rfc3339(int((time.time() - self.lease_ago) * 1_000))
            job = {"id": end, "lease_expires_at": until, "status": "in_progress"}
            if self.waits is not None and end == "job_0":
                job |= {
                    "status": "pending",
                    "on_upstream_failure": "match",
                    "not_before": None,
                    **self.waits[1],
                }
            return 200, {"job": job}, headers
        return super().__call__(asked)

    def graph(self, job):
        """job_0 waits for others in these statuses; something comes of it as well."""
        ups = {f"up_{n}": status for n, status in enumerate(self.waits[0])}
        nodes = [
            {"id": name, "status": status}
            for name, status in {**ups, job: "pending", "more": "published"}.items()
        ]
        edges = [{"from": up, "to": job, "type": "blocks"} for up in ups]
        edges += [
            {"from": job, "to": "more", "type": "blocks"},
            {"from": "more", "to": job, "type": "parent"},
        ]
        return {"nodes": nodes, "edges": edges, "truncated": False}


def doctor(bus, *args):
    with serving(Stub(bus)) as stub:
        ended = cli("doctor", *args, "--json", url=stub.url)
    return ended, {check["name"]: check for check in ended.document["checks"]}, stub


def test_a_healthy_bus_is_all_ok():
    ended, checks, stub = doctor(Sick())
    assert ended.code == 0
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert list(checks) == [
        "bus",
        "clock",
        "store",
        "credential",
        "ready jobs",
        "dead letters",
        "late leases",
        "waiting jobs",
        "ledger",
    ]
    assert not [one for one in stub.asked if one.method == "POST"]
    assert "40 s" in checks["ready jobs"]["detail"]


def test_a_person_gets_one_line_for_each():
    with serving(Stub(Sick(dead=3))) as stub:
        ended = cli("doctor", url=stub.url)
    assert ended.code == 1
    assert len(ended.out.splitlines()) == 9
    assert "WRONG  dead letters  3" in ended.out


def test_a_bus_that_is_away():
    ended = cli("doctor", "--json", url="http://127.0.0.1:9")
    assert ended.code == 1
    assert [check["state"] for check in ended.document["checks"]] == ["wrong"]


def test_a_store_that_does_not_answer():
    ended, checks, _ = doctor(Sick(refuse={"health": problem(503, "store_unavailable")}))
    assert ended.code == 1
    assert checks["store"]["state"] == "wrong"


def test_a_bad_credential_ends_the_examination():
    ended, checks, _ = doctor(Sick(refuse={"me": problem(401, "token_expired")}))
    assert ended.code == 1
    assert checks["credential"]["state"] == "wrong"
    assert "ledger" not in checks


def test_what_the_caller_may_not_see_is_only_noted():
    ended, checks, _ = doctor(Sick(refuse={"dead-letters": problem(403, "forbidden")}))
    assert ended.code == 0
    assert checks["dead letters"]["state"] == "note"


def test_a_clock_that_differs_is_noted():
    ended, checks, _ = doctor(Sick(clock=120, lease_ago=-600))
    assert ended.code == 0
    assert checks["clock"]["state"] == "note"
    assert "120 s" in checks["clock"]["detail"] or "119 s" in checks["clock"]["detail"]


def test_late_leases_are_found_and_repaired():
    ended, checks, _ = doctor(Sick(lease_ago=300))
    assert ended.code == 1
    assert checks["late leases"]["state"] == "wrong"
    ended, _, stub = doctor(Sick(lease_ago=300), "--repair")
    assert ended.code == 0
    assert sorted(one.body["entity"] for one in stub.of("/repair")) == sorted(
        f"job/job_{n}" for n in range(5)
    )
    assert len({one.key for one in stub.of("/repair")}) == 5


def test_a_lease_that_has_just_ended_is_not_late():
    assert doctor(Sick(lease_ago=10))[1]["late leases"]["state"] == "ok"


LATER = {"not_before": "2999-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("ups", "more", "vain"),
    [
        (["completed", "completed"], {}, True),
        (["completed", "in_progress"], {}, False),
        (["completed"], LATER, False),
        ([], {"not_before": "2020-01-01T00:00:00Z"}, True),
        (["failed", "in_progress"], {}, True),
        (["cancelled"], LATER, True),
        (["failed", "published"], {"on_upstream_failure": "continue"}, False),
        (["failed", "completed"], {"on_upstream_failure": "continue"}, True),
        (["completed"], {"status": "published"}, False),
    ],
)
def test_jobs_that_wait_in_vain_are_found_and_repaired(ups, more, vain):
    ended, checks, _ = doctor(Sick(waits=(ups, more)))
    assert checks["waiting jobs"]["state"] == ("wrong" if vain else "ok")
    assert ended.code == int(vain)
    if vain:
        assert "job/job_0" in checks["waiting jobs"]["detail"]
        ended, _, stub = doctor(Sick(waits=(ups, more)), "--repair")
        assert ended.code == 0
        assert [one.body["entity"] for one in stub.of("/repair")] == ["job/job_0"]


def test_an_incomplete_chain_is_repaired_and_a_broken_one_is_not():
    short = tampered(lambda events: events.pop())
    ended, checks, _ = doctor(Sick(short))
    assert (ended.code, checks["ledger"]["state"]) == (1, "wrong")
    ended, _, stub = doctor(Sick(short), "--repair")
    assert ended.code == 0
    assert [one.body for one in stub.of("/repair")] == [{"entity": "job/job_2"}]

    # what is gone for good stays wrong, whatever was sent again
    ended, checks, stub = doctor(Sick(short, heals=False), "--repair")
    assert (ended.code, checks["ledger"]["state"]) == (1, "wrong")
    assert len(stub.of("/repair")) == 1

    def alter(events):
        events[1]["data"] = {"n": 99}

    ended, _, stub = doctor(Sick(tampered(alter)), "--repair")
    assert ended.code == 1
    assert stub.of("/repair") == []


def test_a_repair_that_fails_is_said():
    ended, _, _ = doctor(Sick(lease_ago=300, refuse={"repair": problem(404, "not_found")}), "--repair")
    assert ended.code == 1
    assert not ended.document["repairs"][0]["repaired"]
