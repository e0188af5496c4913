"""A worker: claims jobs, runs a command for each, keeps the lease while it runs, and reports how it ended."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock.cli import result, screen
from interlock.cli.client import ATTEMPTS, Client, RefusedError
from interlock.cli.exits import CONFLICT, LATER, NOTHING, OK, OWNER, REFUSED, RIGHT, CommandError, usage
from interlock.cli.process import Running

LOOK = 0.1
"""Seconds between looks at the command, the lease and the signals."""
IDLE = 5.0
"""Seconds before asking again when the bus could not answer."""
FINAL_ATTEMPTS = 12
"""How often an ending is sent (half a minute) before the worker gives up on the bus."""
ENDED = frozenset({"lease_lost", "stop_requested", "not_holder", "not_found"})
"""Codes that say the claim is no longer this worker's."""

_NOT_FOR_COMMANDS = frozenset({"INTERLOCK_OWNER_TOKEN"})
_POLICY = {
    "model": "INTERLOCK_MODEL",
    "thinking_level": "INTERLOCK_THINKING_LEVEL",
    "allowed_tools": "INTERLOCK_ALLOWED_TOOLS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker does: for which roles, with which command, under which lease (seconds).

    ``lease`` None: the lease lasts three heartbeats. ``stop`` is set by a signal. ``report`` is told each
    outcome.
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


def run(work: Work) -> int:
    """Work until stopped (or for one job with ``once``); answers the exit code."""
    while not work.stop.is_set():
        taken, pause = _next(work)
        if taken is not None:
            code = _attend(work, taken)
        elif work.once:
            work.report({"job": None, "outcome": "nothing"})
            return NOTHING
        else:
            work.stop.wait(pause)
            continue
        if work.once:
            return code
    return OK


def _next(work: Work) -> tuple[dict[str, Any] | None, float]:
    """(a claimed job, or None; seconds until it is worth asking again)."""
    lease = {"lease_seconds": work.lease} if work.lease else {"heartbeat_seconds": work.heartbeat}
    body = {"roles": list(work.roles), "session": work.session, **lease}
    try:
        answer = _fresh(work).call("claims.next", body).value
    except CommandError as error:
        if work.once or error.code not in {CONFLICT, LATER}:
            raise
        screen.note(f"interlock: {screen.clean(error.detail)}; asking again in {IDLE:g} s")
        return None, IDLE
    if answer.get("job") is None or answer.get("claim") is None:
        return None, answer.get("poll_after_ms", 1_000) / 1_000
    return answer, 0.0


def _fresh(work: Work, attempts: int = ATTEMPTS) -> Client:
    """The client with a new Idempotency-Key: each act of a worker is a call of its own."""
    return replace(work.client, key=uuid.uuid4().hex, attempts=attempts)


class _Claim:
    """One claim while it is worked on: beats in the background, and remembers why it was lost."""

    def __init__(self, work: Work, taken: Mapping[str, Any]) -> None:
        self.work = work
        self.job: dict[str, Any] = taken["job"]
        self.id: str = self.job["id"]
        self.fence: int = taken["claim"]["fence"]
        self.lost = ""
        self._done = threading.Event()
        beat = taken["claim"].get("lease_seconds", work.lease or 3 * work.heartbeat) / 3
        self._every = max(0.5, min(beat, work.heartbeat))
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        pause = self._every
        while not self._done.wait(pause):
            body = {"session": self.work.session, "jobs": [{"id": self.id, "fence": self.fence}]}
            pause = self._every
            try:
                claims = _fresh(self.work, 1).call("claims.heartbeat", body).value["claims"]
            except CommandError as error:
                if error.code != LATER:
                    self.lost = error.detail
                    return
                # The bus decides about the lease when it is back; until then the work goes on.
                pause = min(1.0, self._every)
                continue
            mine = next(
                (one for one in claims if one["job"] == self.id),
                {"stop": {"detail": "the bus does not list it"}},
            )
            stop = mine.get("stop") or (
                mine.get("fence") != self.fence and {"detail": f"the fence is {mine.get('fence')}"}
            )
            if stop:
                self.lost = str(stop.get("detail") or stop.get("code"))
                return

    def write(self, operation: str, **body: Any) -> dict[str, Any]:
        """One write under the claim."""
        return self._client().call(operation, {"fence": self.fence, **body}, path={"job": self.id}).value

    def read(self, operation: str, **query: Any) -> dict[str, Any]:
        """One read of the job, as its agent."""
        return self._client().call(operation, query=query, side="agent", path={"job": self.id}).value

    def _client(self) -> Client:
        return _fresh(self.work, ATTEMPTS if self.work.stop.is_set() else FINAL_ATTEMPTS)

    def end(self) -> None:
        """Stop beating."""
        self._done.set()
        self._thread.join(1.0)


def _attend(work: Work, taken: Mapping[str, Any]) -> int:
    """Run the command for one claimed job; answers the exit code of a worker that stops here."""
    claim = _Claim(work, taken)
    screen.note(f"interlock: {claim.id} (fence {claim.fence}) {screen.clean(claim.job['summary'])}")
    told: dict[str, Any] = {"job": claim.id, "fence": claim.fence}
    try:
        with tempfile.TemporaryDirectory(prefix="interlock-job-") as folder:
            running = _start(work, claim, taken, Path(folder))
            try:
                exit_code = _watch(work, claim, running)
            finally:
                digest, size = running.close()
        told |= {"exit_code": exit_code, "log": str(running.log)}
        outcome, code = _report(claim, running, exit_code, f"sha256:{digest}", size)
    except CommandError as error:
        _say_error(claim, error)
        outcome, code = ("lost", CONFLICT) if claim.lost else ("unfinished", error.code)
        if error.code in {RIGHT, REFUSED} and not work.once:
            raise
    finally:
        claim.end()
    work.report({**told, "outcome": outcome})
    return code


def _say_error(claim: _Claim, error: CommandError) -> None:
    screen.note(f"interlock: {claim.id}: {screen.clean(error.detail)}")


def _start(work: Work, claim: _Claim, taken: Mapping[str, Any], folder: Path) -> Running:
    payload = json.dumps(_task(claim, taken)).encode("ascii")
    file = folder / "job.json"
    file.write_bytes(payload)
    settings = work.client.settings
    hidden = _NOT_FOR_COMMANDS.union(_POLICY.values())
    environment = {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        **_policy(taken),
        "INTERLOCK_JOB_FILE": str(file),
        "INTERLOCK_JOB": claim.id,
        "INTERLOCK_FENCE": str(claim.fence),
        "INTERLOCK_URL": settings.url,
        "INTERLOCK_TOKEN": settings.token("agent"),
        "INTERLOCK_PROJECT": settings.project,
    }
    try:
        return Running(work.command, payload, environment, work.logs / f"{claim.id}-{claim.fence}.log")
    except OSError as error:
        claim.write("claims.release", reason="the worker could not start its command")
        raise usage(f"cannot run {work.command[0]}: {error.strerror}") from error


def _task(claim: _Claim, taken: Mapping[str, Any]) -> dict[str, Any]:
    """What the command gets: the job, what its upstream jobs came to, and for a retry why a review sent it back."""
    return {
        **claim.job,
        "upstream_results": taken.get("upstream_results") or [],
        "reopen_context": claim.read("jobs.reopen_context") if claim.job.get("reopen_of") else None,
    }


def _policy(taken: Mapping[str, Any]) -> dict[str, str]:
    """What the job's policy says about the model and its tools, as environment."""
    policy = taken.get("policy") or taken["job"].get("policy") or {}
    found = {variable: policy[name] for name, variable in _POLICY.items() if policy.get(name) is not None}
    return {
        variable: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for variable, value in found.items()
    }


def _watch(work: Work, claim: _Claim, running: Running) -> int | None:
    """The command's exit code; None when it was ended by a lost lease or by a signal to the worker."""
    while (code := running.wait(LOOK)) is None:
        if claim.lost or work.stop.is_set():
            running.end(work.grace)
            return None
    return code


def _report(
    claim: _Claim, running: Running, exit_code: int | None, checksum: str, size: int
) -> tuple[str, int]:
    """Tell the bus how the command ended: (outcome, exit code)."""
    if claim.lost:
        if _sent_back(claim):
            return _rejected(claim)
        screen.note(
            f"interlock: {claim.id}: the claim has ended ({screen.clean(claim.lost)}); nothing was written"
        )
        return "lost", CONFLICT
    try:
        log = {
            "type": "log",
            "uri": running.log.resolve().as_uri(),
            "checksum": checksum,
            "metadata": {"bytes": size},
        }
        _attach(claim, log)
        if exit_code is None:
            claim.write("claims.release", reason="the worker was stopped")
            screen.note(f"interlock: {claim.id} released")
            return "released", OK
        if exit_code == 0:
            return _complete(claim, running)
        return _fail(claim, *result.failure(exit_code, bytes(running.stdout), bytes(running.stderr)))
    except RefusedError as refused:
        return _refused(claim, refused)


def _attach(claim: _Claim, log: Mapping[str, Any]) -> None:
    try:
        claim.write("jobs.attach", **log)
    except RefusedError as refused:
        # Without its log a job can still end well; without its claim it cannot.
        if refused.problem_code in ENDED or refused.code == RIGHT:
            raise
        screen.note(f"interlock: {claim.id}: the log was not attached ({screen.clean(refused.detail)})")


def _complete(claim: _Claim, running: Running) -> tuple[str, int]:
    data = result.last_object(bytes(running.stdout))
    try:
        claim.write("claims.complete", **({"result": {"data": data}} if data is not None else {}))
    except RefusedError as refused:
        if refused.code != REFUSED or refused.problem_code in ENDED:
            raise
        # The bus does not take this ending (evidence is missing, the result is too large): the job must not hang.
        return _fail(claim, f"the completion was refused: {refused.detail}", {"code": refused.problem_code})
    screen.note(f"interlock: {claim.id} completed")
    return "completed", OK


def _fail(claim: _Claim, reason: str, data: Mapping[str, Any]) -> tuple[str, int]:
    claim.write("claims.fail", reason=reason, data=dict(data))
    screen.note(f"interlock: {claim.id} failed: {screen.clean(reason[:200])}")
    return "failed", REFUSED


_OWN_DOING = {"completed": OK, "failed": REFUSED, "cancelled": REFUSED, "blocked": OWNER}


def _refused(claim: _Claim, refused: RefusedError) -> tuple[str, int]:
    """The bus did not take the ending: the claim is lost, or the command itself has moved its job."""
    if refused.problem_code == "wrong_state":
        job = claim.read("jobs.get")["job"]
        if job["fence"] == claim.fence and job["status"] in _OWN_DOING:
            screen.note(f"interlock: {claim.id}: its command has left it {job['status']}")
            return str(job["status"]), _OWN_DOING[job["status"]]
    if refused.problem_code in ENDED:
        claim.lost = refused.detail
        if _sent_back(claim):
            return _rejected(claim)
        screen.note(
            f"interlock: {claim.id}: the command has finished, but the claim had ended ({screen.clean(refused.problem_code)}: "
            f"{screen.clean(refused.detail)}); its result was not taken"
        )
        return "lost", CONFLICT
    raise refused


def _rejected(claim: _Claim) -> tuple[str, int]:
    screen.note(f"interlock: {claim.id}: its command has sent the reviewed work back")
    return "rejected", OK


def _sent_back(claim: _Claim) -> bool:
    """Whether the claim ended because its own command rejected what it reviewed: then it has done its work."""
    try:
        cursor: str | None = ""
        while cursor is not None:
            page = claim.read("jobs.timeline", limit=1_000, cursor=cursor or None)
            if any(
                event["type"] == "job.rejected" and event["data"].get("fence") == claim.fence
                for event in page["items"]
            ):
                return True
            cursor = page["next_cursor"]
    except CommandError:
        pass  # not known: the claim counts as lost, which is true in any case
    return False
