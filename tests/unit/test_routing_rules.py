"""Rules of a new job: what may be said, what is refused where it stands, and that they come back as they were sent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.ruled import children, complete, rule


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def asked(*listed: Any, **more: Any) -> dict[str, Any]:
    return {"summary": "work", "role": "developer", "routing": list(listed), **more}


def test_rules_come_back_as_they_were_sent_with_their_defaults(w: CheckedWorld) -> None:
    full = rule(
        on="failed", when={"field": "a", "op": "exists"}, context={"b": 1, "a": [2.5]}, constraints=["c"], priority="high",
        artifacts=[{"type": "t", "uri": "u", "checksum": "c", "metadata": {"k": None}}], max_retries=0,
    )  # fmt: skip
    plain = {
        "on": "completed",
        "when": None,
        "context": {},
        "constraints": [],
        "priority": 20,
        "artifacts": [],
        "max_retries": 3,
    }
    job = w.ok("POST", "P/jobs", asked(rule(), full))["job"]
    shown = [{**rule(), **plain}, {**full, "priority": 30}]
    assert job["routing"] == w.get(job["id"])["routing"] == shown
    claimed = w.ok("POST", f"P/jobs/{job['id']}/claim", {})["job"]
    assert claimed["routing"] == shown
    assert w.call("POST", "P/jobs", asked(*shown)).status == 201  # what is shown may be sent again


@pytest.mark.parametrize(
    ("wrong", "code", "path"),
    [
        ({"role": "nobody", "summary": "s"}, "unknown_role", "routing/1/role"),
        ({"role": "owner", "summary": "s"}, "unknown_role", "routing/1/role"),
        ({"role": "NO", "summary": "s"}, "invalid", "routing/1/role"),
        ({"role": "qa"}, "invalid", "routing/1/summary"),
        ({"summary": "s"}, "invalid", "routing/1/role"),
        (rule(summary=""), "invalid", "routing/1/summary"),
        (rule(summary="s" * 201), "invalid", "routing/1/summary"),
        (rule(on="blocked"), "invalid", "routing/1/on"),
        (rule(on=None), "invalid", "routing/1/on"),
        (rule(when="always"), "invalid", "routing/1/when"),
        (rule(context=[]), "invalid", "routing/1/context"),
        (rule(constraints=["c"] * 51), "invalid", "routing/1/constraints"),
        (rule(constraints=[1]), "invalid", "routing/1/constraints/0"),
        (rule(priority=11), "invalid", "routing/1/priority"),
        (rule(max_retries=21), "invalid", "routing/1/max_retries"),
        (rule(artifacts=[{"type": "log"}]), "invalid", "routing/1/artifacts/0/uri"),
        (rule(lease_seconds=60), "unknown_field", "routing/1/lease_seconds"),
        (rule(routing=[]), "unknown_field", "routing/1/routing"),
        ("qa", "invalid", "routing/1"),
        (None, "invalid", "routing/1"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused_where_it_stands(w: CheckedWorld, wrong: Any, code: str, path: str) -> None:
    reply = w.refused(code, "POST", "P/jobs", asked(rule(), wrong))
    assert reply.status == 422
    assert [error["path"] for error in reply.body["errors"]] == [path]
    if code == "unknown_role":
        assert "developer, ops, qa, reviewer" in reply.body["detail"]


def test_in_a_plan_too(w: CheckedWorld) -> None:
    jobs = [
        {"ref": "a", "summary": "s", "role": "developer"},
        {"ref": "b", **asked(rule(), rule(role="none"))},
    ]
    reply = w.refused("unknown_role", "POST", "P/plans", {"jobs": jobs})
    assert [error["path"] for error in reply.body["errors"]] == ["jobs/1/routing/1/role"]


def test_a_role_that_was_deleted_takes_no_new_rules(w: CheckedWorld) -> None:
    w.ok("DELETE", "P/roles/qa", token="owner")
    w.refused("unknown_role", "POST", "P/jobs", asked(rule()))


def test_ten_rules_and_no_more(w: CheckedWorld) -> None:
    assert w.call("POST", "P/jobs", asked(*[rule()] * 10)).status == 201
    reply = w.refused("invalid", "POST", "P/jobs", asked(*[rule()] * 11))
    assert [error["path"] for error in reply.body["errors"]] == ["routing"]


@pytest.mark.parametrize(
    "part",
    [{"context": {"t": "x" * 70_000}}, {"constraints": ["x" * 1_000] * 50, "context": {"t": "é" * 8_000}}],
)
def test_rules_are_counted_with_constraints_and_artifacts_contexts_included(
    w: CheckedWorld, part: dict[str, Any]
) -> None:
    reply = w.refused("too_large", "POST", "P/jobs", asked(rule(**part)))
    assert reply.status == 413
    assert "constraints, routing and artifacts together" in reply.body["detail"]


def test_what_fits_is_routed_whole(w: CheckedWorld) -> None:
    text = "".join(
        chr(33 + (n * n * 7919 + n) % 90) for n in range(60_000)
    )  # a payload that does not compress
    job = w.job(routing=[rule(context={"t": text})])
    complete(w, job)
    w.pump()
    (child,) = children(w, job)
    assert w.get(child["id"])["context"]["t"] == text


def test_a_key_remembers_the_rules(w: CheckedWorld) -> None:
    first = w.call("POST", "P/jobs", asked(rule()), key="k")
    again = w.call("POST", "P/jobs", asked(rule()), key="k")
    assert (again.status, again.body["job"]["id"]) == (200, first.body["job"]["id"])
    assert again.body["job"]["routing"] == first.body["job"]["routing"]
    w.refused("idempotency_mismatch", "POST", "P/jobs", asked(rule(summary="else")), key="k")
