"""What tests of usage and budgets do: hold a job, report, and look at what came of it."""

from __future__ import annotations

from typing import Any

from tests.sim import oracle
from tests.unit.checked import CheckedWorld


def held(w: CheckedWorld, token: str = "agent", **fields: Any) -> tuple[str, int]:
    job = w.job(**fields)
    return job, w.claim(job, token)


def beat(
    w: CheckedWorld, job: str, fence: int | None = None, token: str = "agent", **usage: Any
) -> dict[str, Any]:
    """Report; what the heartbeat says of the job."""
    named = {"id": job, "usage": usage, **({} if fence is None else {"fence": fence})}
    claims = w.ok("POST", "P/heartbeat", {"jobs": [named]}, token=token)["claims"]
    (found,) = [claim for claim in claims if claim["job"] == job]
    return dict(found)


def events(w: CheckedWorld, job: str, kind: str) -> list[dict[str, Any]]:
    w.dispatch()
    found = w.ok("GET", f"P/jobs/{job}/events", token="owner", query={"limit": 1_000})["items"]
    return [event for event in found if event["type"] == f"job.{kind}"]


def used(w: CheckedWorld, job: str) -> dict[str, Any]:
    return dict(w.get(job)["usage"]["reported"])


def edit(w: CheckedWorld, job: str, token: str = "owner", **fields: Any) -> Any:
    version = w.get(job)["version"]
    return w.call("PATCH", f"P/jobs/{job}", fields, token=token, headers={"If-Match": f'"v{version}"'})


def settled(w: CheckedWorld) -> None:
    oracle.settle(w)
    oracle.check(w)


def reason(way: str) -> dict[str, str]:
    return {} if way == "complete" else {"reason": "r"}


def spent_job(w: CheckedWorld, **fields: Any) -> str:
    """A published job whose budget is spent."""
    job, fence = held(w, budget={"usd": 1}, **fields)
    w.ok("POST", f"P/jobs/{job}/release", {"fence": fence, "usage": {"usd": 1.5}})
    return job
