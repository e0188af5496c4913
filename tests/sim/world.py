"""A whole bus in one process: in-memory store, fake clock, seeded randomness, requests through the real handlers.

Time moves only when a test says so; the dispatcher and the consumers run only when a test pumps them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from interlock.app import bootstrap, dispatch
from interlock.app.call import Bus
from interlock.app.consumers import CONSUMERS
from interlock.app.identity import new_token
from interlock.domain import ids
from interlock.edges import runtime
from interlock.edges.http import handler_for, not_found_handler
from interlock.edges.operations import OPERATIONS
from interlock.store.embedded import open_memory
from interlock.store.ports import Store

START = 1_796_072_400_000  # 2026-11-30T21:00:00Z
_HANDLERS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {}
_ROUTES = [(row.method, row.path.split("/"), row.name) for row in OPERATIONS.values()]


@dataclass
class Reply:
    """An answer: status, headers, and the JSON body."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        return self.body.get("code") if isinstance(self.body, dict) else None


@dataclass
class Clock:
    """Milliseconds that stand still."""

    now: int = START

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1_000)


@dataclass
class World:
    """A bus with an owner, a project `default` and one agent that holds every role."""

    bus: Bus
    clock: Clock
    engine: Any
    owner: str
    agent: str
    agents: dict[str, str] = field(default_factory=dict)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "agent",
        key: str | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | str | None = None,
        query: Any = None,
    ) -> Reply:
        """One request. ``token``: "agent", "owner", the name of an agent of :meth:`enrol`, a bearer text, or None."""
        runtime.use(self.bus)
        if path.startswith("P"):
            path = "/v1/projects/default" + path[1:]
        name, params = route(method, path)
        sent = {"content-type": "application/json", **(headers or {})}
        bearer = {"agent": self.agent, "owner": self.owner, **self.agents}.get(token or "", token)
        if bearer:
            sent["authorization"] = f"Bearer {bearer}"
        if key:
            sent["idempotency-key"] = key
        text = raw if raw is not None else None if body is None else json.dumps(body)
        event = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query if isinstance(query, str) else urlencode(query or {}, doseq=True),
            "headers": sent,
            "pathParameters": params,
            "requestContext": {
                "http": {"method": method, "path": path},
                "requestId": "test",
                "domainName": "bus.test",
            },
            "body": text.decode("latin-1") if isinstance(text, bytes) else text,
            "isBase64Encoded": False,
        }
        if isinstance(text, bytes):
            import base64

            event |= {"body": base64.b64encode(text).decode(), "isBase64Encoded": True}
        handler = not_found_handler if name is None else _handler(name)
        answer = handler(event, None)
        return Reply(answer["statusCode"], answer["headers"], json.loads(answer["body"]))

    def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """A request that must succeed; its body."""
        reply = self.call(method, path, body, **more)
        assert reply.status < 300, (reply.status, reply.body)
        return reply.body

    def enrol(self, name: str, roles: tuple[str, ...] = ("developer",), **more: Any) -> str:
        """Another agent; its id. Requests name it by ``token=name``."""
        made = self.ok("POST", "P/agents", {"label": name, "roles": list(roles), **more}, token="owner")
        self.agents[name] = made["token"]
        return made["agent"]["id"]

    def job(self, **fields: Any) -> str:
        """A published job; its id."""
        token = fields.pop("token", "agent")
        key = fields.pop("key", None)
        return self.ok(
            "POST", "P/jobs", {"summary": "work", "role": "developer", **fields}, token=token, key=key
        )["job"]["id"]

    def claim(self, job: str, token: str = "agent", **body: Any) -> int:
        """Claim; the fence."""
        return self.ok("POST", f"P/jobs/{job}/claim", body, token=token)["claim"]["fence"]

    def slot(self, job: str, data: bytes, kind: str = "log", **more: Any) -> tuple[str, str]:
        """An upload that is announced; (the artifact's id, the address that takes its bytes)."""
        announced = {"name": f"{kind}.txt", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        body = {"type": kind, **announced, **more.pop("body", {})}
        made = self.ok("POST", f"P/jobs/{job}/artifacts", body, **more)
        return made["artifact"]["id"], made["upload"]["url"]

    def put(self, url: str, data: bytes) -> None:
        """Upload to an address, without HTTP."""
        self.engine.blobs.put_at(url, [data])

    def uploaded(self, job: str, data: bytes = b"it works", kind: str = "log", **more: Any) -> str:
        """An upload that is complete and not yet verified; the artifact's id."""
        artifact, url = self.slot(job, data, kind, **more)
        self.put(url, data)
        return artifact

    def get(self, job: str) -> Any:
        """The job as its owner sees it."""
        return self.ok("GET", f"P/jobs/{job}", token="owner")["job"]

    def dispatch(self) -> int:
        """Run the dispatcher over everything that waits; how many records."""
        done = 0
        while changes := self.engine.feed.read(limit=100):
            dispatch.carry_out(self.bus, [dispatch.effects(change.new, self.clock()) for change in changes])
            self.engine.feed.acknowledge(changes)
            done += len(changes)
        return done

    def consume(self, *queues: str) -> int:
        """Handle every message of these queues (default: of all) that is due; how many."""
        done = 0
        for queue in queues or CONSUMERS:
            while messages := self.bus.store.queues.receive(queue):
                for message in messages:
                    CONSUMERS[queue](self.bus, message.body, message.receives)
                self.bus.store.queues.delete(queue, [message.receipt for message in messages])
                done += len(messages)
        return done

    def pump(self) -> None:
        """Dispatch and consume until nothing is due."""
        while self.dispatch() + self.consume():
            pass


def _handler(name: str) -> Callable[[Any, Any], dict[str, Any]]:
    if name not in _HANDLERS:
        _HANDLERS[name] = handler_for(name)
    return _HANDLERS[name]


def route(method: str, path: str) -> tuple[str | None, dict[str, str]]:
    """The operation of a path, as API Gateway finds it."""
    parts = path.split("/")
    for verb, template, name in _ROUTES:
        if verb == method and len(template) == len(parts):
            params = {}
            for ours, theirs in zip(template, parts, strict=True):
                if ours.startswith("{") and theirs:
                    params[ours[1:-1]] = unquote(theirs)
                elif ours != theirs:
                    break
            else:
                return name, params
    return None, {}


def world(seed: int = 0, *, wrap: Callable[[Store], Store] = lambda store: store) -> World:
    """A fresh bus."""
    clock, rng = Clock(), random.Random(seed)
    engine = open_memory(clock)
    bus = Bus(wrap(engine.store), clock, rng.randbytes, lambda _seconds: None)
    plain = Bus(engine.store, clock, rng.randbytes, lambda _seconds: None)
    tokens = []
    for kind, scope, prefix in (("owner", "installation", "own"), ("agent", "default", "agt")):
        identity = ids.ulid(prefix, clock.now, rng.randbytes(10))
        tokens.append(new_token(plain, kind, scope, identity, now=clock.now)[1])
    bootstrap.ensure_local(plain, *tokens)
    return World(bus, clock, engine, *tokens)
