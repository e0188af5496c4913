"""The roles against what the use cases really call: nothing called is forbidden, nothing granted is idle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
from infra.template import logical_id
from tests.meta import stack
from tests.meta.stack import FUNCTIONS, Grant, grants
from tests.sim import world as worlds
from tests.sim.world import World, world

from interlock.app import bootstrap, dispatch
from interlock.edges.operations import OPERATIONS
from interlock.errors import InterlockError
from interlock.store import keys
from interlock.store.ports import Check, Delete, Item, Key, Message, Page, Put, Query, Store, Update

ACTIONS = {
    Put: "dynamodb:PutItem",
    Update: "dynamodb:UpdateItem",
    Delete: "dynamodb:DeleteItem",
    Check: "dynamodb:ConditionCheckItem",
}
QUEUES = {"lease": "Lease.Arn", "lease-dead": "LeaseDead.Arn", "dispatch-dead": "DispatchDead.Arn"}


class Use(NamedTuple):
    """One call of a function, as IAM sees it."""

    function: str
    action: str
    resource: str
    partition: str = ""


@dataclass
class Spy:
    """A store that notes which function calls what. Wraps any store; the function is named by :meth:`during`."""

    store: Store
    function: str | None = None
    uses: set[Use] = field(default_factory=set)

    @contextmanager
    def during(self, function: str) -> Iterator[None]:
        before, self.function = self.function, function
        try:
            yield
        finally:
            self.function = before

    def note(self, action: str, resource: str, partition: str = "") -> None:
        if self.function is not None:
            self.uses.add(Use(self.function, action, resource, partition))

    def port(self) -> Store:
        return Store(SpyTable(self), SpyQueues(self), SpyBlobs(self))


@dataclass
class SpyTable:
    spy: Spy

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self.spy.note("dynamodb:GetItem", "Table.Arn", key.pk)
        return self.spy.store.table.get(key, consistent=consistent)

    def batch_get(self, wanted: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        for key in wanted:
            self.spy.note("dynamodb:BatchGetItem", "Table.Arn", key.pk)
        return self.spy.store.table.batch_get(wanted, consistent=consistent)

    def query(self, query: Query) -> Page:
        resource = f"Table.Arn/index/index{query.index}" if query.index else "Table.Arn"
        self.spy.note("dynamodb:Query", resource, query.pk)
        return self.spy.store.table.query(query)

    def write(self, write: Any) -> Item:
        self.spy.note(ACTIONS[type(write)], "Table.Arn", write.key.pk)
        return self.spy.store.table.write(write)

    def write_each(self, writes: Sequence[Any]) -> list[bool]:
        for write in writes:
            self.spy.note(ACTIONS[type(write)], "Table.Arn", write.key.pk)
        return self.spy.store.table.write_each(writes)

    def transact(self, parts: Sequence[Any]) -> None:
        for part in parts:
            self.spy.note(ACTIONS[type(part)], "Table.Arn", part.key.pk)
        self.spy.store.table.transact(parts)


class Late(SpyTable):
    """A reader that was too early to see the mark of the first owner."""

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        found = super().get(key, consistent=consistent)
        return None if key.sk == "FIRST" else found


@dataclass
class SpyQueues:
    spy: Spy

    def send(self, queue: str, messages: Any) -> None:
        self.spy.note("sqs:SendMessage", QUEUES[queue])
        self.spy.store.queues.send(queue, messages)

    def receive(self, queue: str, **more: Any) -> list[Message]:
        self.spy.note("sqs:ReceiveMessage", QUEUES[queue])
        return self.spy.store.queues.receive(queue, **more)

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        self.spy.note("sqs:DeleteMessage", QUEUES[queue])
        self.spy.store.queues.delete(queue, receipts)

    def depth(self, queue: str) -> int:
        self.spy.note("sqs:GetQueueAttributes", QUEUES[queue])
        return self.spy.store.queues.depth(queue)


@dataclass
class SpyBlobs:
    spy: Spy

    def put(self, key: str, data: bytes) -> None:
        self.spy.note("s3:PutObject", "Payloads.Arn/*")
        self.spy.store.blobs.put(key, data)

    def get(self, key: str) -> bytes | None:
        self.spy.note("s3:GetObject", "Payloads.Arn/*")
        return self.spy.store.blobs.get(key)


def large(seed: int) -> dict[str, str]:
    """A document that does not fit an item."""
    return {"text": random.Random(seed).randbytes(60_000).hex()}


REPORT = {"type": "report", "uri": "https://example.org/report"}


@dataclass
class Scene:
    """A bus on which every operation is carried out, in the ways that call the store differently."""

    w: World
    spy: Spy

    def run(self) -> None:
        self.people()
        self.life()
        self.large_documents()
        self.external_ids()
        self.board()
        self.timers()
        self.dead_letters()

    def pump(self) -> None:
        """Dispatcher and consumer as their functions run them; time stands still."""
        while True:
            with self.spy.during("Dispatch"):
                done = self.w.dispatch()
            with self.spy.during("TimerConsumer"):
                done += self.w.consume()
            if not done:
                return

    def owner(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return self.w.ok(method, path, body, token="owner", **more)

    def people(self) -> None:
        with self.spy.during("Bootstrap"):
            bootstrap.first_owner(self.w.bus)
            bootstrap.first_owner(self.w.bus, recover=True)
            with pytest.raises(InterlockError):  # of two at once, one loses
                bootstrap.first_owner(
                    replace(self.w.bus, store=replace(self.w.bus.store, table=Late(self.spy)))
                )
        self.w.ok("GET", "/health", token=None)
        self.w.ok("GET", "/openapi.json", token=None)
        self.w.call("GET", "/nowhere", token=None)
        for path in ("/v1/owners", "P/owners", "P/agents"):
            kind = path.rpartition("/")[2].removesuffix("s")
            fields = (
                {"label": "new", "rights": "viewer"} if kind == "owner" else {"label": "new", "roles": ["qa"]}
            )
            for key in (None, "k", "k"):
                identity = self.owner("POST", path, fields, key=key)[kind]["id"]
            one = f"{path}/{identity}"
            self.owner("GET", path)
            token = self.owner("POST", f"{one}/tokens", {"name": "second"}, key="t")["id"]
            rotated = self.owner("POST", f"{one}/tokens/{token}/rotate", {"grace_seconds": 0})["id"]
            self.owner("DELETE", f"{one}/tokens/{rotated}")
            if kind == "agent":
                self.owner("GET", one)
                self.owner("PATCH", one, {"label": "other"})
                self.owner("POST", "P/pause", {"agent": identity})
                self.owner("POST", "P/resume", {"agent": identity})
            self.owner("DELETE", one)
        for key in (None, "k", "k"):
            self.w.call("POST", "/v1/projects", {"id": "p2", "title": "Two"}, token="owner", key=key)
        self.owner("GET", "/v1/projects")
        self.owner("GET", "P")
        self.owner("PATCH", "P", {"title": "Other", "settings": {"cancel_overdue": True}})
        self.owner("POST", "P/roles", {"key": "extra", "label": "Extra"})
        self.owner("PATCH", "P/roles/extra", {"label": "More"})
        self.owner("GET", "P/roles")
        self.owner("DELETE", "P/roles/extra")
        self.owner("GET", "P/stats")
        self.w.ok("GET", "P/me")
        self.pump()

    def life(self) -> None:
        w = self.w
        job = w.job(key="create")
        w.job(key="create")
        w.job(parent=job)
        one = f"P/jobs/{job}"
        fence = w.claim(job)
        w.ok("GET", "P/me")
        w.ok("POST", f"{one}/events", {"type": "custom.note", "data": {"text": "x" * 2_000}})
        made = w.ok("POST", f"{one}/artifacts", {**REPORT, "fence": fence})["artifact"]
        for reading in ("", "/events", "/explain", f"/artifacts/{made['id']}"):
            w.clock.advance(600)  # a renewal is written when enough of the lease has passed
            w.ok("GET", one + reading)
        self.owner("GET", f"{one}/explain", query={"agent": w.agent.split(".")[1]})
        w.job(key="create")
        w.ok("POST", f"{one}/block", {"fence": fence, "reason": "stuck", "data": {"text": "x" * 2_000}})
        w.ok("POST", f"{one}/unblock", {"fence": fence, "reason": "free"})
        w.ok("POST", f"{one}/resume", {"fence": fence})
        w.ok("POST", "P/heartbeat", {"jobs": [{"id": job, "fence": fence}]})
        w.ok("POST", f"{one}/release", {"fence": fence})
        fence = w.claim(job)
        w.ok("POST", f"{one}/fail", {"fence": fence, "reason": "broken"})
        fence = w.ok("POST", f"{one}/restart", {})["claim"]["fence"]
        w.ok("POST", f"{one}/fail", {"fence": fence, "reason": "broken"})
        self.owner("POST", f"{one}/retry", {"max_retries": 5})
        fence = w.claim(job)
        self.owner("POST", f"{one}/stop", {"reason": "urgent", "then": "publish"})
        fence = w.claim(job)
        w.ok(
            "POST", f"{one}/complete", {"fence": fence, "result": {"summary": "done", "artifacts": [REPORT]}}
        )
        self.owner("POST", f"P/jobs/{w.job()}/cancel", {"reason": "enough"})
        self.pump()
        w.ok("GET", "P/events")
        w.ok("GET", f"{one}/events")
        # An agent that holds a job is retired: its job goes back.
        leaver = w.enrol("leaver")
        w.claim(w.job(), token="leaver")
        self.owner("DELETE", f"P/agents/{leaver}")
        self.pump()

    def large_documents(self) -> None:
        w = self.w
        job = w.job(context=large(1), key="large")
        w.job(context=large(1), key="large")  # a repeat reads what the first call stored
        one = f"P/jobs/{job}"
        version = w.ok("GET", one)["job"]["version"]
        w.ok("PATCH", one, {"context": large(2)}, headers={"if-match": f'"v{version}"'})
        w.ok("GET", one)
        fence = w.claim(job)
        w.ok("POST", f"{one}/artifacts", {**REPORT, "fence": fence, "metadata": {"note": "x" * 3_000}})
        w.ok(
            "POST",
            f"{one}/complete",
            {"fence": fence, "result": {"summary": "done", "data": large(3)["text"][:60_000]}},
        )
        for name in ("block", "release", "fail"):
            job = w.job(context=large(4), priority=40)
            w.ok("POST", f"P/jobs/{job}/artifacts", REPORT)
            fence = w.ok("POST", "P/claims", {"roles": ["developer"]}, key=f"next-{name}")["claim"]["fence"]
            w.ok("POST", "P/claims", {"roles": ["developer"]}, key=f"next-{name}")
            w.ok("POST", f"P/jobs/{job}/{name}", {"fence": fence, "reason": "why"})
            if name != "fail":
                self.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
        self.pump()

    def external_ids(self) -> None:
        w = self.w
        job = w.job(external_id="TICKET-1", context=large(5))
        w.ok("GET", "P/jobs", query={"external_id": "TICKET-1"})
        w.ok("POST", f"P/jobs/{job}/fail", {"fence": w.claim(job), "reason": "broken"})
        w.ok("POST", f"P/jobs/{job}/restart", {})
        self.owner("POST", f"P/jobs/{job}/cancel", {"reason": "enough"})
        again = w.job(external_id="TICKET-1")
        w.ok("POST", f"P/jobs/{again}/fail", {"fence": w.claim(again), "reason": "broken"})
        self.owner("POST", f"P/jobs/{again}/retry", {})
        self.owner("POST", f"P/jobs/{again}/cancel", {"reason": "enough"})

    def board(self) -> None:
        w = self.w
        for query in (
            {},
            {"status": "published"},
            {"role": "developer"},
            {"status": ["failed", "completed"]},
        ):
            w.ok("GET", "P/jobs", query=query)
        self.owner("POST", "P/pause", {"role": "qa"})
        self.owner("POST", "P/resume", {"role": "qa"})

    def timers(self) -> None:
        w = self.w
        held, late = w.job(), w.job(deadline="2026-12-01T00:00:00Z")
        w.job(not_before="2026-12-01T00:00:00Z")
        w.claim(held, lease_seconds=30)
        w.claim(late, lease_seconds=86_400)
        for _ in range(20):
            self.pump()
            w.clock.advance(900)
        self.pump()
        assert w.get(held)["status"] == "published"
        assert w.get(late)["status"] == "cancelled"

    def dead_letters(self) -> None:
        w = self.w
        job = w.job()
        w.claim(job, lease_seconds=30)
        head = w.engine.store.table.get(keys.head("default", "job", job))
        with self.spy.during("Dispatch"):
            dispatch.park(w.bus, head, "unreadable")
        w.clock.advance(100)
        body = {"kind": "lease", "project": "default", "job": job, "fence": 1, "hop": 1}
        retired = {"kind": "retire", "project": "default", "agent": "agt_gone"}
        w.engine.store.queues.send("lease-dead", [(body, 0), (retired, 0)])
        self.owner("GET", "/v1/dead-letters")
        for queue, there in (("dispatch-dead", 1), ("lease-dead", 2)):
            done = self.owner("POST", "/v1/dead-letters/redrive", {"queue": queue})
            assert (done["redriven"], done["failed"]) == (there, 0)
        w.claim(job)
        self.owner("POST", "P/repair", {"entity": f"job/{job}"})


@pytest.fixture(scope="module")
def scene() -> Scene:
    spies: list[Spy] = []

    def wrap(store: Store) -> Store:
        spies.append(Spy(store))
        return spies[0].port()

    made = Scene(world(wrap=wrap), spies[0])
    original = worlds._handler

    def tagged(name: str) -> Callable[[Any, Any], dict[str, Any]]:
        def handler(event: Any, context: Any) -> dict[str, Any]:
            with made.spy.during(logical_id(name)):
                return original(name)(event, context)

        return handler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "_handler", tagged)
        made.run()
    return made


def permits(grant: Grant, use: Use) -> bool:
    return grant.action == use.action and grant.resource == use.resource and grant.reaches(use.partition)


def test_the_scene_carries_out_every_operation_that_touches_the_store(scene: Scene) -> None:
    seen = {use.function for use in scene.spy.uses}
    silent = {logical_id(name) for name in ("system.openapi",)} | {"NotFound"}
    assert seen == FUNCTIONS.keys() - silent
    assert {logical_id(name) for name in OPERATIONS} - silent <= seen


@pytest.mark.parametrize("function", FUNCTIONS)
def test_everything_that_a_function_calls_is_granted(scene: Scene, function: str) -> None:
    granted = grants(stack.role_of(function))
    forbidden = {
        use
        for use in scene.spy.uses
        if use.function == function and not any(permits(g, use) for g in granted)
    }
    assert not forbidden


def fences(granted: list[Grant]) -> set[Grant]:
    """The grants, each reach of the fenced ones by itself."""
    return {part for g in granted for part in [Grant(g.action, g.resource, (key,)) for key in g.keys] or [g]}


def idle(granted: list[Grant], uses: set[Use]) -> set[Grant]:
    """Grants that no use needs."""
    return {part for part in fences(granted) if not any(permits(part, use) for use in uses)}


@pytest.mark.parametrize("role", {stack.role_of(name): None for name in FUNCTIONS})
def test_every_policy_of_a_role_is_used_by_its_functions(scene: Scene, role: str) -> None:
    members = {name for name in FUNCTIONS if stack.role_of(name) == role}
    uses = {use for use in scene.spy.uses if use.function in members}
    for name, document in stack.policies(role).items():
        granted = list(stack.grants_of_policy(document))
        assert name == "WriteLogs" or idle(granted, uses) < fences(granted), name


def test_every_grant_is_used_somewhere(scene: Scene) -> None:
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
    left = {
        grant
        for grant in idle(granted, scene.spy.uses)
        if grant.action not in lambdas and not (grant.action in consumer and grant.resource == "Lease.Arn")
    }
    assert not left
