"""Jobs with rules, for the tests of routing: what is published, how it ends, and what came of it."""

from __future__ import annotations

from typing import Any

from tests.sim import oracle
from tests.unit.checked import CheckedWorld

ENDINGS = ("completed", "failed", "cancelled")


def rule(**more: Any) -> dict[str, Any]:
    return {"role": "qa", "summary": "follow", **more}


def one_each() -> list[dict[str, Any]]:
    """A rule for every ending."""
    return [rule(on=ending, summary=f"after {ending}") for ending in ENDINGS]


def complete(w: CheckedWorld, job: str, **result: Any) -> None:
    body = {"fence": w.claim(job), **({"result": result} if result else {})}
    w.ok("POST", f"P/jobs/{job}/complete", body)


def fail(w: CheckedWorld, job: str) -> None:
    w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "broken"})


def retry(w: CheckedWorld, job: str) -> None:
    w.ok("POST", f"P/jobs/{job}/retry", {"max_retries": 20}, token="owner")


def children(w: CheckedWorld, job: str) -> list[dict[str, Any]]:
    """The jobs below this one, oldest first."""
    return list(w.ok("GET", "P/jobs", query={"parent": job, "order": "oldest"}, token="owner")["items"])


def events(w: CheckedWorld, job: str, kind: str) -> list[dict[str, Any]]:
    w.dispatch()
    found = w.ok("GET", f"P/jobs/{job}/events", token="owner", query={"limit": 1_000})["items"]
    return [event for event in found if event["type"] == kind]


def routed(w: CheckedWorld, job: str) -> list[dict[str, Any]]:
    """The data of the job's own events of routing."""
    return [event["data"] for event in events(w, job, "job.routed")]


def at_rest(w: CheckedWorld) -> None:
    oracle.settle(w)
    oracle.check(w)


def message(job: str) -> dict[str, Any]:
    """What the dispatcher sends."""
    return {"kind": "route", "project": "default", "job": job}
