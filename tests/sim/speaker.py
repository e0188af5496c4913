"""A client of MCP in a world: messages through the real handler, in the way of 2026-07-28 or of the revisions before."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.world import Reply, World

from interlock.edges import runtime
from interlock.edges.mcp.revisions import CAPABILITIES, MODERN, NAMED, REVISION
from interlock.edges.mcp.serve import mcp_handler


def message(
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    modern: bool = False,
    capabilities: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """(a request, the headers that go with it)."""
    sent, headers = dict(params or {}), {"content-type": "application/json"}
    if modern:
        sent = {"_meta": {REVISION: MODERN, CAPABILITIES: dict(capabilities or {})}, **sent}
        headers |= {"mcp-protocol-version": MODERN, "mcp-method": method}
        name = sent.get(NAMED.get(method, ""))
        headers |= {"mcp-name": name} if isinstance(name, str) else {}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}, headers


@dataclass
class Speaker:
    """A client. ``token`` is as in :meth:`World.call`."""

    w: World
    token: str | None = "agent"
    modern: bool = False
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def post(
        self, body: bytes | str, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Reply:
        """What is answered to a body, whatever it is; the reply's body is None where nothing is said."""
        w = self.w
        runtime.use(w.bus)
        bearer = {"agent": w.agent, "owner": w.owner, **w.agents}.get(self.token or "", self.token)
        event = {
            "version": "2.0",
            "rawPath": "/mcp",
            "rawQueryString": "",
            "headers": {**(headers or {}), **({"authorization": f"Bearer {bearer}"} if bearer else {})},
            "requestContext": {
                "http": {"method": method, "path": "/mcp"},
                "requestId": "test",
                "domainName": "bus.test",
            },
            "body": base64.b64encode(body).decode() if isinstance(body, bytes) else body,
            "isBase64Encoded": isinstance(body, bytes),
        }
        answer = mcp_handler(event, None)
        return Reply(
            answer["statusCode"], answer["headers"], json.loads(answer["body"]) if answer["body"] else None
        )

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Reply:
        """One request."""
        body, headers = message(method, params, modern=self.modern, capabilities=self.capabilities)
        return self.post(json.dumps(body), headers)

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request that must succeed."""
        reply = self.ask(method, params)
        assert "result" in reply.body, (reply.status, reply.body)
        found: dict[str, Any] = reply.body["result"]
        return found

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, a refusal too."""
        return self.result("tools/call", {"name": tool, "arguments": arguments})

    def ok(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What a tool answers that must not refuse."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        found: dict[str, Any] = result["structuredContent"]
        return found
