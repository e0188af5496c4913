"""Plans: many jobs that become real together, or none of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.chains import NOT_THERE, complete, create, events, fail, statuses, upstream
from tests.unit.checked import CheckedWorld, checked

from interlock.domain import limits


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def job(ref: str, *blocked_by: str, **fields: Any) -> dict[str, Any]:
    return {"ref": ref, "summary": f"do {ref}", "role": "developer", "blocked_by": list(blocked_by), **fields}


def plan(w: CheckedWorld, *jobs: dict[str, Any], **more: Any) -> dict[str, str]:
    """The ids by ref of a plan that is made."""
    return dict(w.ok("POST", "P/plans", {"jobs": list(jobs)}, **more)["jobs"])


STORY = (job("ship", "check", "write"), job("check", "build"), job("write"), job("build", priority="high"))


# ---- what becomes of it


def test_jobs_wait_for_each_other_by_their_refs(w: CheckedWorld) -> None:
    reply = w.call("POST", "P/plans", {"jobs": list(STORY)})
    assert (reply.status, list(reply.body["jobs"])) == (201, ["ship", "check", "write", "build"])
    jobs = reply.body["jobs"]
    assert {ref: w.get(name)["status"] for ref, name in jobs.items()} == {
        "ship": "pending", "check": "pending", "write": "published", "build": "published",
    }  # fmt: skip
    ship = w.get(jobs["ship"])
    assert ship["blocked_by"] == [jobs["check"], jobs["write"]]
    assert (ship["summary"], w.get(jobs["build"])["priority"]) == ("do ship", 30)
    assert w.ok("POST", "P/claims", {})["job"]["id"] == jobs["build"]
    w.ok("POST", f"P/jobs/{jobs['build']}/complete", {"fence": 1})
    w.pump()
    complete(w, jobs["check"], jobs["write"], jobs["ship"])
    assert w.types(jobs["ship"]) == ["job.created", "job.activated", "job.claimed", "job.completed"]


def test_a_plan_waits_for_jobs_that_are_there_too(w: CheckedWorld) -> None:
    done, open_, dead = w.job_in("completed")[0], w.job(), w.job_in("failed")[0]
    jobs = plan(w, job("a", done), job("b", "a", open_), job("c", dead), job("d", "c", "a"))
    assert statuses(w, list(jobs.values())) == ["published", "pending", "failed", "pending"]
    w.pump()
    assert statuses(w, list(jobs.values())) == ["published", "pending", "failed", "failed"]
    assert w.get(jobs["d"])["caused_by"] == {"upstreams": [jobs["c"]], "root": dead}
    assert upstream(w, jobs["b"]) == {jobs["a"]: "open", open_: "open"}
    assert w.get(open_)["downstream"] == [jobs["b"]]


def test_every_field_of_a_job_is_a_field_of_a_plan(w: CheckedWorld) -> None:
    parent = w.job()
    rule = {"role": "qa", "summary": "check it"}
    fields = {
        "external_id": "T-1", "priority": 40, "constraints": ["a"], "context": {"z": 1, "a": [None]}, "max_retries": 7,
        "lease_seconds": 60, "on_expire": "fail", "requires": ["log"], "capabilities": ["gpu"], "independent": True,
        "not_before": "2026-12-01T00:00:00.000Z", "deadline": "2027-01-01T00:00:00.000Z", "on_upstream_failure": "continue",
    }  # fmt: skip
    artifact = {"type": "log", "uri": "s3://x", "checksum": "c", "metadata": {"b": 1}}
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    jobs = plan(
        w, job("a", parent="b", routing=[rule], artifacts=[artifact], **fields), job("b", parent=parent), headers={"traceparent": trace}
    )  # fmt: skip
    shown = w.get(jobs["a"])
    assert {name: shown[name] for name in fields} == fields
    assert (shown["parent"], w.get(jobs["b"])["parent"]) == (jobs["b"], parent)
    assert shown["routing"][0]["summary"] == "check it"
    (kept,) = shown["artifacts"]
    assert {name: kept[name] for name in artifact} == artifact
    assert (kept["author"]["id"], shown["source_label"], shown["traceparent"]) == (
        shown["source"],
        "agent-1",
        trace,
    )
    children = w.ok("GET", "P/jobs", query={"parent": jobs["b"]})["items"]
    assert [child["id"] for child in children] == [jobs["a"]]
    found = w.ok("GET", "P/jobs", query={"external_id": "T-1"})["items"]
    assert [one["id"] for one in found] == [jobs["a"]]


def test_what_was_planned_is_in_the_ledger(w: CheckedWorld) -> None:
    reply = w.call("POST", "P/plans", {"jobs": list(STORY)})
    name, jobs = reply.body["plan"], reply.body["jobs"]
    (created,) = events(w, jobs["ship"], "job.created")
    assert created["data"] == {
        "role": "developer", "priority": 20, "summary": "do ship", "plan": name, "blocked_by": [jobs["check"], jobs["write"]],
    }  # fmt: skip
    assert created["actor"]["kind"] == "agent"
    for token in ("owner", "agent"):
        feed = w.ok("GET", "P/events", token=token, query={"last": 50})["items"]
        of_plan = [event for event in feed if event["entity"] == f"plan/{name}"]
        assert [(event["type"], event["actor"]["kind"], event["data"]) for event in of_plan] == [
            ("plan.created", "agent", {"jobs": 4}),
            ("plan.made", "system", {"jobs": 4}),
        ]
        made = [event["entity"] for event in feed if event["type"] == "job.created"]
        assert sorted(made) == sorted(f"job/{name}" for name in jobs.values())


def test_two_hundred_jobs(w: CheckedWorld) -> None:
    jobs = plan(w, *(job(f"r{n}", *[f"r{k}" for k in range(max(0, n - 3), n)]) for n in range(200)))
    assert len(set(jobs.values())) == 200
    assert w.ok("GET", "P/stats", token="owner")["stats"]["pending"]["count"] == 199
    fail(w, jobs["r0"])
    assert set(statuses(w, list(jobs.values()))) == {"failed"}
    refused = w.refused("invalid", "POST", "P/plans", {"jobs": [job(f"r{n}") for n in range(201)]})
    assert [error["path"] for error in refused.body["errors"]] == ["jobs"]


def test_a_large_plan_is_stored_whole(w: CheckedWorld) -> None:
    noise = [{"n": str(3**5_000 % 10**k)} for k in range(4_000, 4_200)]
    jobs = plan(w, *(job(f"r{n}", context=noise[n]) for n in range(200)))
    assert w.get(jobs["r150"])["context"] == noise[150]


def test_a_dry_run_says_what_would_be_claimable_and_writes_nothing(w: CheckedWorld) -> None:
    done, open_ = w.job_in("completed")[0], w.job()
    w.pump()
    more = (job("x", done, external_id="T-1"), job("y", open_), job("z", not_before="2027-01-01T00:00:00Z"))
    before = w.everything()
    for key in (None, "K"):
        reply = w.call("POST", "P/plans", {"jobs": [*STORY, *more], "dry_run": True}, key=key)
        assert (reply.status, reply.body) == (
            200,
            {"claimable": ["write", "build", "x"], "pending": ["ship", "check", "y", "z"]},
        )
    assert w.everything() == before
    w.job(external_id="T-1")
    for code, bad in (
        ("cycle", job("a", "a")),
        ("unknown_role", job("a", role="chef")),
        ("unknown_job", job("a", "b")),
        ("already_exists", job("a", external_id="T-1")),
    ):
        w.refused(code, "POST", "P/plans", {"jobs": [bad], "dry_run": True})


# ---- repeats


def test_a_keyed_repeat_answers_the_same_jobs(w: CheckedWorld) -> None:
    first = w.call("POST", "P/plans", {"jobs": list(STORY)}, key="K")
    complete(w, first.body["jobs"]["build"])
    again = w.call("POST", "P/plans", {"jobs": list(STORY), "dry_run": False}, key="K2")
    assert again.body["jobs"]["build"] != first.body["jobs"]["build"]
    before = w.everything()
    again = w.call("POST", "P/plans", {"jobs": list(STORY)}, key="K")
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.body == first.body
    assert w.everything() == before
    for other in (
        {"jobs": list(STORY[1:])},
        {"jobs": list(STORY), "dry_run": True},
        {"jobs": [job("a", "a")]},
    ):
        w.refused("idempotency_mismatch", "POST", "P/plans", other, key="K")
    assert plan(w, *STORY, key="K", token="owner") != first.body["jobs"], "keys belong to their caller"


def test_without_a_key_a_plan_is_another_one(w: CheckedWorld) -> None:
    assert set(plan(w, *STORY).values()).isdisjoint(plan(w, *STORY).values())


# ---- external ids


def test_a_plan_takes_the_external_ids_of_its_jobs(w: CheckedWorld) -> None:
    jobs = plan(w, job("a", external_id="T-1"), job("b", "a", external_id="T-2"), job("c"))
    body = {"summary": "x", "role": "developer", "external_id": "T-2"}
    assert w.refused("already_exists", "POST", "P/jobs", body).body["job"] == jobs["b"]
    refused = w.refused(
        "already_exists", "POST", "P/plans", {"jobs": [job("x"), job("y", external_id="T-1")]}
    ).body
    assert (refused["job"], refused["errors"][0]["path"]) == (jobs["a"], "jobs/1/external_id")
    complete(w, jobs["a"])
    assert w.get(plan(w, job("a", external_id="T-1"))["a"])["external_id"] == "T-1"


def test_external_ids_of_a_plan_differ_and_are_not_too_many(w: CheckedWorld) -> None:
    twice = [job("a", external_id="T"), job("b"), job("c", external_id="T")]
    refused = w.refused("invalid", "POST", "P/plans", {"jobs": twice}).body
    assert [error["path"] for error in refused["errors"]] == ["jobs/0/external_id", "jobs/2/external_id"]
    many = [job(f"r{n}", external_id=f"T-{n}") for n in range(limits.PLAN_EXTERNAL_IDS + 1)]
    assert "40" in w.refused("limit_reached", "POST", "P/plans", {"jobs": many}).body["detail"]
    assert len(plan(w, *many[:-1])) == limits.PLAN_EXTERNAL_IDS


# ---- bad input


@pytest.mark.parametrize(
    ("jobs", "path", "code"),
    [
        ([job("a"), job("b"), job("a")], "jobs/2/ref", "invalid"),
        ([job("job_" + "0" * 26)], "jobs/0/ref", "invalid"),
        ([job("a"), job("b", "a", "c")], "jobs/1/blocked_by/1", "unknown_job"),
        ([job("a"), job("b", "A")], "jobs/1/blocked_by/0", "unknown_job"),
        ([job("a", NOT_THERE)], "jobs/0/blocked_by/0", "unknown_job"),
        ([job("a"), job("b", parent="c")], "jobs/1/parent", "unknown_job"),
        ([job("a", parent=NOT_THERE)], "jobs/0/parent", "unknown_job"),
        ([job("a"), job("b", role="chef")], "jobs/1/role", "unknown_role"),
        ([job("a"), job("b", routing=[{"role": "qa", "summary": "s"}, {"role": "chef", "summary": "s"}])], "jobs/1/routing/1/role", "unknown_role"),
        ([job("a", "a")], "jobs/0/blocked_by", "cycle"),
        ([job("z"), job("a", "b", "z"), job("b", "a")], "jobs/1/blocked_by", "cycle"),
        ([job("a", parent="a")], "jobs/0/parent", "cycle"),
        ([job("z"), job("a", parent="b"), job("b", parent="a")], "jobs/1/parent", "cycle"),
        ([], "jobs", "invalid"),
        ([job("")], "jobs/0/ref", "invalid"),
        ([job("a b")], "jobs/0/ref", "invalid"),
        ([job("-a")], "jobs/0/ref", "invalid"),
        ([job("é")], "jobs/0/ref", "invalid"),
        ([job("a" * 81)], "jobs/0/ref", "invalid"),
        ([job("a"), job("b", "a#b")], "jobs/1/blocked_by/0", "invalid"),
        ([{**job("a"), "ref": 1}], "jobs/0/ref", "invalid"),
        ([job("a", summary=" ")], "jobs/0/summary", "invalid"),
        ([job("a", *[f"r{n}" for n in range(1_001)])], "jobs/0/blocked_by", "invalid"),
        ([job("a", routing=[{"role": "qa", "summary": "s"}] * 11)], "jobs/0/routing", "invalid"),
        ([job("a", status="published")], "jobs/0/status", "unknown_field"),
        ([job("a", key="K")], "jobs/0/key", "unknown_field"),
        ([{"summary": "x", "role": "developer"}], "jobs/0/ref", "invalid"),
        ([None], "jobs/0", "invalid"),
    ],
)  # fmt: skip
def test_a_plan_that_is_not_acceptable_makes_nothing(
    w: CheckedWorld, jobs: list[Any], path: str, code: str
) -> None:
    refused = w.refused(code, "POST", "P/plans", {"jobs": jobs})
    assert refused.body["errors"][0]["path"] == path


def test_a_circle_is_named(w: CheckedWorld) -> None:
    jobs = [job("top"), *(job(f"r{n}", f"r{(n + 1) % 50}", "top") for n in range(50)), job("below", "r3")]
    refused = w.refused("cycle", "POST", "P/plans", {"jobs": jobs}).body
    assert refused["detail"].count(" waits for ") == 50
    assert len(refused["errors"]) == 50
    assert {"jobs/0/blocked_by", "jobs/51/blocked_by"}.isdisjoint(
        error["path"] for error in refused["errors"]
    )


def test_links_are_counted_in_all(w: CheckedWorld) -> None:
    jobs = [job(f"r{n}", *[f"r{k}" for k in range(max(0, n - 27), n)]) for n in range(200)]
    assert sum(len(one["blocked_by"]) for one in jobs) == 5_022
    assert "5,000" in w.refused("limit_reached", "POST", "P/plans", {"jobs": jobs}).body["detail"]
    jobs[-1]["blocked_by"] = jobs[-1]["blocked_by"][:5]
    assert w.call("POST", "P/plans", {"jobs": jobs}).status == 201


def test_a_plan_names_only_jobs_that_the_caller_sees(w: CheckedWorld) -> None:
    other = w.project()
    w.enrol_in(other, "foreign")
    theirs = w.ok("POST", f"{other}/jobs", {"summary": "x", "role": "developer"}, token="foreign")["job"][
        "id"
    ]
    w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.enrol("narrow", ("developer",))
    hidden = create(w, role="ops", token="owner")["id"]
    for unknown in (theirs, hidden):
        for fields in ({"blocked_by": [unknown]}, {"parent": unknown}):
            body = {"jobs": [job("a") | fields]}
            w.refused("unknown_job", "POST", "P/plans", body, token="narrow")


def test_who_may_plan(w: CheckedWorld) -> None:
    w.viewer()
    w.enrol("idle", ("qa",))
    w.ok("DELETE", "P/roles/qa", token="owner")
    for token in ("viewer", "idle"):
        w.refused("forbidden", "POST", "P/plans", {"jobs": [job("a")]}, token=token)
    assert w.get(plan(w, job("a"), token="owner")["a"])["source_label"] == "local owner"
