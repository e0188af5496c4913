"""`interlock agent …`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from interlock.cli import amounts, connect, inputs, names, screen, shapes, tokens
from interlock.cli.command import Session, command
from interlock.cli.jobs import page

app = typer.Typer(name="agent", help="Enrol, list and change agents, and their tokens.", no_args_is_help=True)
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id or label.")]
Token = Annotated[str, typer.Argument(metavar="TOKEN-ID", help="The token's id, never the token itself.")]
Roles = Annotated[list[str] | None, typer.Option("--role", help="A role it works for; repeatable.")]
Capabilities = Annotated[
    list[str] | None, typer.Option("--capability", help="Something it can do; repeatable.")
]
Tool = Annotated[str | None, typer.Option("--tool-family", help="Which tool it is.")]


@command(app, "add", "agents.create")
def add(
    session: Session,
    label: Annotated[str, typer.Argument(help="What people call it.")],
    roles: Roles = None,
    capabilities: Capabilities = None,
    tool: Tool = None,
    max_claims: amounts.Cap = None,
) -> None:
    given = inputs.sent(label=label, roles=roles, capabilities=capabilities, tool_family=tool)
    body = {**given, **amounts.cap(max_claims)}
    session.show(session.call("agents.create", body).value, shapes.thing)


@command(app, "list", "agents.list")
def list_(
    session: Session,
    limit: inputs.Limit = None,
    cursor: inputs.Cursor = None,
    everything: inputs.Everything = False,
) -> None:
    session.show(
        page(session, "agents.list", inputs.sent(limit=limit, cursor=cursor), everything), shapes.agents
    )


@command(app, "show", "agents.get")
def show(session: Session, agent: Agent) -> None:
    session.show(
        session.call("agents.get", path={"agent": names.agent_id(session, agent)}).value, shapes.thing
    )


@command(app, "edit", "agents.update")
def edit(
    session: Session,
    agent: Agent,
    label: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    roles: Roles = None,
    capabilities: Capabilities = None,
    tool: Tool = None,
    max_claims: amounts.Cap = None,
) -> None:
    given = inputs.sent(label=label, roles=roles, capabilities=capabilities, tool_family=tool)
    body = {**given, **amounts.cap(max_claims)}
    answer = session.call("agents.update", body, path={"agent": names.agent_id(session, agent)})
    session.show(answer.value, shapes.thing)


@command(app, "stop", "agents.stop")
def stop(
    session: Session,
    agent: Agent,
    reason: inputs.Reason,
    then: Annotated[str, typer.Option(help="Where its jobs go: publish, fail or cancel.")] = "publish",
) -> None:
    path = {"agent": names.agent_id(session, agent)}
    session.show(session.call("agents.stop", {"reason": reason, "then": then}, path=path).value, _stopped)


def _stopped(answer: Mapping[str, Any]) -> None:
    shapes.thing(answer)
    screen.line(f"It claims nothing until:  interlock resume --agent {screen.clean(answer['agent']['id'])}")


@command(app, "retire", "agents.delete")
def retire(session: Session, agent: Agent) -> None:
    session.show(
        session.call("agents.delete", path={"agent": names.agent_id(session, agent)}).value, shapes.thing
    )


@command(app, "token", "agents.token_create")
def token(
    session: Session,
    agent: Agent,
    name: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    expires_in: Annotated[int | None, typer.Option(help="Seconds until it ends.")] = None,
) -> None:
    tokens.create(session, "agents", {"agent": names.agent_id(session, agent)}, name, expires_in)


@command(app, "rotate", "agents.token_rotate")
def rotate(
    session: Session,
    agent: Agent,
    token: Token,
    grace: Annotated[
        int | None, typer.Option(help="Seconds that the old one goes on (default 3,600).")
    ] = None,
) -> None:
    tokens.rotate(session, "agents", {"agent": names.agent_id(session, agent)}, token, grace)


@command(app, "revoke", "agents.token_revoke")
def revoke(session: Session, agent: Agent, token: Token) -> None:
    tokens.revoke(session, "agents", {"agent": names.agent_id(session, agent)}, token)


connect.register(app)
