"""`interlock job …` for the graph: link, graph, reopen-context, and the reviewer's reject."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli import around, inputs, screen, shapes
from interlock.cli.command import Session, command
from interlock.cli.jobs import app


@command(app, "link", "jobs.link")
def link(
    session: Session,
    job: inputs.Job,
    upstream: Annotated[
        str, typer.Argument(metavar="UPSTREAM", help="The job that must be completed first.")
    ],
) -> None:
    body = {"type": "blocks", "upstream": upstream}
    session.show(session.call("jobs.link", body, path={"job": job}).value, shapes.job)


@command(app, "graph", "jobs.graph")
def graph(
    session: Session,
    job: inputs.Job,
    depth: Annotated[int | None, typer.Option(help="How many links away it goes, 1–50 (default 5).")] = None,
) -> None:
    answer = session.call("jobs.graph", query=inputs.sent(depth=depth), path={"job": job}).value
    session.show(answer, lambda value: around.show_graph(value, job))


@command(app, "reopen-context", "jobs.reopen_context")
def reopen_context(session: Session, job: inputs.Job) -> None:
    session.show(
        session.call("jobs.reopen_context", path={"job": job}).value,
        around.show_reopening,
    )


@command(
    app,
    "reject",
    "claims.reject",
    text="Send a reviewed job back, with a reason.\n\nJOB is the review, which you hold; TARGET is the completed job that it "
    "waited for. A retry of TARGET is published, and the review waits for it.",
)
def reject(
    session: Session,
    job: inputs.Job,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The completed job to send back.")],
    reason: inputs.Reason,
    fence: inputs.Fence = None,
) -> None:
    body = {"fence": inputs.held_fence(job, fence), "target": target, "reason": reason}
    answer = session.call("claims.reject", body, path={"job": job}).value
    session.show(answer, shapes.rejection)
    if answer["reason_truncated"] and not session.json:
        screen.note("the reason was too long and is kept cut")
