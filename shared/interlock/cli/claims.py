"""`interlock job …` for those who do the work, and for owners who step in: claim, complete, fail, stop …"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from interlock.cli import amounts, inputs, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import NOTHING
from interlock.cli.jobs import app

Maybe = Annotated[str | None, typer.Option(help="Why.")]


@command(app, "claim", "claims.claim")
def claim(
    session: Session,
    job: inputs.Job,
    name: inputs.Session = None,
    heartbeat: inputs.Heartbeat = None,
    lease: inputs.Lease = None,
) -> None:
    body = inputs.sent(session=name, heartbeat_seconds=heartbeat, lease_seconds=lease)
    session.show(session.call("claims.claim", body, path={"job": job}).value, shapes.claim)


@command(app, "next", "claims.next")
def next_(
    session: Session,
    role: Annotated[
        list[str] | None, typer.Option(help="A role to work for; repeatable (default: all of yours).")
    ] = None,
    name: inputs.Session = None,
    heartbeat: inputs.Heartbeat = None,
    lease: inputs.Lease = None,
    wait: Annotated[float, typer.Option(help="Seconds to go on asking while there is nothing.")] = 0,
) -> int:
    body = inputs.sent(roles=role, session=name, heartbeat_seconds=heartbeat, lease_seconds=lease)
    until = time.monotonic() + wait
    while True:
        answer = session.call("claims.next", body).value
        pause = answer.get("poll_after_ms", 1_000) / 1_000
        if answer["job"] is not None or time.monotonic() + pause > until:
            break
        time.sleep(pause)
    session.show(answer, shapes.claim)
    return 0 if answer["job"] is not None else NOTHING


@command(app, "complete", "claims.complete")
def complete(
    session: Session,
    job: inputs.Job,
    fence: inputs.Fence = None,
    summary: Annotated[str | None, typer.Option(help="What came of it.")] = None,
    data: inputs.Document = None,
    artifact: inputs.Documents = None,
    used: amounts.Usage = None,
) -> None:
    result = inputs.sent(
        summary=summary,
        data=inputs.document("--data", data),
        artifacts=inputs.documents("--artifact", artifact),
    )
    body = inputs.sent(fence=inputs.held_fence(job, fence), result=result or None, **amounts.used(used))
    session.show(session.call("claims.complete", body, path={"job": job}).value, shapes.job)


def _with_reason(
    session: Session,
    operation: str,
    job: str,
    fence: int | None,
    reason: str | None,
    used: str | None,
    data: str | None = None,
) -> None:
    body = inputs.sent(
        fence=inputs.held_fence(job, fence),
        reason=reason,
        data=inputs.document("--data", data),
        **amounts.used(used),
    )
    session.show(session.call(operation, body, path={"job": job}).value, shapes.job)


@command(app, "fail", "claims.fail")
def fail(
    session: Session,
    job: inputs.Job,
    reason: inputs.Reason,
    fence: inputs.Fence = None,
    data: inputs.Document = None,
    used: amounts.Usage = None,
) -> None:
    _with_reason(session, "claims.fail", job, fence, reason, used, data)


@command(app, "block", "claims.block")
def block(
    session: Session,
    job: inputs.Job,
    reason: inputs.Reason,
    fence: inputs.Fence = None,
    data: inputs.Document = None,
    used: amounts.Usage = None,
) -> None:
    _with_reason(session, "claims.block", job, fence, reason, used, data)


@command(app, "release", "claims.release")
def release(
    session: Session,
    job: inputs.Job,
    reason: Maybe = None,
    fence: inputs.Fence = None,
    used: amounts.Usage = None,
) -> None:
    _with_reason(session, "claims.release", job, fence, reason, used)


@command(app, "unblock", "claims.unblock")
def unblock(session: Session, job: inputs.Job, reason: inputs.Reason, fence: inputs.Fence = None) -> None:
    body = inputs.sent(fence=inputs.fence_of(job, fence), reason=reason)
    session.show(session.call("claims.unblock", body, path={"job": job}).value, shapes.job)


@command(app, "resume", "claims.resume")
def resume(session: Session, job: inputs.Job, fence: inputs.Fence = None) -> None:
    body = {"fence": inputs.held_fence(job, fence)}
    session.show(session.call("claims.resume", body, path={"job": job}).value, shapes.claim)


@command(app, "restart", "claims.restart")
def restart(session: Session, job: inputs.Job) -> None:
    session.show(session.call("claims.restart", {}, path={"job": job}).value, shapes.claim)


@command(app, "cancel", "jobs.cancel")
def cancel(session: Session, job: inputs.Job, reason: inputs.Reason, fence: inputs.Fence = None) -> None:
    body = inputs.sent(fence=inputs.fence_of(job, fence), reason=reason)
    session.show(session.call("jobs.cancel", body, path={"job": job}).value, shapes.job)


@command(app, "retry", "jobs.retry")
def retry(
    session: Session,
    job: inputs.Job,
    max_retries: Annotated[int | None, typer.Option(help="Raise the retry budget to this.")] = None,
) -> None:
    session.show(
        session.call("jobs.retry", inputs.sent(max_retries=max_retries), path={"job": job}).value, shapes.job
    )


@command(app, "stop", "jobs.stop")
def stop(
    session: Session,
    job: inputs.Job,
    reason: inputs.Reason,
    then: Annotated[str, typer.Option(help="Where it goes: publish, fail or cancel.")] = "publish",
    role: Annotated[str | None, typer.Option(help="Publish it to another role.")] = None,
) -> None:
    body = inputs.sent(reason=reason, then=then, role=role)
    session.show(session.call("jobs.stop", body, path={"job": job}).value, shapes.job)
