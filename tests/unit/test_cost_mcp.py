"""What a tool costs on DynamoDB beside the same operation over REST: nothing more, but what its notices read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.sim.meter import Meter, metered
from tests.sim.requests import FIXTURES, NOTE, Request
from tests.sim.requests_decisions import QUESTION
from tests.sim.speaker import Speaker
from tests.sim.tooled import TOOL, arguments
from tests.sim.world import World, route, world

from interlock.edges.mcp.on_jobs import LISTED
from interlock.edges.mcp.tools import ROWS
from interlock.store.ports import Store


def asked(w: World, times: int) -> str:
    """A job that the agent holds, on which it has taken so many questions back."""
    job = w.job()
    fence = w.claim(job)
    for _ in range(times):
        body = {"fence": fence, **QUESTION, "wait": False}
        decision = w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]["id"]
        w.ok("POST", f"P/decisions/{decision}/withdraw", {})
    return job


def listed(w: World) -> Request:
    """A page of a board on which there is more, of jobs as they are."""
    for _ in range(30):
        w.job(
            summary="Count the attempt of a lapsed lease before the next claim",
            priority="high",
            context={"a": "b" * 900},
        )
    return Request("GET", f"P/jobs?limit={LISTED}&role=mine&status=published", key=None)


def holding(w: World) -> Request:
    """Somebody who has claims looks at itself."""
    asked(w, 1)
    return Request("GET", "P/me", key=None)


def noted(times: int) -> Callable[[World], Request]:
    return lambda w: Request("POST", f"P/jobs/{asked(w, times)}/events", {"type": "custom.note"})


READING: Mapping[str, tuple[str, Callable[[World], Request]]] = {
    "system.me": ("system.me", holding),
    "jobs.list": ("jobs.list", listed),
    "jobs.get": ("jobs.get", lambda w: Request("GET", f"P/jobs/{w.job(context=NOTE)}", key=None)),
    "decisions.list": (
        "decisions.list",
        lambda w: Request("GET", f"P/decisions?job={asked(w, 1)}&state=all", key=None),
    ),
}
CASES = {
    **{name: row for name, row in FIXTURES.items() if row[0] in TOOL},
    **READING,
    "jobs.record with an answer": ("jobs.record", noted(1)),
    "jobs.record with three": ("jobs.record", noted(3)),
}
"""By name: (operation, what prepares a world and answers the request)."""
EXTRA: Mapping[str, float] = {"jobs.record with an answer": 1, "jobs.record with three": 3}
"""Read units that a tool adds: its notices tell the holder what became of each decision that it asked."""


def prepared(prepare: Callable[[World], Request]) -> tuple[World, Meter, Request]:
    """A world, its meter, and the request that it was prepared for; an owner of the installation is one of the project."""
    meters: list[Meter] = []

    def wrap(store: Store) -> Store:
        counted, meter = metered(store)
        meters.append(meter)
        return counted

    w = world(wrap=wrap)
    w.agents["theirs"] = w.ok("POST", "P/owners", {"label": "theirs"}, token="owner")["token"]
    request = prepare(w)
    w.dispatch()
    meters[0].reads = meters[0].writes = 0
    return w, meters[0], replace(request, token="theirs") if request.token == "owner" else request


def by_rest(prepare: Callable[[World], Request]) -> tuple[float, float]:
    """(write, read) units of the request."""
    w, meter, request = prepared(prepare)
    path, _, query = request.path.partition("?")
    sent = {"token": request.token, "key": request.key, "headers": dict(request.headers), "query": query}
    reply = w.call(request.method, path, request.body, **sent)
    assert reply.status < 300, reply.body
    return meter.writes, meter.reads


def by_tool(prepare: Callable[[World], Request]) -> tuple[float, float]:
    """(write, read) units of the tool that does the same."""
    w, meter, request = prepared(prepare)
    path, _, query = request.path.partition("?")
    name, params = route(request.method, path.replace("P", "/v1/projects/default", 1))
    assert name is not None
    headers = {**request.headers, **({"idempotency-key": request.key} if request.key else {})}
    event = {
        "headers": headers,
        "pathParameters": params,
        "rawQueryString": query,
        "body": json.dumps(request.body or {}),
    }
    result = Speaker(w, request.token).call(TOOL[name], **arguments(name, event))
    assert not result.get("isError"), result
    return meter.writes, meter.reads


@pytest.mark.parametrize("case", CASES)
def test_a_tool_costs_what_rest_costs_and_its_notices(case: str) -> None:
    _, prepare = CASES[case]
    rest, tool = by_rest(prepare), by_tool(prepare)
    assert tool == (rest[0], rest[1] + EXTRA.get(case, 0))


def test_every_tool_is_compared() -> None:
    assert {TOOL[operation] for operation, _ in CASES.values()} == ROWS.keys()


@pytest.mark.parametrize("method", ["initialize", "tools/list", "prompts/list", "resources/templates/list"])
def test_what_is_the_same_for_everybody_costs_the_look_at_the_caller(
    metered_world: tuple[World, Meter], method: str
) -> None:
    w, meter = metered_world
    meter.log.clear()
    Speaker(w).result(method)
    assert [what for what, _ in meter.log] == ["batch get agent HEAD", "batch get project HEAD"]
