"""Tasks for the conformance suite: how one stands follows from the time, so that nothing has to run meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interlock.edges.mcp.offers import Content, Context, Json, Outcome, Started
from interlock.edges.mcp.revisions import TASKS
from interlock.edges.mcp.rpc import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY, RpcError

Arguments = Mapping[str, Any]
Run = Callable[[Arguments, Context], Outcome]
LONGEST = 3.0
"""Seconds that a call may take for a client without tasks."""


def declared(context: Context) -> bool:
    """Whether the client knows tasks."""
    return context.spoken.declares("extensions", TASKS)


def require(context: Context) -> None:
    """Refuse a client that does not know tasks."""
    if not declared(context):
        raise RpcError(
            MISSING_CAPABILITY, "this is a task", {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class _Task:
    begun: float
    due: float
    result: Json | None = None
    error: Json | None = None
    asked: dict[str, Json] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    finish: Callable[[Mapping[str, Any]], Json] | None = None
    changed: float = 0.0
    cancelled: bool = False

    def status(self) -> str:
        if self.cancelled:
            return "cancelled"
        if self.asked:
            return "input_required"
        if time.time() < self.due:
            return "working"
        return "failed" if self.error else "completed"


class Store:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}

    def start(
        self,
        seconds: float,
        result: Json | None = None,
        *,
        error: Json | None = None,
        asked: Mapping[str, Json] | None = None,
        finish: Callable[[Mapping[str, Any]], Json] | None = None,
    ) -> Json:
        """A new task, as it stands: done after ``seconds``, or when it has its answers."""
        name, now = uuid.uuid4().hex, time.time()
        self._tasks[name] = _Task(
            now, now + seconds, result, error, dict(asked or {}), finish=finish, changed=now
        )
        return self._standing(name, "working")

    def _standing(self, name: str, status: str) -> Json:
        task = self._tasks[name]
        return {
            "taskId": name,
            "status": status,
            "createdAt": _moment(task.begun),
            "lastUpdatedAt": _moment(task.changed),
            "ttlMs": 3_600_000,
            "pollIntervalMs": 200,
        }

    def get(self, task: str, context: Context) -> Json:
        found = self._found(task)
        status = found.status()
        standing = self._standing(task, status)
        if status == "input_required":
            standing["inputRequests"] = found.asked
        elif status == "completed":
            standing["result"] = found.finish(found.answers) if found.finish else found.result
        elif status == "failed":
            standing["error"] = found.error
        return standing

    def update(self, task: str, responses: Mapping[str, Any], context: Context) -> None:
        found = self._found(task)
        for name, answer in responses.items():
            if found.asked.pop(name, None) is not None:
                found.answers[name], found.changed = answer, time.time()

    def cancel(self, task: str, context: Context) -> None:
        found = self._found(task)
        if found.status() in ("working", "input_required"):
            found.cancelled, found.changed = True, time.time()

    def _found(self, task: str) -> _Task:
        if task not in self._tasks:
            raise RpcError(INVALID_PARAMS, "there is no such task")
        return self._tasks[task]


def _said(text: str, *, is_error: bool = False) -> Content:
    return Content([{"type": "text", "text": text}], is_error=is_error)


def _started(standing: Json) -> Started:
    return Started({"resultType": "task", **standing})


def _form(message: str, name: str = "name", kind: str = "string") -> Json:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def runs(store: Store) -> Mapping[str, Run]:
    """The suite's tools that make tasks."""

    def greet(arguments: Arguments, _: Context) -> Outcome:
        return _said(f"Hello, {arguments.get('name')}!")

    def slow(arguments: Arguments, context: Context) -> Outcome:
        seconds = float(arguments.get("seconds") or 0)
        done = _said(f"Computed after {arguments.get('seconds', 0)}s")
        if declared(context) and seconds:
            return _started(store.start(seconds, done.as_result()))
        time.sleep(min(seconds, LONGEST))  # the suite wants to see this client wait
        return done

    def failing(_: Arguments, context: Context) -> Outcome:
        require(context)
        return _started(store.start(0.3, _said("boom", is_error=True).as_result()))

    def broken(_: Arguments, context: Context) -> Outcome:
        require(context)
        return _started(store.start(0.3, error={"code": INTERNAL_ERROR, "message": "internal"}))

    def confirm(arguments: Arguments, context: Context) -> Outcome:
        require(context)

        def finish(answers: Mapping[str, Any]) -> Json:
            return _said(
                f"deleted {arguments.get('filename')}: {answers['confirm'].get('action')}"
            ).as_result()

        asked = {"confirm": _form("Delete?", "confirm", "boolean")}
        return _started(store.start(0, asked=asked, finish=finish))

    def several(_: Arguments, context: Context) -> Outcome:
        require(context)

        def finish(answers: Mapping[str, Any]) -> Json:
            return _said(f"both: {','.join(sorted(answers))}").as_result()

        return _started(store.start(0, asked={"q1": _form("One?"), "q2": _form("Two?")}, finish=finish))

    return {
        "greet": greet,
        "slow_compute": slow,
        "failing_job": failing,
        "protocol_error_job": broken,
        "confirm_delete": confirm,
        "multi_input": several,
    }


def _strings(**types: str) -> Json:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}


SCHEMAS: Mapping[str, Json] = {
    "greet": _strings(name="string"),
    "slow_compute": _strings(seconds="number", label="string"),
    "confirm_delete": _strings(filename="string"),
}
