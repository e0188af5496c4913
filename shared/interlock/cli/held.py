"""What a worker does, and one claim of it: its beats, how long was worked under it, and why the work must end."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock.cli import screen
from interlock.cli.client import ATTEMPTS, Client
from interlock.cli.exits import LATER, CommandError

FINAL_ATTEMPTS = 12
"""How often an ending is sent (half a minute) before the worker gives up on the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker does: for which roles, with which command, under which lease (seconds).

    ``lease`` None: the lease lasts three heartbeats. ``stop`` is set by a signal. ``report`` is told each
    outcome. ``told`` are the broadcasts that it has passed on, ``trouble`` is what is in the way of asking for work.
    """

    client: Client
    command: Sequence[str]
    roles: Sequence[str]
    session: str
    heartbeat: int
    logs: Path
    lease: int | None = None
    once: bool = False
    grace: float = 10.0
    stop: threading.Event = field(default_factory=threading.Event)
    report: Callable[[Mapping[str, Any]], object] = lambda _: None
    told: set[str] = field(default_factory=set)
    trouble: list[str] = field(default_factory=list)

    def fresh(self, attempts: int = ATTEMPTS) -> Client:
        """The client with a new Idempotency-Key: each act of a worker is a call of its own."""
        return replace(self.client, key=uuid.uuid4().hex, attempts=attempts)

    def heed(self, answer: Mapping[str, Any]) -> None:
        """Pass on what owners have told the agents, each once."""
        for notice in answer.get("notices") or []:
            if notice["code"] == "broadcast" and notice["id"] not in self.told:
                self.told.add(notice["id"])
                screen.note(f"interlock: owners say: {screen.clean(notice['detail'])}")

    def say_trouble(self, *trouble: str) -> None:
        """Say what is in the way, once and not each time; nothing when nothing is any more."""
        if list(trouble) != self.trouble:
            self.trouble[:] = trouble
            for text in trouble:
                screen.note(f"interlock: {screen.clean(text)}; asking again")


class Claim:
    """One claim while it is worked on: beats in the background until :meth:`end`.

    ``taken`` is the answer of the claim, or of its resumption; ``worked`` are seconds of work under it before, and
    ``again`` says that there were any.
    ``lost`` says why the claim has ended. ``halted`` says why the work must end although the claim lives on: its budget
    is spent, and an owner has to decide.
    """

    def __init__(self, work: Work, taken: Mapping[str, Any], worked: float = 0.0) -> None:
        self.work = work
        self.taken = taken
        self.job: dict[str, Any] = taken["job"]
        self.id: str = self.job["id"]
        self.fence: int = taken["claim"]["fence"]
        self.again = worked > 0
        self.lost = ""
        self.halted = ""
        self._clock: tuple[float, float | None] = worked, time.monotonic()
        """Seconds of work, and since when more of them pass (None while the job is blocked)."""
        self._asked: str | None = None
        self._done = threading.Event()
        beat = taken["claim"].get("lease_seconds", work.lease or 3 * work.heartbeat) / 3
        self._every = max(0.5, min(beat, work.heartbeat))
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def worked(self) -> float:
        """Seconds of work under this claim; those in which the job was seen blocked do not count."""
        worked, since = self._clock
        return round(worked + (time.monotonic() - since if since is not None else 0.0), 3)

    def write(self, operation: str, **body: Any) -> dict[str, Any]:
        """One write under the claim."""
        return self._client().call(operation, {"fence": self.fence, **body}, path={"job": self.id}).value

    def finish(self, operation: str, **body: Any) -> dict[str, Any]:
        """The write that ends the work; it reports the seconds."""
        return self.write(operation, **body, usage={"seconds": self.worked})

    def read(self, operation: str, **query: Any) -> dict[str, Any]:
        """One read of the job, as its agent."""
        return self._client().call(operation, query=query, side="agent", path={"job": self.id}).value

    def decisions(self) -> list[dict[str, Any]]:
        """What was decided about the job, or still has to be, as far as one page goes."""
        query = {"job": self.id, "state": "all"}
        items: list[dict[str, Any]] = (
            self._client().call("decisions.list", query=query, side="agent").value["items"]
        )
        return items

    def end(self) -> None:
        """Stop beating."""
        self._done.set()
        self._thread.join(1.0)

    def _client(self) -> Client:
        return self.work.fresh(ATTEMPTS if self.work.stop.is_set() else FINAL_ATTEMPTS)

    def _beat(self) -> None:
        pause = self._every
        while not self._done.wait(pause):
            pause = self._every
            try:
                answer = self.work.fresh(1).call("claims.heartbeat", self._body()).value
            except CommandError as error:
                if error.code != LATER:
                    self.lost = error.detail
                    return
                # The bus decides about the lease when it is back; until then the work goes on.
                pause = min(1.0, self._every)
                continue
            self.work.heed(answer)
            self._judge(next((one for one in answer["claims"] if one["job"] == self.id), None))
            if self.lost or self.halted:
                return

    def _body(self) -> dict[str, Any]:
        """A beat. It reports the seconds where a budget counts them, so that the work ends when they are spent."""
        budget = self.job.get("budget") or {}
        counted = budget.get("seconds") is not None and budget.get("count") == "reported"
        usage = {"usage": {"seconds": self.worked}} if counted else {}
        return {"session": self.work.session, "jobs": [{"id": self.id, "fence": self.fence, **usage}]}

    def _judge(self, mine: Mapping[str, Any] | None) -> None:
        """What a beat's answer means for the work. A job that its own command has blocked is no reason to end it."""
        if mine is None:
            self.lost = "the bus does not list it"
        elif mine.get("stop"):
            self.lost = str(mine["stop"].get("detail") or mine["stop"].get("code"))
        elif mine.get("fence") != self.fence:
            self.lost = f"the fence is {mine.get('fence')}"
        else:
            blocked = mine.get("status") == "blocked"
            self._clock = self.worked, None if blocked else time.monotonic()
            if blocked and mine.get("decision") not in {None, self._asked}:
                self._look_at(mine["decision"])

    def _look_at(self, decision: str) -> None:
        # One that cannot be read now is looked at again by the next beat.
        with contextlib.suppress(CommandError):
            path = {"decision": decision}
            found = self.work.fresh(1).call("decisions.get", side="agent", path=path).value["decision"]
            self._asked = decision
            if found.get("cause") == "budget":
                self.halted = str(found["prompt"])
