"""Jobs that wait for each other, and what happens to them, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.checked import CheckedWorld

NOT_THERE = "job_00000000000000000000000000"


def create(w: CheckedWorld, *blocked_by: str, **fields: Any) -> dict[str, Any]:
    """A job that waits for these, as its creation answers it."""
    token = fields.pop("token", "agent")
    body = {"summary": "work", "role": "developer", "blocked_by": list(blocked_by), **fields}
    return dict(w.ok("POST", "P/jobs", body, token=token)["job"])


def complete(w: CheckedWorld, *jobs: str, token: str = "agent", data: Any = None) -> None:
    """Claim and complete these jobs one after the other, and let the bus see to what follows."""
    for job in jobs:
        result = {"result": {"data": data}} if data is not None else {}
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": w.claim(job, token), **result}, token=token)
        w.pump()


def fail(w: CheckedWorld, *jobs: str, token: str = "agent") -> None:
    """Claim these jobs and give up, and let the bus see to what follows."""
    for job in jobs:
        w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job, token), "reason": "no"}, token=token)
    w.pump()


def cancel(w: CheckedWorld, *jobs: str) -> None:
    """Cancel these jobs as their owner, and let the bus see to what follows."""
    for job in jobs:
        w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "no"}, token="owner")
    w.pump()


def retry(w: CheckedWorld, job: str) -> None:
    """Retry a failed job as its owner, and let the bus see to what follows."""
    w.ok("POST", f"P/jobs/{job}/retry", {}, token="owner")
    w.pump()


def statuses(w: CheckedWorld, jobs: Sequence[str]) -> list[str]:
    return [w.get(job)["status"] for job in jobs]


def upstream(w: CheckedWorld, job: str) -> dict[str, str]:
    """The states of what a job waits for, by id."""
    return {up["id"]: up["state"] for up in w.get(job)["upstream"]}


def chain(w: CheckedWorld, length: int, **fields: Any) -> list[str]:
    """Jobs each of which waits for the one before; the first is published."""
    jobs = [w.job(**fields)]
    while len(jobs) < length:
        jobs.append(w.job(blocked_by=[jobs[-1]], **fields))
    w.pump()
    return jobs


def events(w: CheckedWorld, job: str, kind: str) -> list[dict[str, Any]]:
    """A job's events of one type, oldest first."""
    w.dispatch()
    found = w.ok("GET", f"P/jobs/{job}/events", token="owner", query={"limit": 1_000})["items"]
    return [event for event in found if event["type"] == kind]


def planned(w: CheckedWorld, count: int, **fields: Any) -> list[str]:
    """So many published jobs, made by plans."""
    jobs: list[str] = []
    while len(jobs) < count:
        part = min(200, count - len(jobs))
        wanted = [{"ref": f"r{n}", "summary": "work", "role": "developer", **fields} for n in range(part)]
        jobs += w.ok("POST", "P/plans", {"jobs": wanted})["jobs"].values()
    w.pump()
    return jobs
