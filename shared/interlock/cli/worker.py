"""A worker: claims jobs, runs a command for each, keeps the lease while it runs, and reports how it ended.

A job that its command leaves blocked, to be decided by others, stays claimed; when they have decided, the worker resumes
it and runs the command again.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.cli import result, screen
from interlock.cli.client import RefusedError
from interlock.cli.exits import CONFLICT, LATER, NOTHING, OK, OWNER, REFUSED, RIGHT, CommandError, usage
from interlock.cli.held import Claim, Work
from interlock.cli.process import Running
from interlock.domain import limits
from interlock.domain.lifecycle import BLOCKED, UNBLOCKED

LOOK = 0.1
"""Seconds between looks at the command, the lease and the signals."""
IDLE = 5.0
"""Seconds before asking again when the bus could not answer."""
ENDED = frozenset({"lease_lost", "stop_requested", "not_holder", "not_found"})
"""Codes that say the claim is no longer this worker's."""

_NOT_FOR_COMMANDS = frozenset({"INTERLOCK_OWNER_TOKEN"})
_POLICY = {
    "model": "INTERLOCK_MODEL",
    "thinking_level": "INTERLOCK_THINKING_LEVEL",
    "allowed_tools": "INTERLOCK_ALLOWED_TOOLS",
}


@dataclass(frozen=True, slots=True)
class _Left:
    """A claim that is to be worked on, again where others have decided about its job meanwhile: ``taken`` is the answer
    of the claim, ``worked`` are seconds of work under it before."""

    taken: Mapping[str, Any]
    worked: float

    @property
    def fence(self) -> int:
        """Of the claim."""
        return int(self.taken["claim"]["fence"])


def run(work: Work) -> int:
    """Work until stopped (or for one job with ``once``); answers the exit code."""
    left: dict[str, _Left] = {}
    while not work.stop.is_set():
        again, pause = _decided(work, left) if left else None, IDLE
        if again is None:
            taken, pause = _next(work)
            again = _Left(taken, 0.0) if taken else None
        if again is not None:
            code = _attend(work, again, left)
        elif work.once:
            work.report({"job": None, "outcome": "nothing"})
            return NOTHING
        else:
            work.stop.wait(pause)
            continue
        if work.once:
            return code
    return OK


def _decided(work: Work, left: dict[str, _Left]) -> _Left | None:
    """A job that was left to others and may go on now, resumed. Those that are not this worker's any more are forgotten."""
    named = [
        {"id": name, "fence": one.fence} for name, one in itertools.islice(left.items(), limits.CLAIMS_PAGE)
    ]
    try:
        answer = work.fresh().call("claims.heartbeat", {"session": work.session, "jobs": named}).value
        work.heed(answer)
        status = {one["job"]: one.get("status") for one in answer["claims"] if not one.get("stop")}
        for name in [str(one["id"]) for one in named]:
            before = left.pop(name)
            if status.get(name) == BLOCKED:
                left[name] = before  # behind those that were not asked about yet
            elif status.get(name) == UNBLOCKED:
                return _resumed(work, name, before)
    except CommandError as error:
        if error.code not in {CONFLICT, LATER}:
            raise
        work.say_trouble(error.detail)
    return None


def _resumed(work: Work, job: str, before: _Left) -> _Left | None:
    """The claim, resumed; None when somebody else was quicker."""
    answer = work.fresh().call("claims.resume", {"fence": before.fence}, path={"job": job}).value
    return _Left({**before.taken, **answer}, before.worked) if answer.get("claim") else None


def _next(work: Work) -> tuple[dict[str, Any] | None, float]:
    """(a claimed job, or None; seconds until it is worth asking again)."""
    lease = {"lease_seconds": work.lease} if work.lease else {"heartbeat_seconds": work.heartbeat}
    body = {"roles": list(work.roles), "session": work.session, **lease}
    try:
        answer = work.fresh().call("claims.next", body).value
    except CommandError as error:
        if work.once or error.code not in {CONFLICT, LATER}:
            raise
        work.say_trouble(error.detail)
        return None, IDLE
    work.say_trouble()
    if answer.get("job") is None or answer.get("claim") is None:
        return None, answer.get("poll_after_ms", 1_000) / 1_000
    return answer, 0.0


def _attend(work: Work, begun: _Left, left: dict[str, _Left]) -> int:
    """Run the command for one claimed job; answers the exit code of a worker that stops here. What it leaves to others
    to decide about is added to ``left``."""
    claim = Claim(work, begun.taken, begun.worked)
    screen.note(f"interlock: {claim.id} (fence {claim.fence}) {screen.clean(claim.job['summary'])}")
    told: dict[str, Any] = {"job": claim.id, "fence": claim.fence}
    try:
        with tempfile.TemporaryDirectory(prefix="interlock-job-") as folder:
            running = _start(work, claim, Path(folder))
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
    if outcome == BLOCKED:
        left[claim.id] = _Left(claim.taken, claim.worked)
    work.report({**told, "outcome": outcome})
    return code


def _say_error(claim: Claim, error: CommandError) -> None:
    screen.note(f"interlock: {claim.id}: {screen.clean(error.detail)}")


def _start(work: Work, claim: Claim, folder: Path) -> Running:
    payload = json.dumps(_task(claim)).encode("ascii")
    file = folder / "job.json"
    file.write_bytes(payload)
    settings = work.client.settings
    hidden = _NOT_FOR_COMMANDS.union(_POLICY.values())
    environment = {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        **_policy(claim.taken),
        "INTERLOCK_JOB_FILE": str(file),
        "INTERLOCK_JOB": claim.id,
        "INTERLOCK_FENCE": str(claim.fence),
        "INTERLOCK_URL": settings.url,
        "INTERLOCK_TOKEN": settings.token("agent"),
        "INTERLOCK_PROJECT": settings.project,
    }
    try:
        return Running(work.command, payload, environment, _log(work, claim))
    except OSError as error:
        claim.write("claims.release", reason="the worker could not start its command")
        raise usage(f"cannot run {work.command[0]}: {error.strerror}") from error


def _log(work: Work, claim: Claim) -> Path:
    """The file of the command's output; each run under a claim has its own."""
    names = (f"{claim.id}-{claim.fence}{'' if run == 1 else f'-{run}'}.log" for run in itertools.count(1))
    return next(work.logs / name for name in names if not (claim.again and (work.logs / name).exists()))


def _task(claim: Claim) -> dict[str, Any]:
    """What the command gets: the job, what its upstream jobs came to, for a retry why a review sent it back, and what
    was decided about it, where somebody has worked on it before."""
    fresh = claim.fence == 1 and not claim.again
    return {
        **claim.job,
        "upstream_results": claim.taken.get("upstream_results") or [],
        "reopen_context": claim.read("jobs.reopen_context") if claim.job.get("reopen_of") else None,
        "decisions": [] if fresh else claim.decisions(),
    }


def _policy(taken: Mapping[str, Any]) -> dict[str, str]:
    """What the job's policy says about the model and its tools, as environment."""
    policy = taken.get("policy") or taken["job"].get("policy") or {}
    found = {variable: policy[name] for name, variable in _POLICY.items() if policy.get(name) is not None}
    return {
        variable: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for variable, value in found.items()
    }


def _watch(work: Work, claim: Claim, running: Running) -> int | None:
    """The command's exit code; None when it was ended: its lease is lost, its budget spent, or the worker told to stop."""
    while (code := running.wait(LOOK)) is None:
        if claim.lost or claim.halted or work.stop.is_set():
            running.end(work.grace)
            return None
    return code


def _report(
    claim: Claim, running: Running, exit_code: int | None, checksum: str, size: int
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
        if exit_code == 0:
            return _complete(claim, running, log)
        if exit_code is not None and claim.read("jobs.get")["job"]["status"] == BLOCKED:
            return _own_doing(claim, BLOCKED)
        _attach(claim, log)
        if exit_code is not None:
            return _fail(claim, *result.failure(exit_code, bytes(running.stdout), bytes(running.stderr)))
        if claim.halted:
            screen.note(f"interlock: {claim.id}: CMD was ended: {screen.clean(claim.halted)}")
            return BLOCKED, OWNER
        claim.finish("claims.release", reason="the worker was stopped")
        screen.note(f"interlock: {claim.id} released")
        return "released", OK
    except RefusedError as refused:
        return _refused(claim, refused)


def _attach(claim: Claim, log: Mapping[str, Any]) -> None:
    try:
        claim.write("jobs.attach", **log)
    except RefusedError as refused:
        # Without its log a job can still end well; without its claim it cannot.
        if refused.problem_code in ENDED or refused.code == RIGHT:
            raise
        _without_log(claim, refused)


def _without_log(claim: Claim, refused: RefusedError) -> None:
    screen.note(f"interlock: {claim.id}: the log was not attached ({screen.clean(refused.detail)})")


def _complete(claim: Claim, running: Running, log: Mapping[str, Any]) -> tuple[str, int]:
    """Complete, with the log in the same call: attached before, it would change the work that a review has approved."""
    data = result.last_object(bytes(running.stdout))
    said = {"data": data} if data is not None else {}
    try:
        try:
            claim.finish("claims.complete", result={**said, "artifacts": [log]})
        except RefusedError as refused:
            if refused.problem_code != "limit_reached":
                raise
            _without_log(claim, refused)
            claim.finish("claims.complete", **({"result": said} if said else {}))
    except RefusedError as refused:
        if refused.code != REFUSED or refused.problem_code in ENDED:
            raise
        # The bus does not take this ending (evidence is missing, the result is too large): the job must not hang.
        _attach(claim, log)
        return _fail(claim, f"the completion was refused: {refused.detail}", {"code": refused.problem_code})
    screen.note(f"interlock: {claim.id} completed")
    return "completed", OK


def _fail(claim: Claim, reason: str, data: Mapping[str, Any]) -> tuple[str, int]:
    claim.finish("claims.fail", reason=reason, data=dict(data))
    screen.note(f"interlock: {claim.id} failed: {screen.clean(reason[:200])}")
    return "failed", REFUSED


_OWN_DOING = {"completed": OK, "failed": REFUSED, "cancelled": REFUSED, BLOCKED: OWNER}


def _own_doing(claim: Claim, status: str) -> tuple[str, int]:
    screen.note(f"interlock: {claim.id}: its command has ended and left it {status}")
    return status, _OWN_DOING[status]


def _refused(claim: Claim, refused: RefusedError) -> tuple[str, int]:
    """The bus did not take the ending: the claim is lost, or the command itself has moved its job."""
    if refused.problem_code == "wrong_state":
        job = claim.read("jobs.get")["job"]
        # A decision that came before the command had ended leaves it unblocked, and not resumed: it was left to others too.
        status = BLOCKED if job["status"] == UNBLOCKED else str(job["status"])
        if job["fence"] == claim.fence and status in _OWN_DOING:
            return _own_doing(claim, status)
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


def _rejected(claim: Claim) -> tuple[str, int]:
    screen.note(f"interlock: {claim.id}: its command has sent the reviewed work back")
    return "rejected", OK


def _sent_back(claim: Claim) -> bool:
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
