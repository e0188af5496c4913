"""The demo's story: workers claim real jobs, one is killed, another takes over, and the late write is refused."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.cli import audit
from interlock.cli.client import Client, RefusedError
from interlock.cli.demo import crew, steps
from interlock.cli.demo.crew import Worker
from interlock.cli.demo.repo import Checkout
from interlock.cli.demo.show import Show
from interlock.cli.demo.task import BEGUN
from interlock.cli.exits import REFUSED, CommandError
from interlock.cli.settings import Settings

WORKERS = ("ada", "ben", "cleo")
ROLES = ("developer", "qa", "reviewer", "ops")
TASK = (*steps.PYTHON, "-m", "interlock.cli.demo.task")
LIMIT = 80.0
"""Seconds after which the demo gives up."""
_LOOK = 0.2
_ENDED = frozenset({"completed", "failed", "cancelled"})
_TOLD = frozenset({"claimed", "lease_expired", "completed", "failed", "artifact_added", "released"})


@dataclass(slots=True)
class Story:
    """What has happened so far. ``jobs`` maps ids to jobs as last read, in the order of publication."""

    show: Show
    client: Client
    checkout: Checkout
    stage: Path
    workers: dict[str, Worker] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Step name → job id."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Job id → when (by the show's clock) it was first claimed and when it ended."""
    claims: list[tuple[str, str, int]] = field(default_factory=list)
    """(job id, worker, fence) of every claim."""
    killed: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)
    ledger: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _victim: str = ""
    _began: threading.Event = field(default_factory=threading.Event)
    _cursor: str | None = None

    def run(self) -> None:
        """From publishing to the verified ledger. What is not as it should be goes to ``problems``."""
        output = self.stage / "built"
        output.mkdir()
        planned = steps.plan(self.checkout, output)
        self._victim = planned[0].name
        for step in planned:
            job = self._make("jobs.create", step.job(self.checkout, output))["job"]
            self.ids[step.name] = job["id"]
            self.jobs[job["id"]] = job
        self.show.say(f"{len(planned)} jobs published: {', '.join(self.ids)}")
        self._enrol()
        self._until(self._began.is_set, f"nobody began {self._victim!r}")
        self._until(self._taken_over, f"nobody took over {self._victim!r}")
        self._late_write()
        self._until(self._all_ended, "not every job has ended")
        codes = crew.end(*(worker.process for worker in self.workers.values()))
        self._judge(dict(zip(self.workers, codes, strict=True)))
        self.ledger = audit.of_bus(self.client)
        if not self.ledger["ok"]:
            self.problems.append("the ledger does not verify")

    def _make(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.client.call(operation, body, key=uuid.uuid4().hex).value

    def _read(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.call("jobs.get", path={"job": job}).value["job"]
        return found

    def _enrol(self) -> None:
        settings = self.client.settings
        for name in WORKERS:
            token = self._make(
                "agents.create", {"label": name, "roles": list(ROLES), "tool_family": "shell"}
            )["token"]
            environment = {
                "INTERLOCK_URL": settings.url,
                "INTERLOCK_PROJECT": settings.project,
                "INTERLOCK_TOKEN": token,
            }
            self.workers[name] = crew.start_worker(name, environment, self.stage, TASK, self._heard)
        self.show.say(f"3 workers started, each an agent of its own: {', '.join(WORKERS)}")

    def _heard(self, worker: Worker, line: str) -> None:
        """On a worker's thread: the first time that the first job's command runs, its worker is killed."""
        if not self._began.is_set() and line.split() == [BEGUN, self._victim]:
            worker.kill()
            self.killed = {"worker": worker.name, "at": self.show.seconds}
            self._began.set()

    def _until(self, done: Any, otherwise: str) -> None:
        while not done():
            if self.show.seconds > LIMIT:
                raise CommandError(REFUSED, f"{otherwise} within {LIMIT:g} s", self._last_words())
            dead = [
                w.name for w in self.workers.values() if not w.alive() and w.name != self.killed.get("worker")
            ]
            if dead:
                raise CommandError(
                    REFUSED, f"a worker has ended by itself: {', '.join(dead)}", self._last_words()
                )
            self._look()
            time.sleep(_LOOK)
        self._look()

    def _last_words(self) -> str:
        return " | ".join(line for worker in self.workers.values() for line in worker.lines[-3:])

    def _look(self) -> None:
        """Tell what is new in the feed, and how the board stands."""
        query = {"after": self._cursor} if self._cursor else {"limit": 1_000}
        feed = self.client.call("ledger.feed", query=query).value
        self._cursor = feed["next_cursor"]
        # What is shown comes from the feed; what is decided comes from the jobs themselves.
        for job, found in self.jobs.items():
            if found["status"] not in _ENDED:
                self.jobs[job] = self._read(job)
        for event in feed["items"]:
            job = event["entity"].partition("/")[2]
            if job in self.jobs:
                self._tell(job, event)
        if self._began.is_set() and "fence" not in self.killed:
            self._tell_kill()
        self.show.board(self.rows())

    def _tell(self, job: str, event: Mapping[str, Any]) -> None:
        kind = event["type"].removeprefix("job.")
        if kind not in _TOLD:
            return
        if kind == "claimed":
            self.spans.setdefault(job, [self.show.seconds])
            self.claims.append((job, event["actor"]["label"], event["data"]["fence"]))
        elif kind in _ENDED:
            self.spans.setdefault(job, [self.show.seconds]).append(self.show.seconds)
        words = _words(kind, event)
        if words:
            self.show.say(f"{self._name(job):<12} {words}")

    def _tell_kill(self) -> None:
        """Say it after the claim that it hit, whose fence the late write will carry."""
        job, worker = self.ids[self._victim], self.killed["worker"]
        found = self.jobs[job]
        seen = [(job, found["assignee_label"], found["fence"])] if found["status"] == "in_progress" else []
        claims = [*self.claims, *seen]
        fence = next((fence for held, who, fence in claims if held == job and who == worker), None)
        if fence is not None:
            self.killed |= {"job": job, "fence": fence}
            self.show.say(f"{self._victim:<12} kill -9 {worker}, in the middle of it; its lease runs on")

    def _name(self, job: str) -> str:
        return next(name for name, known in self.ids.items() if known == job)

    def _taken_over(self) -> bool:
        job = self.jobs[self.ids[self._victim]]
        return (
            "fence" in self.killed
            and job["fence"] > self.killed["fence"]
            and job["assignee_label"] not in {None, self.killed["worker"]}
        )

    def _late_write(self) -> None:
        """The killed worker's completion arrives after all: same credential, old fence."""
        worker = self.workers[self.killed["worker"]]
        settings = self.client.settings
        late = Client(Settings(settings.url, settings.project, agent_token=worker.token), "agent")
        body = {"fence": self.killed["fence"], "result": {"summary": "done, I thought"}}
        try:
            late.call("claims.complete", body, path={"job": self.killed["job"]})
        except RefusedError as refused:
            self.late = {"status": refused.status, "code": refused.problem_code, "detail": refused.detail}
            self.show.say(
                f"{self._victim:<12} {worker.name}'s late write with fence {body['fence']} is refused: "
                f"{refused.status} {refused.problem_code}, {refused.detail}"
            )
        else:
            self.problems.append("the late write was taken")
        if self.late.get("code") != "lease_lost":
            self.problems.append(f"the late write should answer lease_lost: {self.late}")

    def _all_ended(self) -> bool:
        return all(job["status"] in _ENDED for job in self.jobs.values())

    def _judge(self, exit_codes: Mapping[str, int]) -> None:
        for job in self.jobs:
            found = self.jobs[job] = self._read(job)
            if found["status"] != "completed":
                self.problems.append(
                    f"{self._name(job)} is {found['status']}: {_brief(found.get('failure_reason'))}"
                )
        victim = self.jobs[self.ids[self._victim]]
        if victim["attempt"] != 2 or victim["assignee_label"] == self.killed["worker"]:
            self.problems.append(
                f"{self._victim} should have been taken over once: attempt {victim['attempt']}"
            )
        for name, code in exit_codes.items():
            if code and name != self.killed["worker"]:
                self.problems.append(f"worker {name} ended with exit code {code}")

    def rows(self) -> Sequence[Sequence[object]]:
        """The jobs as table rows."""
        return [
            (
                self._name(job["id"]),
                job["role"],
                job["status"],
                job["assignee_label"],
                job["attempt"],
                self._span(job["id"]),
                _said(job),
            )
            for job in self.jobs.values()
        ]

    def _span(self, job: str) -> str:
        span = self.spans.get(job)
        return f"{span[-1] - span[0]:.1f}" if span and len(span) > 1 else ""

    def report(self) -> dict[str, Any]:
        """Everything as one document."""
        jobs = [
            {
                "step": self._name(job["id"]),
                **{name: job[name] for name in ("id", "summary", "role", "status")},
                "who": job["assignee_label"],
                "attempts": job["attempt"],
                "seconds": self._span(job["id"]) or None,
                "result": job.get("result"),
            }
            for job in self.jobs.values()
        ]
        return {
            "ok": not self.problems,
            "seconds": round(self.show.seconds, 1),
            "repository": str(self.checkout.origin),
            "commit": self.checkout.commit,
            "jobs": jobs,
            "killed": self.killed,
            "late_write": self.late,
            "ledger": self.ledger,
            "problems": self.problems,
        }


def _words(kind: str, event: Mapping[str, Any]) -> str:
    """An event as a sentence; empty for what is not worth one."""
    who, data = event["actor"]["label"], event["data"]
    if kind == "claimed":
        return f"claimed by {who}, fence {data['fence']}" + (
            f", attempt {data['attempt']}" if data["attempt"] > 1 else ""
        )
    if kind == "lease_expired":
        return f"the lease has lapsed: {event['to']}" + (" again" if event["to"] == "published" else "")
    if kind == "artifact_added":
        kinds = ", ".join(sorted({one["type"] for one in data["artifacts"]} - {"log"}))
        return f"{who} attached evidence: {kinds}" if kinds else ""
    return f"{kind} by {who}" + (f": {str(data['reason'])[:120]}" if data.get("reason") else "")


def _said(job: Mapping[str, Any]) -> str:
    data = (job.get("result") or {}).get("data") or {}
    return str(data.get("built") or data.get("says") or "")


def _brief(reason: str | None) -> str:
    """How a command ended, and the last thing it said."""
    how, _, said = (reason or "").partition(": ")
    lines = said.strip().splitlines()
    return f"{how}: {lines[-1][:200]}" if lines else how
