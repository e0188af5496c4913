"""The scene once more, with agents that speak MCP: whatever a tool carries out is asked of the tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from tests.meta.scene import Scene, large
from tests.sim.speaker import Speaker
from tests.sim.tooled import TOOL, arguments

from interlock.app.call import Answer
from interlock.edges import jsonio
from interlock.edges.mcp.revisions import TASKS
from interlock.edges.mcp.session import Session
from interlock.errors import InterlockError

FUNCTION = "Mcp"
"""The function that serves every tool."""
Event = Mapping[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]


def by_tool(scene: Scene, name: str, rest: Handler) -> Handler:
    """The handler of an operation that agents reach by the tool, if one carries it out: the answer is the operation's."""

    def handler(event: Event, context: Any) -> dict[str, Any]:
        bearer = event["headers"].get("authorization", "")
        if name not in TOOL or not bearer.startswith("Bearer il_agt_"):
            return rest(event, context)
        answers: dict[str, Answer] = {}
        call = Session.call

        def noted(session: Session, operation: str, *given: Any, **more: Any) -> Answer:
            answer = call(session, operation, *given, **more)
            answers.setdefault(operation, answer)  # a page is asked for again when it does not fit
            return answer

        params = {"name": TOOL[name], "arguments": arguments(name, event)}
        with patch.object(Session, "call", noted):
            result = ask(scene, "tools/call", params, bearer.removeprefix("Bearer "))
        if result.get("isError"):
            error = result["structuredContent"]["error"]
            return {
                "statusCode": InterlockError(error["code"]).status,
                "headers": {},
                "body": json.dumps(error),
            }
        answer = answers[name]
        headers = {} if answer.version is None else {"etag": f'"v{answer.version}"'}
        return {"statusCode": 200, "headers": headers, "body": jsonio.write(answer.value)}

    return handler


def ask(
    scene: Scene,
    method: str,
    params: Mapping[str, Any] | None = None,
    token: str = "agent",
    *,
    modern: bool = False,
) -> dict[str, Any]:
    """The result of a method; ``modern`` clients know tasks."""
    client = Speaker(scene.w, token, modern, {"extensions": {TASKS: {}}})
    with scene.spy.during(FUNCTION):
        return client.result(method, params)


def beside_tools(scene: Scene) -> None:
    """What is read beside tools, what only tools read, and decisions as tasks."""
    w = scene.w
    everything = ["agent", "project", "roles", "workers", "stats", "events"]
    job = w.job(context=large(41))
    fence = w.claim(job)
    ask(scene, "tools/call", {"name": "whoami", "arguments": {"include": everything}})
    ask(scene, "tools/call", {"name": "get_job", "arguments": {"job": job, "include": ["decisions"]}})
    for uri in ("interlock://guide", f"interlock://jobs/{job}", "interlock://board/developer"):
        assert ask(scene, "resources/read", {"uri": uri})["contents"]
    assert ask(scene, "resources/list")["resources"]
    reference = {"type": "ref/resource", "uri": "interlock://jobs/{id}"}
    found = ask(scene, "completion/complete", {"ref": reference, "argument": {"name": "id", "value": job}})
    assert found["completion"]["values"] == [job]
    for prompt in ask(scene, "prompts/list")["prompts"]:
        given = {each["name"]: job if each["name"] == "job" else "developer" for each in prompt["arguments"]}
        assert ask(scene, "prompts/get", {"name": prompt["name"], "arguments": given})["messages"]
    question = {"kind": "question", "prompt": "Which?", "blocker": "b", "risk": "r"}
    asked = {"name": "request_decision", "arguments": {"job": job, "fence": fence, **question}}
    task = {"taskId": ask(scene, "tools/call", asked, modern=True)["taskId"]}
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        ask(
            scene,
            method,
            {**task, **({"inputResponses": {}} if method == "tasks/update" else {})},
            modern=True,
        )
    assert ask(scene, "tasks/get", task, modern=True)["status"] == "cancelled"
    scene.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
    scene.pump()
