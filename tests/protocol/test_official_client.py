"""The official Python client of MCP on a running bus: both eras, over HTTP and through `interlock mcp`.

The client checks every answer against the protocol's schemas and against the tools' own; what it warns of is an error.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli_bus import RunningBus, eventually, running_bus

from interlock.cli.client import Client
from interlock.cli.settings import Settings

pytestmark = pytest.mark.protocol

WAYS = [("http", "auto"), ("http", "legacy"), ("stdio", "auto"), ("stdio", "legacy")]
BOTH = pytest.mark.parametrize(("way", "mode"), WAYS, ids=[" ".join(way) for way in WAYS])
MODERN = pytest.mark.parametrize("way", ["http", "stdio"])


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBus]:
    with running_bus(tmp_path_factory.mktemp("protocol")) as running:
        yield running


@pytest.fixture(scope="module")
def official() -> Any:
    """The client, which is not there outside of .ci/run."""
    from tests.protocol import official

    return official


@pytest.fixture(autouse=True)
def _nothing_is_complained_of(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
    said = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.levelno >= logging.WARNING and not record.name.startswith("interlock")
    ]
    assert said == []


class Team:
    """Agents of one test, and the owner, who speaks REST."""

    _numbers = itertools.count(1)

    def __init__(self, bus: RunningBus, official: Any, folder: Path, way: str, mode: str) -> None:
        self.bus, self.official, self.folder, self.way, self.mode = bus, official, folder, way, mode
        self.owner = Client(Settings(bus.url, "default", bus.greeting["owner_token"]), "owner")

    def agent(self, *roles: str, **more: Any) -> Any:
        """A new agent, connected."""
        label = f"{self.way}-{self.mode}-{next(self._numbers)}"
        token = self.bus.agent(label, *roles)["INTERLOCK_TOKEN"]
        place = self.folder / label
        place.mkdir()
        return self.official.connected(self.way, self.mode, self.bus.url, token, place, **more)

    def published(self, job: str) -> None:
        """Wait until what the job waits for has let it go."""
        eventually(lambda: self.bus.job(job)["status"] == "published")

    async def decide(self, decision: str, answer: str) -> None:
        """An owner answers, while the agent's client goes on."""
        import anyio

        def post() -> None:
            key = f"decide-{decision}"
            self.owner.call("decisions.answer", {"answer": answer}, path={"decision": decision}, key=key)

        await anyio.to_thread.run_sync(post)


@pytest.fixture
def team(bus: RunningBus, official: Any, tmp_path: Path) -> Any:
    return lambda way, mode: Team(bus, official, tmp_path, way, mode)


QUESTION = {
    "kind": "question",
    "prompt": "Which colour?",
    "blocker": "The paint cannot be bought.",
    "risk": "Painting twice.",
    "options": ["red", "blue"],
}


@BOTH
def test_what_is_offered(team: Any, official: Any, way: str, mode: str) -> None:
    async def look() -> None:
        async with team(way, mode).agent("qa") as client:
            assert client.protocol_version == official.agreed(mode)
            assert client.server_info.name == "interlock"
            assert "claim" in client.instructions
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"whoami", "publish_plan", "claim_next", "request_decision"} <= tools.keys()
            for tool in tools.values():
                assert tool.title
                assert tool.description
                assert tool.output_schema
                assert tool.annotations
                assert tool.annotations.read_only_hint is not None
            assert tools["get_job"].annotations.read_only_hint
            resources = {str(one.uri) for one in (await client.list_resources()).resources}
            assert {"interlock://guide", "interlock://board/qa"} <= resources
            templates = {
                one.uri_template for one in (await client.list_resource_templates()).resource_templates
            }
            assert templates == {"interlock://jobs/{id}", "interlock://board/{role}"}
            (guide,) = (await client.read_resource("interlock://guide")).contents
            assert "# " in guide.text
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert prompts == {"board", "claim", "close", "handoff", "review", "reopen"}
            prompt = await client.get_prompt("claim", {"role": "qa"})
            task, board = (message.content for message in prompt.messages)
            assert task.text
            assert board.resource.uri == "interlock://board/qa"
            completed = await client.complete(
                official.PromptReference(name="claim"), {"name": "role", "value": "q"}
            )
            assert completed.completion.values == ["qa"]
            completed = await client.complete(
                official.ResourceTemplateReference(uri="interlock://board/{role}"),
                {"name": "role", "value": ""},
            )
            assert "qa" in completed.completion.values
            if mode == "legacy":
                with pytest.warns(official.MCPDeprecationWarning, match="works under mode='legacy'"):
                    await client.send_ping()

    official.run(look)


@BOTH
def test_work_goes_its_whole_way(team: Any, official: Any, way: str, mode: str) -> None:
    found, refused = official.found, official.refused

    async def work() -> None:
        crew = team(way, mode)
        async with crew.agent("developer") as ada, crew.agent("reviewer") as ben:
            made = await found(
                ada,
                "publish_plan",
                jobs=[
                    {
                        "ref": "paint",
                        "summary": "Paint the door",
                        "role": "developer",
                        "priority": 40,
                        "constraints": ["No drips."],
                        "context": {"door": "front"},
                        "requires": ["photo"],
                    },
                    {"ref": "look", "summary": "Look at it", "role": "reviewer", "blocked_by": ["paint"]},
                ],
            )
            paint, look = made["jobs"]["paint"], made["jobs"]["look"]
            assert (await found(ada, "get_job", job=look))["job"]["status"] == "pending"
            board = await ada.read_resource("interlock://board/developer", cache_mode="bypass")
            assert paint in board.contents[0].text

            taken = await found(ada, "claim_next", roles=["developer"], heartbeat_seconds=30)
            assert taken["job"]["id"] == paint
            held = {"job": paint, "fence": taken["claim"]["fence"]}
            assert [claim["job"] for claim in (await found(ada, "heartbeat"))["claims"]] == [paint]
            assert [claim["job"] for claim in (await found(ada, "whoami"))["claims"]] == [paint]

            asked = (await found(ada, "request_decision", **held, **QUESTION))["decision"]
            assert asked["state"] == "open"
            assert (await found(ada, "get_job", job=paint))["job"]["status"] == "blocked"
            await crew.decide(asked["id"], "red")
            told = (await found(ada, "heartbeat"))["notices"]
            assert [(notice["code"], notice["answer"]) for notice in told] == [("decision_answered", "red")]
            await found(ada, "set_job_status", **held, action="resume")

            missing = await refused(ada, "complete_job", **held)
            assert missing["code"] == "evidence_missing"
            await found(ada, "attach_artifact", **held, type="photo", uri="https://example.org/door.png")
            summary = "Painted red: größe \u2028 \U0001d11e"
            done = await found(ada, "complete_job", **held, result={"summary": summary})
            assert done["job"]["status"] == "completed"
            late = await refused(ada, "fail_job", **held, reason="too late")
            assert late["code"] == "wrong_state"
            assert late["hint"]

            crew.published(look)
            review = await found(ben, "claim_job", job=look)
            assert review["job"]["id"] == look
            fence, reason = review["claim"]["fence"], "It drips at the hinge; sand it and paint again."
            sent_back = await found(ben, "reject_job", job=look, fence=fence, target=paint, reason=reason)
            again = sent_back["retry"]["id"]

            retry = await found(ada, "claim_job", job=again)
            seen = await found(ada, "get_job", job=again, include=["reopen"])
            assert reason in str(seen["reopen"])
            whole = (await ada.read_resource(f"interlock://jobs/{again}")).contents[0].text
            assert again in whole
            held = {"job": again, "fence": retry["claim"]["fence"]}
            await found(ada, "attach_artifact", **held, type="photo", uri="https://example.org/door-2.png")
            await found(ada, "complete_job", **held)
            crew.published(look)
            accepted = await found(ben, "claim_job", job=look)
            await found(ben, "complete_job", job=look, fence=accepted["claim"]["fence"])
            assert crew.bus.job(paint)["result"]["summary"] == summary
            for job in (paint, again, look):
                assert crew.bus.job(job)["status"] == "completed"

    official.run(work)


async def hold(official: Any, client: Any) -> dict[str, Any]:
    """A job that the client's agent holds: its name and fence."""
    made = await official.found(client, "publish_job", summary="Paint", role="qa")
    claim = await official.found(client, "claim_job", job=made["job"]["id"])
    return {"job": made["job"]["id"], "fence": claim["claim"]["fence"]}


@MODERN
def test_a_client_that_can_ask_its_user_waits_there(team: Any, official: Any, way: str) -> None:
    crew = team(way, "auto")
    told: list[Any] = []

    async def elicit(_context: Any, params: Any) -> Any:
        told.append(params)
        decision = params.message.partition("interlock decide ")[2].split()[0]
        await crew.decide(decision, "blue")
        return official.ElicitResult(action="accept", content={})

    async def ask() -> None:
        async with crew.agent("qa", elicitation_callback=elicit) as client:
            held = await hold(official, client)
            answered = (await official.found(client, "request_decision", **held, **QUESTION))["decision"]
            assert (answered["state"], answered["answer"]) == ("answered", "blue")
            assert len(told) == 1, "the call was asked again, and the question was not"
            for text in ("Which colour?", "The paint cannot be bought.", "Painting twice.", "red, blue"):
                assert text in told[0].message
            await official.found(client, "set_job_status", **held, action="resume")
            await official.found(client, "complete_job", **held)

    official.run(ask)


@MODERN
def test_a_user_who_declines_leaves_the_question_open(team: Any, official: Any, way: str) -> None:
    crew = team(way, "auto")

    async def elicit(_context: Any, _params: Any) -> Any:
        return official.ElicitResult(action="decline")

    async def ask() -> None:
        async with crew.agent("qa", elicitation_callback=elicit) as client:
            held = await hold(official, client)
            asked = (await official.found(client, "request_decision", **held, **QUESTION))["decision"]
            assert asked["state"] == "open"
            taken_back = await official.found(
                client, "answer_decision", decision=asked["id"], action="withdraw"
            )
            assert taken_back["decision"]["state"] == "withdrawn"

    official.run(ask)


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_before_2026_a_client_that_can_ask_is_told_like_any_other(team: Any, official: Any, way: str) -> None:
    async def elicit(_context: Any, _params: Any) -> Any:
        raise AssertionError("there is no channel by which it could be asked")

    async def ask() -> None:
        async with team(way, "legacy").agent("qa", elicitation_callback=elicit) as client:
            held = await hold(official, client)
            asked = (await official.found(client, "request_decision", **held, **QUESTION))["decision"]
            assert asked["state"] == "open"

    official.run(ask)


@MODERN
def test_a_client_that_knows_tasks_gets_one(team: Any, official: Any, way: str) -> None:
    crew = team(way, "auto")

    async def meanwhile(task: str) -> None:
        await crew.decide(task, "red")

    async def ask() -> None:
        tasks = official.Tasks(meanwhile)
        async with crew.agent("qa", extensions=[tasks]) as client:
            held = await hold(official, client)
            answered = (await official.found(client, "request_decision", **held, **QUESTION))["decision"]
            assert (answered["state"], answered["answer"]) == ("answered", "red")
            assert tasks.seen == ["working", "working", "completed"]
            assert tasks.ids == [answered["id"]]

    official.run(ask)


@MODERN
def test_a_task_that_is_cancelled_takes_the_question_back(team: Any, official: Any, way: str) -> None:
    crew = team(way, "auto")

    async def ask() -> None:
        tasks = official.Tasks(None, cancel=True)
        async with crew.agent("qa", extensions=[tasks]) as client:
            held = await hold(official, client)
            result = await client.call_tool("request_decision", {**held, **QUESTION})
            assert result.is_error
            assert tasks.seen == ["working", "working", "cancelled"]
            seen = await official.found(client, "list_decisions", decision=tasks.ids[0])
            assert seen["decision"]["state"] == "withdrawn"

    official.run(ask)


@BOTH
def test_what_is_not_there_is_an_error_of_the_protocol(team: Any, official: Any, way: str, mode: str) -> None:
    async def ask() -> None:
        async with team(way, mode).agent("qa") as client:
            with pytest.raises(official.MCPError) as unknown:
                await client.call_tool("no_such_tool", {})
            assert unknown.value.code == -32602
            with pytest.raises(official.MCPError) as unknown:
                await client.read_resource("interlock://größe/nothing here")
            assert unknown.value.code == (-32002 if mode == "legacy" else -32602)
            with pytest.raises(official.MCPError) as unknown:
                await client.get_prompt("größe")
            assert unknown.value.code == -32602
            wrong = await official.refused(client, "claim_job", job=7)
            assert wrong["code"] == "invalid"
            assert await official.refused(client, "get_job", job="job_nothing")

    official.run(ask)


@BOTH
def test_a_key_makes_one_effect_of_two_calls(team: Any, official: Any, way: str, mode: str) -> None:
    async def publish() -> None:
        async with team(way, mode).agent("qa") as client:
            fields = {"summary": "Once", "role": "qa"}
            keyed = {**fields, "idempotency_key": f"{way} {mode}"}
            first = await official.found(client, "publish_job", **keyed)
            second = await official.found(client, "publish_job", **keyed)
            assert first["job"]["id"] == second["job"]["id"]
            others = [await official.found(client, "publish_job", **fields) for _ in range(2)]
            jobs = [first["job"]["id"], *(other["job"]["id"] for other in others)]
            assert len(set(jobs)) == 3
            for job in jobs:
                cancelled = await official.found(
                    client, "set_job_status", job=job, action="cancel", reason="only a test"
                )
                assert cancelled["job"]["status"] == "cancelled"

    official.run(publish)


@MODERN
def test_a_client_that_knows_the_revision_needs_no_probe(team: Any, official: Any, way: str) -> None:
    async def ask() -> None:
        async with team(way, "2026-07-28").agent("qa") as client:
            assert client.protocol_version == "2026-07-28"
            me = await official.found(client, "whoami", include=["agent", "roles"])
            assert me["actor"]["label"].startswith(way)

    official.run(ask)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_many_calls_at_once_find_their_answers(team: Any, official: Any, mode: str) -> None:
    import anyio

    async def ask() -> None:
        async with team("stdio", mode).agent("qa") as client, anyio.create_task_group() as group:

            async def read(number: int) -> None:
                error = await official.refused(client, "get_job", job=f"job_{number}", part="context")
                assert error["code"] == "not_found"

            for number in range(40):
                group.start_soon(read, number)

    official.run(ask)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_wrong_token_is_told_through_the_proxy(
    bus: RunningBus, official: Any, tmp_path: Path, mode: str
) -> None:
    async def ask() -> None:
        with pytest.raises(ExceptionGroup) as failed:
            async with official.connected("stdio", mode, bus.url, "il_agt_default.agt_1.wrong", tmp_path):
                raise AssertionError("nobody is let in")
        (refused,) = official.causes(failed.value)
        assert refused.error.data["code"] == "token_invalid"
        assert refused.error.data["hint"] in str(refused)
        assert (tmp_path / "mcp.log").read_text() == ""

    official.run(ask)
