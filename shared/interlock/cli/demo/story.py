"""The demo's story: the jobs as they stand, what has been told of them, and what the scenes found."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.cli.client import Client, RefusedError
from interlock.cli.demo import telling
from interlock.cli.demo.crew import Worker
from interlock.cli.demo.repo import Checkout
from interlock.cli.demo.show import TIME, Show
from interlock.cli.exits import REFUSED, CommandError
from interlock.domain.lifecycle import ENDED

LIMIT = 80.0
"""Seconds after which the demo gives up."""
QUIET = 4.0
"""Seconds without an event, every job ended: nothing more will happen."""
_LOOK = 0.2
_READ = 1.0
"""Seconds after which jobs are read again although no event told of them."""


class NothingMoreError(Exception):
    """Nothing more will happen, and the scene has not come to its end."""


@dataclass(slots=True)
class Story:
    """What has happened so far. ``jobs`` maps ids to jobs as last read, in the order in which they came.

    ``found`` is what the scenes found, by their names; ``problems`` is what is not as it should be.
    """

    show: Show
    client: Client
    checkout: Checkout
    stage: Path
    workers: dict[str, Worker] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Name in the story → job id."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Job id → when (by the show's clock) it was first claimed and when it ended."""
    claims: list[tuple[str, str, int]] = field(default_factory=list)
    """(job id, worker, fence) of every claim."""
    found: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    look_on: Callable[[], object] = lambda: None
    """A scene's own look, each time that the story looks."""
    _cursor: str | None = None
    _heard: float = 0.0
    _read_at: float = 0.0
    _foreign: set[str] = field(default_factory=set)

    @property
    def built(self) -> Path:
        """Where steps put what they make."""
        return self.stage / "built"

    def begin(self) -> None:
        """From here on events are told: a folder that was kept may hold an earlier story."""
        self._cursor = self.client.call("ledger.feed", query={"last": 1}).value["next_cursor"]

    def make(self, operation: str, body: Mapping[str, Any], **path: str) -> dict[str, Any]:
        """An owner's call."""
        return self.client.call(operation, body, key=uuid.uuid4().hex, path=path).value

    def read(self, job: str) -> dict[str, Any]:
        """A job as it is now."""
        found: dict[str, Any] = self.client.call("jobs.get", path={"job": job}).value["job"]
        return found

    def adopt(self, name: str, job: str) -> None:
        """A job is part of the story."""
        self.ids[name] = job
        self.jobs[job] = self.read(job)

    def job(self, name: str) -> dict[str, Any]:
        """A job by its name in the story, as last read."""
        return self.jobs[self.ids[name]]

    def name(self, job: str) -> str:
        """A job's name in the story."""
        return next((name for name, known in self.ids.items() if known == job), job)

    def say(self, name: str, text: str) -> None:
        """A line about a job."""
        self.show.say(f"{name:<11}  {text}", TIME + 13)

    def until(self, done: Callable[[], object], otherwise: str) -> None:
        """Tell what happens until something is so. Raises :class:`NothingMoreError` when it will not come any more."""
        self._heard = self.show.seconds
        while not done():
            if self.show.seconds > LIMIT:
                raise CommandError(REFUSED, f"{otherwise} within {LIMIT:g} s", self._last_words())
            killed = self.found.get("killed", {}).get("worker")
            dead = [w.name for w in self.workers.values() if not w.alive() and w.name != killed]
            if dead:
                raise CommandError(
                    REFUSED, f"a worker has ended by itself: {', '.join(dead)}", self._last_words()
                )
            if self.all_ended() and self.show.seconds - self._heard > QUIET:
                raise NothingMoreError(otherwise)
            self._look()
            time.sleep(_LOOK)
        self._look()

    def all_ended(self) -> bool:
        """Whether no job goes on by itself."""
        return all(job["status"] in ENDED for job in self.jobs.values())

    def _last_words(self) -> str:
        return " | ".join(line for worker in self.workers.values() for line in worker.lines[-3:])

    def _look(self) -> None:
        """Tell what is new in the feed, and how the board stands."""
        feed = self.client.call("ledger.feed", query={"after": self._cursor, "limit": 1_000}).value
        self._cursor = feed["next_cursor"]
        told = [event for event in feed["items"] if self._is_of(event["entity"].partition("/")[2])]
        if told:
            self._heard = self.show.seconds
        # What is shown comes from the feed; what is decided comes from the jobs themselves.
        again = {event["entity"].partition("/")[2] for event in told}
        if self.show.seconds - self._read_at > _READ:
            self._read_at = self.show.seconds
            again |= {job for job, found in self.jobs.items() if found["status"] != "completed"}
        self.jobs |= {job: self.read(job) for job in self.jobs if job in again}
        for event in told:
            self._tell(event["entity"].partition("/")[2], event)
        self.look_on()
        self.show.board(self.rows())

    def _is_of(self, job: str) -> bool:
        """Whether an event is of one of our jobs; those that a review or a rule made join the story."""
        if job in self.jobs:
            return True
        if job in self._foreign or not job.startswith("job_"):
            return False
        try:
            found = self.read(job)
        except RefusedError:
            found = {}
        name = self._descendant(found)
        if name:
            self.adopt(name, job)
        else:
            self._foreign.add(job)
        return bool(name)

    def _descendant(self, job: Mapping[str, Any]) -> str:
        if job.get("reopen_of") in self.jobs:
            first = self.name(job["reopen_of"]).partition(" #")[0]
            return f"{first} #{2 + sum(name.startswith(f'{first} #') for name in self.ids)}"
        return str(job["context"].get("step", "")) if job.get("routed_from") in self.jobs else ""

    def _tell(self, job: str, event: Mapping[str, Any]) -> None:
        kind = event["type"].removeprefix("job.")
        if kind == "claimed":
            self.spans.setdefault(job, [self.show.seconds])
            self.claims.append((job, event["actor"]["label"], event["data"]["fence"]))
        elif kind in ENDED and job in self.spans:
            self.spans[job].append(self.show.seconds)
        for made in (event["data"].get("retry"), *event["data"].get("created", ())):
            if made:
                self._is_of(made)
        words = telling.words(kind, event, self.name)
        if words:
            self.say(self.name(job), words)

    def rows(self) -> Sequence[Sequence[object]]:
        """The jobs as table rows."""
        return [
            (
                self.name(job["id"]),
                job["role"],
                job["status"],
                job["assignee_label"],
                job["attempt"],
                self.span(job["id"]),
                telling.outcome(job),
            )
            for job in self.jobs.values()
        ]

    def span(self, job: str) -> str:
        """Seconds from a job's first claim to its end."""
        span = self.spans.get(job)
        return f"{span[-1] - span[0]:.1f}" if span and len(span) > 1 else ""

    def report(self) -> dict[str, Any]:
        """Everything as one document."""
        jobs = [
            {
                "step": self.name(job["id"]),
                **{name: job[name] for name in ("id", "summary", "role", "status")},
                "who": job["assignee_label"],
                "attempts": job["attempt"],
                "seconds": self.span(job["id"]) or None,
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
            **self.found,
            "problems": self.problems,
        }
