"""MCP on a real bus, over HTTP as any client speaks it: a whole job in both eras, a `kill -9` in between."""

import http.client
import itertools
import json
from urllib.parse import urlsplit

import pytest
from tests.acceptance.cli_bus import running_bus

from interlock.cli.demo import crew

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    """A client of one era; each request on a connection of its own, as nothing is remembered between them."""

    ids = itertools.count(1)

    def __init__(self, url, token, *, modern):
        self.place, self.token, self.modern = urlsplit(url), token, modern

    def send(self, method="POST", message=None, headers=None):
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=30)
        sent = {"Content-Type": "application/json", **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, "/mcp", None if message is None else json.dumps(message), sent)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None
        finally:
            connection.close()

    def ask(self, method, **params):
        headers = {"MCP-Protocol-Version": "2025-11-25"}
        if self.modern:
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
            headers |= {"Mcp-Name": params["name"]} if "name" in params else {}
            params["_meta"] = META
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        status, _, body = self.send(message=message, headers=headers)
        assert status == 200, body
        assert body["id"] == message["id"]
        return body["result"]

    def tool(self, name, *, refused=False, **arguments):
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert bool(result.get("isError")) == refused, result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("mcp")) as running:
        yield running


@pytest.mark.parametrize("modern", [True, False], ids=["2026-07-28", "2025-11-25"])
def test_a_job_goes_its_whole_way(bus, modern):
    ada = Client(bus.url, bus.greeting["agent_token"], modern=modern)
    names = [tool["name"] for tool in ada.ask("tools/list")["tools"]]
    assert names[:4] == ["whoami", "list_jobs", "get_job", "claim_next"]
    made = ada.tool("publish_job", summary="Paint the door", role="qa", requires=["report"])["job"]
    taken = ada.tool("claim_next", roles=["qa"], heartbeat_seconds=30)
    assert taken["job"]["id"] == made["id"]
    held = {"job": made["id"], "fence": taken["claim"]["fence"]}
    assert [claim["job"] for claim in ada.tool("heartbeat")["claims"]] == [made["id"]]
    missing = ada.tool("complete_job", refused=True, **held)
    assert missing["error"]["code"] == "evidence_missing"
    ada.tool("attach_artifact", **held, type="report", uri="https://example.org/report")
    done = ada.tool("complete_job", **held, result={"summary": "Painted"})
    assert done["job"]["status"] == "completed"
    late = ada.tool("fail_job", refused=True, **held, reason="too late")
    assert late["error"]["code"] == "wrong_state"
    assert bus.job(made["id"])["result"]["summary"] == "Painted"


def test_a_decision_reaches_the_agent(bus):
    ada = Client(bus.url, bus.greeting["agent_token"], modern=False)
    job = bus.publish("Choose a colour")
    fence = ada.tool("claim_job", job=job)["claim"]["fence"]
    asked = ada.tool(
        "request_decision",
        job=job,
        fence=fence,
        kind="question",
        prompt="Which colour?",
        blocker="paint",
        risk="twice",
    )["decision"]
    bus.il("decide", asked["id"], "red")
    told = ada.tool("heartbeat")["notices"]
    assert [(notice["code"], notice["answer"]) for notice in told] == [("decision_answered", "red")]
    assert ada.tool("set_job_status", job=job, action="resume", fence=fence)["claim"]["fence"] == fence
    ada.tool("complete_job", job=job, fence=fence)


def test_what_is_no_call_is_refused_as_http(bus):
    ada = Client(bus.url, bus.greeting["agent_token"], modern=False)
    nobody = Client(bus.url, None, modern=False)
    status, headers, problem = nobody.send(message={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert (status, problem["code"]) == (401, "token_missing")
    assert "resource_metadata=" in headers["WWW-Authenticate"]
    for method in ("GET", "DELETE", "PUT"):
        status, headers, problem = ada.send(method)
        assert (status, headers["Allow"], problem["code"]) == (405, "POST", "method_not_allowed")
    status, _, body = ada.send(message={"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (status, body) == (202, None)
    status, _, body = ada.send(message=[{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    assert (status, body["error"]["code"]) == (400, -32600)
    status, _, problem = ada.send(
        message={}, headers={"Origin": "http://evil.example", "Host": "evil.example"}
    )
    assert (status, problem["code"]) == (403, "forbidden")


def test_a_call_repeated_after_a_crash_of_the_bus_has_one_effect(tmp_path):
    process, greeting = crew.start_bus(tmp_path / ".interlock", 0, tmp_path / "bus.log")
    try:
        ada = Client(greeting["url"], greeting["agent_token"], modern=True)
        call = {"summary": "Once", "role": "qa", "idempotency_key": "k-1"}
        first = ada.tool("publish_job", **call)["job"]["id"]
        process.kill()
        process.wait()
        process, greeting = crew.start_bus(tmp_path / ".interlock", 0, tmp_path / "bus.log")
        ada = Client(greeting["url"], greeting["agent_token"], modern=True)
        assert ada.tool("publish_job", **call)["job"]["id"] == first
        assert [job["id"] for job in ada.tool("list_jobs")["jobs"]] == [first]
        taken = ada.tool("claim_next", idempotency_key="k-2")
        assert ada.tool("claim_next", idempotency_key="k-2")["claim"]["fence"] == taken["claim"]["fence"]
    finally:
        crew.end(process)
