"""The roles against what the use cases really call: nothing called is forbidden, nothing granted is idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from infra.template import logical_id
from tests.meta import stack
from tests.meta.scene import CONSUMERS, Scene
from tests.meta.scene_caps import caps
from tests.meta.scene_decisions import decisions
from tests.meta.scene_links import links
from tests.meta.scene_mcp import FUNCTION, beside_tools, by_tool
from tests.meta.scene_presence import presence
from tests.meta.spy import Spy, Use
from tests.meta.stack import FUNCTIONS, Grant, grants
from tests.sim import world as worlds
from tests.sim.tooled import TOOL
from tests.sim.world import world

from interlock.edges.operations import OPERATIONS
from interlock.store.ports import Store

Handler = Callable[[Any, Any], dict[str, Any]]


def played(*more: Callable[[Scene], None], through: Callable[[Scene, str, Handler], Handler]) -> set[Use]:
    """What functions call while the scene is played; ``through`` says what takes an operation's requests."""
    spies: list[Spy] = []

    def wrap(store: Store) -> Store:
        spies.append(Spy(store))
        return spies[0].port()

    made = Scene(world(wrap=wrap), spies[0])
    original = worlds._handler

    def tagged(name: str) -> Handler:
        def handler(event: Any, context: Any) -> dict[str, Any]:
            with made.spy.during(logical_id(name)):
                return original(name)(event, context)

        return through(made, name, handler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "_handler", tagged)
        made.run()
        for part in (links, caps, decisions, presence, *more):
            part(made)
    return made.spy.uses


@pytest.fixture(scope="module")
def uses() -> set[Use]:
    """Of every function: agents speak REST, then MCP."""
    by_rest = played(through=lambda _scene, _name, handler: handler)
    return by_rest | played(beside_tools, through=by_tool)


def permits(grant: Grant, use: Use) -> bool:
    return grant.action == use.action and grant.resource == use.resource and grant.reaches(use.partition)


def test_the_scene_carries_out_every_operation_that_touches_the_store(uses: set[Use]) -> None:
    seen = {use.function for use in uses}
    silent = {logical_id(name) for name in ("system.openapi",)} | {"NotFound"}
    assert seen == FUNCTIONS.keys() - silent
    assert {logical_id(name) for name in OPERATIONS} - silent <= seen


@pytest.mark.parametrize("function", FUNCTIONS)
def test_everything_that_a_function_calls_is_granted(uses: set[Use], function: str) -> None:
    granted = grants(stack.role_of(function))
    forbidden = {
        use for use in uses if use.function == function and not any(permits(g, use) for g in granted)
    }
    assert not forbidden


def fences(granted: list[Grant]) -> set[Grant]:
    """The grants, each reach of the fenced ones by itself."""
    return {part for g in granted for part in [Grant(g.action, g.resource, (key,)) for key in g.keys] or [g]}


def idle(granted: list[Grant], uses: set[Use]) -> set[Grant]:
    """Grants that no use needs."""
    return {part for part in fences(granted) if not any(permits(part, use) for use in uses)}


@pytest.mark.parametrize("role", {stack.role_of(name): None for name in FUNCTIONS})
def test_every_policy_of_a_role_is_used_by_its_functions(uses: set[Use], role: str) -> None:
    members = {name for name in FUNCTIONS if stack.role_of(name) == role}
    of_role = {use for use in uses if use.function in members}
    for name, document in stack.policies(role).items():
        granted = list(stack.grants_of_policy(document))
        assert name == "WriteLogs" or idle(granted, of_role) < fences(granted), name


def test_the_role_of_the_tools_is_what_its_operations_need_and_its_tools_use(uses: set[Use]) -> None:
    """Stricter than for shared roles: each grant comes from an operation's role, and is used by a tool."""
    role = stack.role_of(FUNCTION)
    operations = {stack.role_of(logical_id(name)) for name in TOOL}
    assert set(grants(role)) == {grant for name in operations for grant in grants(name)}
    left = idle(grants(role), {use for use in uses if use.function == FUNCTION})
    assert {grant for grant in left if not grant.action.startswith("logs:")} == set()


def test_every_grant_is_used_somewhere(uses: set[Use]) -> None:
    granted = [grant for role in stack.of_type("AWS::IAM::Role") for grant in grants(role)]
    # What Lambda does in a role's name, before and after the code runs.
    lambdas = {
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    }
    lambdas |= {"logs:CreateLogStream", "logs:PutLogEvents"}
    consumer = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
    queues = {f"{queue.capitalize()}.Arn" for queue in CONSUMERS}
    left = {
        grant
        for grant in idle(granted, uses)
        if grant.action not in lambdas and not (grant.action in consumer and grant.resource in queues)
    }
    assert not left
