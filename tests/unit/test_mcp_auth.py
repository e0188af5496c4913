"""Who may speak MCP: credentials at every message, rights at every tool, and no page of another site."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.sim.speaker import Speaker, message
from tests.sim.world import World, world

MESSAGES = {
    "initialize": message("initialize", {"protocolVersion": "2025-11-25"}),
    "discover": message("server/discover", modern=True),
    "list": message("tools/list"),
    "call": message("tools/call", {"name": "whoami"}),
    "unknown tool": message("tools/call", {"name": "nothing"}),
    "ping": message("ping"),
    "notification": ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"content-type": "application/json"}),
    "batch": ([], {"content-type": "application/json"}),
}  # fmt: skip


@pytest.fixture
def w() -> World:
    return world()


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize(
    ("token", "code"),
    [
        (None, "token_missing"),
        ("nonsense", "token_invalid"),
        ("il_agt_default.agt_01m8q43s4017ktakc7qq0ze0kt.wrong", "token_invalid"),
        ("il_agt_default.agt_nobody.x", "token_invalid"),
    ],
)
def test_every_message_needs_a_credential(w: World, kind: str, token: str | None, code: str) -> None:
    body, headers = MESSAGES[kind]
    reply = Speaker(w, token).post(json.dumps(body), headers)
    assert (reply.status, reply.code) == (401, code)
    challenge = reply.headers["www-authenticate"]
    assert challenge.startswith(
        'Bearer resource_metadata="https://bus.test/.well-known/oauth-protected-resource"'
    )
    assert ('error="invalid_token"' in challenge) == (code != "token_missing")


def test_a_token_revoked_between_two_calls_stops_the_second(w: World) -> None:
    ben = w.enrol("ben")
    speaker = Speaker(w, "ben")
    speaker.ok("whoami")
    (token,) = w.ok("GET", f"P/agents/{ben}", token="owner")["agent"]["tokens"]
    w.ok("DELETE", f"P/agents/{ben}/tokens/{token['id']}", token="owner")
    reply = speaker.ask("tools/call", {"name": "whoami"})
    assert (reply.status, reply.code) == (401, "token_revoked")


def test_a_token_that_has_expired_is_refused(w: World) -> None:
    ben = w.enrol("ben")
    token = w.ok("POST", f"P/agents/{ben}/tokens", {"expires_in": 60}, token="owner")["token"]
    Speaker(w, token).ok("whoami")
    w.clock.advance(61)
    reply = Speaker(w, token).ask("ping")
    assert (reply.status, reply.code) == (401, "token_expired")


def test_a_role_that_is_taken_away_is_gone_at_the_next_call(w: World) -> None:
    ben = w.enrol("ben", ("developer", "qa"))
    speaker = Speaker(w, "ben")
    assert speaker.ok("whoami")["roles"] == ["developer", "qa"]
    w.ok("PATCH", f"P/agents/{ben}", {"roles": ["qa"]}, token="owner")
    assert speaker.ok("whoami")["roles"] == ["qa"]
    job = w.job(role="developer")
    refused = speaker.call("claim_job", job=job)["structuredContent"]
    assert refused["error"]["code"] == "wrong_role"


def test_a_credential_of_the_installation_belongs_to_no_project(w: World) -> None:
    for body, headers in MESSAGES.values():
        reply = Speaker(w, "owner").post(json.dumps(body), headers)
        assert (reply.status, reply.code) == (403, "forbidden")
        assert "token of an agent" in reply.body["hint"]


@pytest.fixture
def stranger(w: World) -> Speaker:
    w.ok("POST", "/v1/projects", {"id": "other", "title": "Other"}, token="owner")
    place = "/v1/projects/other"
    w.ok("POST", f"{place}/roles", {"key": "developer", "label": "D"}, token="owner")
    made = w.ok("POST", f"{place}/agents", {"label": "eve", "roles": ["developer"]}, token="owner")
    return Speaker(
        w, made["token"], modern=True, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}
    )


def test_an_agent_of_another_project_sees_nothing_of_this_one(w: World, stranger: Speaker) -> None:
    job = w.job()
    fence = w.claim(job)
    body = {"fence": fence, "kind": "gate", "prompt": "go on?"}
    asked = w.ok("POST", f"P/jobs/{job}/decisions", body)["decision"]["id"]
    calls: dict[str, dict[str, Any]] = {
        "get_job": {"job": job},
        "claim_job": {"job": job},
        "complete_job": {"job": job, "fence": fence},
        "record_event": {"job": job, "type": "custom.x"},
        "list_decisions": {"decision": asked},
        "answer_decision": {"decision": asked, "answer": "approve"},
    }
    for tool, arguments in calls.items():
        answer = stranger.call(tool, **arguments)["structuredContent"]
        assert answer["error"]["code"] == "not_found", (tool, answer)
    assert stranger.ok("list_jobs", role=[], status=[])["jobs"] == []
    for method, params in (
        ("resources/read", {"uri": f"interlock://jobs/{job}"}),
        ("prompts/get", {"name": "review", "arguments": {"job": job}}),
        ("tasks/get", {"taskId": asked}),
        ("tasks/cancel", {"taskId": asked}),
    ):
        assert "error" in stranger.ask(method, params).body, method
    assert w.ok("GET", f"P/decisions/{asked}")["decision"]["state"] == "open"


def test_a_viewer_reads_and_changes_nothing(w: World) -> None:
    job = w.job()
    viewer = Speaker(w, w.ok("POST", "P/owners", {"label": "v", "rights": "viewer"}, token="owner")["token"])
    assert viewer.ok("get_job", job=job)["job"]["id"] == job
    for tool, more in (
        ("publish_job", {"summary": "x", "role": "qa"}),
        ("claim_job", {"job": job}),
        ("set_job_status", {"job": job, "action": "cancel", "reason": "x"}),
        ("edit_job", {"job": job, "version": 1, "summary": "x"}),
    ):
        assert viewer.call(tool, **more)["structuredContent"]["error"]["code"] == "forbidden"


def test_a_stopped_agent_is_told_and_claims_nothing(w: World) -> None:
    ben = w.enrol("ben")
    job = w.job()
    w.ok("POST", f"P/agents/{ben}/stop", {"reason": "wrong branch"}, token="owner")
    speaker = Speaker(w, "ben")
    for answer in (
        speaker.ok("whoami"),
        speaker.call("claim_next")["structuredContent"],
        speaker.call("claim_job", job=job)["structuredContent"],
    ):
        assert "stop_requested" in [notice["code"] for notice in answer["notices"]]
    assert speaker.call("claim_next")["structuredContent"]["error"]["code"] == "stop_requested"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
def test_only_post_is_spoken(w: World, method: str) -> None:
    reply = Speaker(w).post("", {"content-type": "application/json"}, method)
    assert (reply.status, reply.headers["allow"], reply.code) == (405, "POST", "method_not_allowed")


def test_pages_of_other_sites_are_refused_before_anything_else(w: World) -> None:
    body, headers = MESSAGES["call"]
    for origin, status in (
        ("https://evil.example", 403),
        ("https://bus.test", 200),
        ("http://localhost:3000", 200),
    ):
        reply = Speaker(w).post(json.dumps(body), {**headers, "host": "bus.test", "origin": origin})
        assert reply.status == status, origin


def test_what_cannot_be_read_is_refused_before_the_credential_and_as_what_it_is(w: World) -> None:
    nobody, kind = Speaker(w, None), {"content-type": "application/json"}
    for body in ("", "{", '{"a": 1, "a": 2}', "NaN", "[" * 70 + "]" * 70):
        reply = nobody.post(body, kind)
        assert (reply.status, reply.body["error"]["code"], reply.body["id"]) == (400, -32700, None)
    assert nobody.post("{}", {"content-type": "text/plain"}).status == 415
    assert nobody.post('{"a": "' + "x" * 1_000_001 + '"}', kind).status == 413
