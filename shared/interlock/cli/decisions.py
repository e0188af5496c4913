"""`interlock job ask`, `interlock decisions`, `interlock decide`: asking for a decision, reading it, answering it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from interlock.cli import asked, inputs, screen
from interlock.cli.command import Session, command
from interlock.cli.exits import LATER, OK, REFUSED, usage
from interlock.cli.jobs import app as on_jobs
from interlock.cli.jobs import page
from interlock.edges.operations import OPERATIONS

_FIRST, _LONGEST = 0.2, 3.0
"""Seconds between looks at an open decision: short at first, longer while nobody answers."""
_ASK = (
    OPERATIONS["decisions.ask"].summary
    + "\n\nThe job is blocked, and its lease pauses, until the decision is closed; then `job "
    "resume` goes on. With --until-answered the exit code says how it was closed: 0 answered, 1 withdrawn or expired, 75 still "
    "open after --timeout."
)


@command(on_jobs, "ask", "decisions.ask", text=_ASK)
def ask(
    session: Session,
    job: inputs.Job,
    prompt: Annotated[str, typer.Option(help="The exact decision that is needed.")],
    kind: Annotated[str, typer.Option(help="question, approval, review or gate.")] = "question",
    blocker: Annotated[str | None, typer.Option(help="What cannot go on without it (of a question).")] = None,
    risk: Annotated[str | None, typer.Option(help="What a wrong answer may cost (of a question).")] = None,
    option: Annotated[list[str] | None, typer.Option(help="A possible answer; repeatable.")] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help="A JSON schema that the answer has to fit.")
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option(help="A role whose agents may answer, beside owners; repeatable.")
    ] = None,
    expires_in: Annotated[int | None, typer.Option(help="Seconds until nobody can answer any more.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Block the job until the decision is closed.")
    ] = True,
    fence: inputs.Fence = None,
    until_answered: Annotated[
        bool, typer.Option("--until-answered", help="Wait until the decision is closed.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for that at most.")] = 3_600,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the job when it is answered.")] = False,
    answer_only: Annotated[
        bool, typer.Option("--answer-only", help="Print nothing but the answer, for scripts.")
    ] = False,
) -> int:
    if resume and not (until_answered and wait):
        raise usage("--resume goes with --until-answered, and not with --no-wait")
    if answer_only and not until_answered:
        raise usage("--answer-only goes with --until-answered")
    held = inputs.held_fence(job, fence)
    body = inputs.sent(
        fence=held,
        kind=kind,
        prompt=prompt,
        blocker=blocker,
        risk=risk,
        options=option,
        schema=inputs.document("--schema", schema),
        roles=role,
        expires_in=expires_in,
        wait=None if wait else False,
    )
    answer, code = session.call("decisions.ask", body, path={"job": job}).value, OK
    if until_answered:
        answer, code = _until_closed(session, answer, timeout)
        if resume and code == OK:
            answer |= session.call("claims.resume", {"fence": held}, path={"job": job}).value
        elif wait and code == OK:
            screen.note(f"interlock: answered; `interlock job resume {screen.clean(job)}` goes on")
    if not answer_only:
        session.show(answer, asked.decision)
    elif code == OK:
        given = answer["decision"]["answer"]
        session.show({"answer": given}, lambda _: screen.line(screen.clean(given)))
    return code


def _until_closed(session: Session, answer: dict[str, Any], timeout: float) -> tuple[dict[str, Any], int]:
    """(the decision as it was closed, the exit code that says how)."""
    until, pause = time.monotonic() + timeout, _FIRST
    path = {"decision": answer["decision"]["id"]}
    if answer["decision"]["state"] == "open":
        screen.note("interlock: asked; waiting for one of")
        for line in asked.next_lines(answer["decision"]):
            screen.note(f"  {line}")
    while answer["decision"]["state"] == "open":
        left = until - time.monotonic()
        if left <= 0:
            screen.note(f"interlock: nobody has answered within {timeout:g} s")
            return answer, LATER
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST)
        answer = session.call("decisions.get", path=path, side="agent").value
    return answer, OK if answer["decision"]["state"] == "answered" else REFUSED


def register(root: typer.Typer) -> None:
    """Add the commands that stand at the top."""

    @command(
        root,
        "decisions",
        text="Read a decision, or list them.\n\nWithout an id: the open ones, oldest first, unless --state or --job says "
        "otherwise. An open one is shown with the line that answers it.",
    )
    def decisions(
        session: Session,
        decision: Annotated[str | None, typer.Argument(metavar="ID", help="One decision.")] = None,
        state: Annotated[
            str | None, typer.Option(help="open (default), answered, withdrawn, expired or all.")
        ] = None,
        job: Annotated[str | None, typer.Option(help="Those of this job.")] = None,
        role: Annotated[str | None, typer.Option(help="Those that this role may answer.")] = None,
        limit: inputs.Limit = None,
        cursor: inputs.Cursor = None,
        everything: inputs.Everything = False,
    ) -> None:
        query = inputs.sent(state=state, job=job, role=role, limit=limit, cursor=cursor)
        if decision is None:
            session.show(page(session, "decisions.list", query, everything), asked.decisions)
        elif query or everything:
            raise usage("name a decision, or say which ones to list")
        else:
            session.show(session.call("decisions.get", path={"decision": decision}).value, asked.decision)

    @command(root, "decide", "decisions.answer")
    def decide(
        session: Session,
        decision: Annotated[str, typer.Argument(metavar="ID", help="The decision.")],
        answer: Annotated[
            str | None,
            typer.Argument(metavar="ANSWER", help="approve, reject, one of its options, or text."),
        ] = None,
        json_answer: Annotated[
            str | None, typer.Option(metavar="JSON|@FILE|-", help="An answer that is not text.")
        ] = None,
        note: Annotated[str | None, typer.Option(help="Why, or anything else to say about it.")] = None,
        finding: Annotated[
            list[str] | None,
            typer.Option(
                metavar="JSON|@FILE",
                help="What a review found, or a list of it: kind, description, file, line, fix; repeatable.",
            ),
        ] = None,
        segment: Annotated[int | None, typer.Option(help="Which part of the work it is about.")] = None,
        usd: Annotated[float | None, typer.Option(min=0, help="With raise: the new budget.")] = None,
        tokens: Annotated[int | None, typer.Option(min=0, help="With raise: the new budget.")] = None,
        seconds: Annotated[float | None, typer.Option(min=0, help="With raise: the new budget.")] = None,
        data: inputs.Document = None,
        withdraw: Annotated[
            bool, typer.Option("--withdraw", help="Take it back: nobody has to answer any more.")
        ] = False,
    ) -> None:
        amounts = inputs.sent(usd=usd, tokens=tokens, seconds=seconds)
        body = inputs.sent(
            note=note,
            findings=inputs.listed("--finding", finding),
            segment=segment,
            data={**(inputs.document("--data", data) or {}), **amounts} or None,
        )
        if (answer is not None) + (json_answer is not None) + withdraw != 1:
            raise usage("name an answer, --json-answer, or --withdraw")
        if withdraw:
            if body.keys() - {"note"}:
                raise usage("--withdraw goes with --note only")
            operation = "decisions.withdraw"
        else:
            operation = "decisions.answer"
            body["answer"] = (
                inputs.any_value("--json-answer", json_answer) if json_answer is not None else answer
            )
        session.show(session.call(operation, body, path={"decision": decision}).value, asked.decision)
