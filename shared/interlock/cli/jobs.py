"""`interlock job …` for those who publish and watch: publish, list, show, edit, attach, events, explain …"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli import amounts, files, inputs, names, shapes
from interlock.cli.command import Session, command
from interlock.cli.exits import usage

app = typer.Typer(name="job", help="Publish, claim, finish and read jobs.", no_args_is_help=True)

Role = Annotated[str | None, typer.Option(help="The role it is addressed to.")]
Priority = Annotated[str | None, typer.Option(help="low, normal, high, urgent, or their number.")]
Constraint = Annotated[list[str] | None, typer.Option(help="An acceptance criterion; repeatable.")]
File = Annotated[
    str | None, typer.Option(metavar="FILE|-", help="A JSON object with the fields; options win over it.")
]
When = Annotated[str | None, typer.Option(metavar="RFC3339")]
Retries = Annotated[int | None, typer.Option(help="The retry budget, 0–20.")]


@command(app, "publish", "jobs.create")
def publish(
    session: Session,
    summary: Annotated[str | None, typer.Argument(help="What is to be done, in one line.")] = None,
    role: Role = None,
    priority: Priority = None,
    constraint: Constraint = None,
    context: inputs.Document = None,
    artifact: inputs.Documents = None,
    external_id: Annotated[str | None, typer.Option(help="The work's id elsewhere.")] = None,
    parent: Annotated[str | None, typer.Option(help="The job that spawned it.")] = None,
    blocked_by: Annotated[
        list[str] | None, typer.Option(help="A job that must be completed first; repeatable.")
    ] = None,
    on_upstream_failure: Annotated[
        str | None, typer.Option(help="match (default: fail as it does) or continue.")
    ] = None,
    independent: Annotated[
        bool | None,
        typer.Option(
            "--independent/--no-independent", help="Whoever worked on what it waits for may not claim it."
        ),
    ] = None,
    routing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JSON|@FILE", help="A rule, or a list of rules, for jobs to follow; repeatable."
        ),
    ] = None,
    requires: Annotated[
        list[str] | None,
        typer.Option(help="An artifact type that completion must show, or review: an approval; repeatable."),
    ] = None,
    capability: inputs.Labels = None,
    max_retries: Retries = None,
    lease_seconds: Annotated[int | None, typer.Option(help="30–86,400.")] = None,
    on_expire: Annotated[str | None, typer.Option(help="What a lapse does: publish, fail or ask.")] = None,
    not_before: When = None,
    deadline: When = None,
    budget_usd: amounts.BudgetUsd = None,
    budget_tokens: amounts.BudgetTokens = None,
    budget_seconds: amounts.BudgetSeconds = None,
    budget_count: amounts.BudgetCount = None,
    file: File = None,
) -> None:
    given = inputs.sent(
        summary=summary,
        role=role,
        priority=_priority(priority),
        constraints=constraint,
        context=inputs.document("--context", context),
        artifacts=inputs.documents("--artifact", artifact),
        external_id=external_id,
        parent=parent,
        blocked_by=blocked_by,
        on_upstream_failure=on_upstream_failure,
        independent=independent,
        routing=inputs.listed("--routing", routing),
        requires=requires,
        capabilities=capability,
        max_retries=max_retries,
        lease_seconds=lease_seconds,
        on_expire=on_expire,
        not_before=not_before,
        deadline=deadline,
        **amounts.budget(budget_usd, budget_tokens, budget_seconds, budget_count),
    )
    session.show(session.call("jobs.create", {**_file(file), **given}).value, shapes.job)


@command(app, "list", "jobs.list")
def list_(
    session: Session,
    status: inputs.Labels = None,
    role: Annotated[list[str] | None, typer.Option(help="A role, or mine; repeatable.")] = None,
    assignee: Annotated[str | None, typer.Option(help="An agent (id or label), or me.")] = None,
    source: Annotated[str | None, typer.Option(help="Its creator's id, or me.")] = None,
    parent: Annotated[str | None, typer.Option(help="The job that spawned it.")] = None,
    external_id: Annotated[str | None, typer.Option(help="The work's id elsewhere.")] = None,
    q: Annotated[str | None, typer.Option(help="A part of the summary.")] = None,
    order: Annotated[str | None, typer.Option(help="priority, newest, oldest or updated.")] = None,
    limit: inputs.Limit = None,
    cursor: inputs.Cursor = None,
    everything: inputs.Everything = False,
) -> None:
    query = inputs.sent(
        status=status,
        role=role,
        assignee=assignee if assignee in {None, "me"} else names.agent_id(session, assignee),
        source=source,
        parent=parent,
        external_id=external_id,
        q=q,
        order=order,
        limit=limit,
        cursor=cursor,
    )
    side = "agent" if assignee == "me" or "mine" in (role or []) else None
    session.show(page(session, "jobs.list", query, everything, side=side), shapes.jobs)


def page(
    session: Session, operation: str, query: Mapping[str, Any], everything: bool, **more: Any
) -> dict[str, Any]:
    """One page of a list, or all of it as one page."""
    if not everything:
        return session.call(operation, query=query, **more).value
    pages = list(session.client.pages(operation, query, **more))
    return {**pages[-1], "items": [item for one in pages for item in one["items"]]}


@command(app, "show", "jobs.get")
def show(session: Session, job: inputs.Job) -> None:
    session.show(session.call("jobs.get", path={"job": job}).value, shapes.job)


@command(app, "edit", "jobs.edit")
def edit(
    session: Session,
    job: inputs.Job,
    summary: Annotated[str | None, typer.Option(help="What is to be done, in one line.")] = None,
    priority: Priority = None,
    constraint: Constraint = None,
    context: inputs.Document = None,
    deadline: When = None,
    role: Role = None,
    max_retries: Retries = None,
    budget_usd: amounts.BudgetUsd = None,
    budget_tokens: amounts.BudgetTokens = None,
    budget_seconds: amounts.BudgetSeconds = None,
    budget_count: amounts.BudgetCount = None,
    no_budget: amounts.NoBudget = False,
    file: File = None,
    if_match: Annotated[
        str | None, typer.Option(help="The ETag you read (default: what the job has now).")
    ] = None,
) -> None:
    given = inputs.sent(
        summary=summary,
        priority=_priority(priority),
        constraints=constraint,
        context=inputs.document("--context", context),
        deadline=deadline,
        role=role,
        max_retries=max_retries,
    )
    budget = amounts.budget(budget_usd, budget_tokens, budget_seconds, budget_count, none=no_budget)
    body = {**_file(file), **given, **budget}
    tag = if_match or session.call("jobs.get", path={"job": job}).etag
    session.show(session.call("jobs.edit", body, if_match=tag, path={"job": job}).value, shapes.job)


@command(app, "attach", "jobs.attach")
def attach(
    session: Session,
    job: inputs.Job,
    type_: Annotated[str, typer.Option("--type", help="What kind of evidence: diff, log, report …")],
    uri: Annotated[str | None, typer.Option(help="A reference: where it stands.")] = None,
    checksum: Annotated[str | None, typer.Option(help="Of what a reference stands for: sha256:…")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="An upload: sent to the bus and verified.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of an upload (default: the file's own).")] = None,
    metadata: inputs.Document = None,
    fence: inputs.Fence = None,
) -> None:
    if (uri is None) == (file is None) or (file and checksum) or (name and not file):
        raise usage("name --uri (and --checksum), or --file (and --name)")
    body = inputs.sent(
        fence=inputs.fence_of(job, fence),
        type=type_,
        uri=uri,
        checksum=checksum,
        metadata=inputs.document("--metadata", metadata),
    )
    if file:
        answer = files.attach(session.client, job, {**body, **files.described(file, name)}, file)
    else:
        answer = session.call("jobs.attach", body, path={"job": job}).value
    session.show(answer, shapes.artifact)


@command(app, "artifact", "jobs.artifact")
def artifact(
    session: Session,
    job: inputs.Job,
    artifact: Annotated[str, typer.Argument(help="The artifact's id.")],
    download: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Save a verified upload there: a file, or a folder.")
    ] = None,
) -> None:
    answer = session.call("jobs.artifact", path={"job": job, "artifact": artifact}).value
    saved = {"saved": str(files.fetch(answer, download))} if download else {}
    session.show({**answer, **saved}, shapes.artifact)


@command(app, "verify", "jobs.verify")
def verify(
    session: Session,
    job: inputs.Job,
    artifact: Annotated[str, typer.Argument(help="The artifact's id.")],
    fence: inputs.Fence = None,
) -> None:
    body = inputs.sent(fence=inputs.fence_of(job, fence))
    answer = session.call("jobs.verify", body, path={"job": job, "artifact": artifact}).value
    session.show(answer, shapes.artifact)


@command(app, "explain", "jobs.explain")
def explain(
    session: Session,
    job: inputs.Job,
    agent: Annotated[
        str | None, typer.Option(help="For this agent (id or label) instead of the caller.")
    ] = None,
) -> None:
    query = {"agent": names.agent_id(session, agent)} if agent else {}
    answer = session.call("jobs.explain", query=query, side="owner" if agent else None, path={"job": job})
    session.show(answer.value, shapes.explanation)


@command(app, "events", "jobs.timeline")
def events(
    session: Session,
    job: inputs.Job,
    limit: inputs.Limit = None,
    cursor: inputs.Cursor = None,
    everything: inputs.Everything = False,
) -> None:
    query = inputs.sent(limit=limit, cursor=cursor)
    session.show(page(session, "jobs.timeline", query, everything, path={"job": job}), shapes.events)


@command(app, "record", "jobs.record")
def record(
    session: Session,
    job: inputs.Job,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="custom.…")],
    data: inputs.Document = None,
) -> None:
    body = inputs.sent(type=type_, data=inputs.document("--data", data))
    session.show(session.call("jobs.record", body, path={"job": job}).value, shapes.event)


def _priority(text: str | None) -> int | str | None:
    return int(text) if text and text.isascii() and text.isdigit() else text


def _file(name: str | None) -> dict[str, Any]:
    return inputs.document("--file", name if name in {None, "-"} else f"@{name}") or {}
