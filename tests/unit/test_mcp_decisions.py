"""Asking over MCP: on the bus first; then as plain an answer, a question to the client's user, or a task, as the client can."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.sim.speaker import Speaker, message
from tests.sim.world import World, world

ASKED = {"kind": "question", "prompt": "Drop it?", "blocker": "the migration", "risk": "data is lost", "options": ["yes", "no"]}  # fmt: skip
TASKS = "io.modelcontextprotocol/tasks"
USER = {"elicitation": {}}
TASKED = {"extensions": {TASKS: {}}, **USER}


@pytest.fixture
def w() -> World:
    return world()


def held(w: World, token: str = "agent", **fields: Any) -> dict[str, Any]:
    job = w.job(**fields)
    return {"job": job, "fence": w.claim(job, token)}


def decisions(w: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = w.ok("GET", "P/decisions", query={"state": "all"}, token="owner")["items"]
    return found


def decide(w: World, decision: str, answer: str = "no") -> None:
    w.ok("POST", f"P/decisions/{decision}/answer", {"answer": answer}, token="owner")


def again(speaker: Speaker, given: dict[str, Any], state: Any, responses: Any) -> dict[str, Any]:
    """The call repeated, with what its client's user said."""
    params = {
        "name": "request_decision",
        "arguments": given,
        "requestState": state,
        "inputResponses": responses,
    }
    return speaker.result("tools/call", params)


@pytest.mark.parametrize(
    "speaker", [{}, {"modern": True}], ids=["2025-11-25", "2026-07-28 without capabilities"]
)
def test_a_client_that_can_do_nothing_gets_the_decision(w: World, speaker: dict[str, Any]) -> None:
    given = held(w)
    answer = Speaker(w, **speaker).ok("request_decision", **given, **ASKED)
    assert answer["decision"]["state"] == "open"
    assert w.ok("GET", f"P/jobs/{given['job']}")["job"]["status"] == "blocked"
    assert any("heartbeat" in step for step in answer["next"])


def test_without_waiting_it_is_a_plain_answer_for_everybody(w: World) -> None:
    speaker = Speaker(w, modern=True, capabilities=TASKED)
    assert speaker.ok("request_decision", **held(w), **ASKED, wait=False)["decision"]["state"] == "open"


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@pytest.mark.parametrize("answered", [False, True])
def test_the_clients_user_is_told_and_the_call_goes_on(w: World, action: str, answered: bool) -> None:
    speaker = Speaker(w, modern=True, capabilities=USER)
    given = {**held(w), **ASKED}
    result = speaker.call("request_decision", **given)
    assert result["resultType"] == "input_required"
    ((name, request),) = result["inputRequests"].items()
    assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
    assert request["params"]["requestedSchema"] == {"type": "object", "properties": {}}, (
        "nothing is asked of them"
    )
    (asked,) = decisions(w)
    for told in ("Drop it?", "the migration", "data is lost", "yes, no", f"interlock decide {asked['id']}"):
        assert told in request["params"]["message"]
    if answered:
        decide(w, asked["id"])
    after = again(speaker, given, result["requestState"], {name: {"action": action, "content": {}}})
    found = after["structuredContent"]["decision"]
    assert (found["id"], found["state"]) == (asked["id"], "answered" if answered else "open")
    assert found.get("answer") == ("no" if answered else None), "what a user says there decides nothing"
    assert len(decisions(w)) == 1


def test_what_a_user_types_there_is_no_answer(w: World) -> None:
    speaker = Speaker(w, modern=True, capabilities=USER)
    given = {**held(w), **ASKED}
    result = speaker.call("request_decision", **given)
    forged = {"decision": {"action": "accept", "content": {"answer": "yes"}}}
    assert (
        again(speaker, given, result["requestState"], forged)["structuredContent"]["decision"]["state"]
        == "open"
    )


def test_a_state_of_another_call_is_refused_and_asks_nothing(w: World) -> None:
    speaker = Speaker(w, modern=True, capabilities=USER)
    first, second = {**held(w), **ASKED}, {**held(w), **ASKED}
    other = speaker.call("request_decision", **first)["requestState"]
    for state, code in (
        (other, "invalid"),
        ("dec_none_1", "not_found"),
        ("", "not_found"),
        ("A B", "not_found"),
    ):
        refused = again(speaker, second, state, {})
        assert refused["structuredContent"]["error"]["code"] == code, state
    assert len(decisions(w)) == 1


def test_a_repeat_under_its_key_asks_once_whatever_the_client_can(w: World) -> None:
    given = {**held(w), **ASKED, "idempotency_key": "k"}
    first = Speaker(w, modern=True, capabilities=USER).call("request_decision", **given)
    second = Speaker(w, modern=True, capabilities=USER).call("request_decision", **given)
    assert first["requestState"] == second["requestState"]
    third = Speaker(w).ok("request_decision", **given)
    assert third["decision"]["id"] == first["requestState"]
    assert len(decisions(w)) == 1


# As a task


def task(w: World, **more: Any) -> tuple[Speaker, dict[str, Any]]:
    speaker = Speaker(w, modern=True, capabilities=TASKED)
    return speaker, speaker.call("request_decision", **held(w), **ASKED, **more)


def test_a_task_is_the_decision(w: World) -> None:
    speaker, begun = task(w)
    (asked,) = decisions(w)
    assert (begun["resultType"], begun["taskId"], begun["status"]) == ("task", asked["id"], "working")
    assert begun["createdAt"] == begun["lastUpdatedAt"] == asked["asked_at"]
    assert begun["pollIntervalMs"] > 0
    standing = speaker.result("tasks/get", {"taskId": asked["id"]})
    assert (standing["status"], "result" in standing) == ("working", False)
    w.clock.advance(5)
    decide(w, asked["id"])
    done = speaker.result("tasks/get", {"taskId": asked["id"]})
    assert (done["status"], done["lastUpdatedAt"] > done["createdAt"]) == ("completed", True)
    assert done["result"]["structuredContent"]["decision"]["answer"] == "no"
    plain = Speaker(w).ok("list_decisions", decision=asked["id"])
    assert done["result"]["structuredContent"]["decision"] == plain["decision"]


def test_a_task_that_is_cancelled_is_withdrawn(w: World) -> None:
    speaker, begun = task(w)
    name = {"taskId": begun["taskId"]}
    assert set(speaker.result("tasks/cancel", name)) == {"resultType", "_meta"}
    assert speaker.result("tasks/get", name)["status"] == "cancelled"
    assert decisions(w)[0]["state"] == "withdrawn"
    speaker.result("tasks/cancel", name)


def test_an_answered_task_stays_answered(w: World) -> None:
    speaker, begun = task(w)
    decide(w, begun["taskId"])
    speaker.result("tasks/cancel", {"taskId": begun["taskId"]})
    assert decisions(w)[0]["state"] == "answered"


def test_a_task_that_nobody_answers_ends(w: World) -> None:
    speaker, begun = task(w, expires_in=60)
    w.clock.advance(61)
    w.pump()
    done = speaker.result("tasks/get", {"taskId": begun["taskId"]})
    assert (done["status"], done["result"]["structuredContent"]["decision"]["state"]) == (
        "completed",
        "expired",
    )


def test_an_update_changes_nothing(w: World) -> None:
    speaker, begun = task(w)
    answers = {"inputResponses": {"decision": {"action": "accept", "content": {"answer": "yes"}}}}
    speaker.result("tasks/update", {"taskId": begun["taskId"], **answers})
    assert decisions(w)[0]["state"] == "open"


def test_a_task_is_its_askers(w: World) -> None:
    _, begun = task(w)
    w.enrol("ben")
    ben = Speaker(w, "ben", modern=True, capabilities=TASKED)
    assert ben.ask("tasks/cancel", {"taskId": begun["taskId"]}).body["error"]["code"] == -32602
    assert decisions(w)[0]["state"] == "open"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_task_that_is_none(w: World, method: str) -> None:
    speaker = Speaker(w, modern=True, capabilities=TASKED)
    for name in ("dec_none_1", "x", "job_1", "A B"):
        assert speaker.ask(method, {"taskId": name}).body["error"]["code"] == -32602
    body, headers = message(method, {"taskId": "x"}, modern=True, capabilities=USER)
    assert Speaker(w).post(json.dumps(body), headers).body["error"]["code"] == -32021


# Answering


def test_an_agent_of_a_named_role_answers_and_the_asker_does_not(w: World) -> None:
    asked = Speaker(w).ok("request_decision", **held(w), **ASKED, roles=["qa"])["decision"]["id"]
    own = Speaker(w).call("answer_decision", decision=asked, answer="yes")["structuredContent"]
    assert own["error"]["code"] == "self_answer"
    w.enrol("quinn", ("qa",))
    quinn = Speaker(w, "quinn")
    assert [notice["decision"] for notice in quinn.ok("whoami")["notices"]] == [asked]
    assert [each["id"] for each in quinn.ok("list_decisions")["decisions"]] == [asked]
    assert (
        quinn.ok("answer_decision", decision=asked, answer="yes", note="seen")["decision"]["answer"] == "yes"
    )
    late = quinn.call("answer_decision", decision=asked, answer="no")["structuredContent"]
    assert late["error"]["code"] == "decision_closed"
    (notice,) = Speaker(w).ok("heartbeat")["notices"]
    assert (notice["code"], notice["answer"]) == ("decision_answered", "yes")
