"""A world whose every answer is judged: by the schema that OpenAPI promises, and by what all answers have in common.

What is judged against is the generated document; tests/meta/test_docs.py says that docs/openapi.json is the same.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from tests.sim.copies import Template, all_blobs
from tests.sim.world import Reply, World, route, world

from interlock.edges import openapi
from interlock.edges.operations import OPERATIONS
from interlock.errors import CODES

DOCUMENT = json.loads(json.dumps(openapi.document()))
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PROBLEM = "application/problem+json"
ALONE = {"downstream": [], "downstream_more": False}
"""What `GET job` says beside, of a job that nobody waits for."""
_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("date-time")
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or TIME.fullmatch(value) is not None


@cache
def _validator(operation: str | None, status: int) -> tuple[str, Draft202012Validator]:
    """(content type, validator) of an answer. An answer that the document does not know is an error."""
    if operation is None:
        assert status in (404, 405), f"{status} outside every operation"
        answer: dict[str, Any] = DOCUMENT["components"]["responses"][str(status)]
    else:
        row = OPERATIONS[operation]
        answers = DOCUMENT["paths"][row.path][row.method.lower()]["responses"]
        assert str(status) in answers, f"{operation} does not document {status}"
        answer = answers[str(status)]
        if "$ref" in answer:
            answer = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    ((kind, content),) = answer["content"].items()
    return kind, Draft202012Validator(_inlined(content["schema"]), format_checker=_FORMATS)


def _inlined(schema: Any) -> Any:
    """The schema with every reference replaced by what it names (none is recursive): validation is much faster so."""
    if isinstance(schema, list):
        return [_inlined(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return {name: _inlined(part) for name, part in schema.items()}


def judge(operation: str | None, reply: Reply) -> None:
    """Fail unless the answer is one that the document promises."""
    kind, validator = _validator(operation, reply.status)
    assert reply.headers["content-type"] == kind
    assert reply.headers["x-request-id"] == "test"
    assert reply.headers["cache-control"] == "no-store"
    for error in validator.iter_errors(reply.body):
        raise AssertionError(f"{operation} {reply.status} at {list(error.path)}: {error.message[:300]}")
    if kind == PROBLEM:
        _judge_problem(reply)


def _judge_problem(reply: Reply) -> None:
    body, code = reply.body, CODES[reply.body["code"]]
    assert body["type"] == f"urn:interlock:error:{body['code']}"
    assert body["status"] == reply.status == code.status
    assert body["title"] == code.title
    assert body["retryable"] is code.retryable
    assert body["request_id"] == "test"
    assert body["detail"].strip()
    assert body["hint"].strip()
    assert "Traceback" not in json.dumps(body)
    assert all(error["message"] for error in body["errors"])
    assert ("www-authenticate" in reply.headers) == (reply.status == 401)
    assert ("allow" in reply.headers) == (reply.status == 405)
    if reply.status in (429, 503):
        assert int(reply.headers["retry-after"]) >= 1


class CheckedWorld(World):
    """The world of tests/sim whose requests are judged as they are answered."""

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        reply = super().call(method, path, body, **more)
        whole = "/v1/projects/default" + path[1:] if path.startswith("P") else path
        judge(route(method, whole)[0], reply)
        return reply

    def refused(self, code: str, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        """A request that must be refused with this code and leave everything as it was."""
        before = self.everything()
        reply = self.call(method, path, body, **more)
        assert reply.status >= 400, f"accepted: {reply.body}"
        assert reply.code == code, reply.body
        assert self.everything() == before, "a refused call has written"
        return reply

    def everything(self) -> tuple[Any, ...]:
        """All that the store holds: items, changes, messages, names of blobs."""
        tables = self.engine.engine.read(
            lambda database: [
                database.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3").fetchall()
                for name in ("items", "changes", "messages")
            ]
        )
        return (*tables, sorted(all_blobs(self.engine)))

    def bare(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        """A request whose answer nobody judges, for those that go through a broken store."""
        return super().call(method, path, body, **more)

    def viewer(self, name: str = "viewer") -> str:
        """An owner of the project with viewer rights; its id."""
        return self.person(name, rights="viewer")

    def person(self, name: str, *, rights: str = "owner", path: str = "P/owners") -> str:
        """Another owner; its id. Requests name it by ``token=name``."""
        made = self.ok("POST", path, {"label": name, "rights": rights}, token="owner")
        self.agents[name] = made["token"]
        return str(made["owner"]["id"])

    def project(self, name: str = "other", roles: tuple[str, ...] = ("developer",)) -> str:
        """Another project with roles; its path."""
        self.ok("POST", "/v1/projects", {"id": name, "title": name.capitalize()}, token="owner")
        for role in roles:
            self.ok("POST", f"/v1/projects/{name}/roles", {"key": role, "label": role}, token="owner")
        return f"/v1/projects/{name}"

    def enrol_in(self, path: str, name: str, roles: tuple[str, ...] = ("developer",)) -> str:
        """An agent of another project; its id."""
        made = self.ok("POST", f"{path}/agents", {"label": name, "roles": list(roles)}, token="owner")
        self.agents[name] = made["token"]
        return str(made["agent"]["id"])

    def job_in(self, status: str, **fields: Any) -> tuple[str, int]:
        """A job that the world's agent published, and worked on as far as this status; (id, fence).

        The fence is 1 for jobs that nobody ever held.
        """
        if status == "pending":
            fields.setdefault("not_before", "2027-01-01T00:00:00Z")
        job = self.job(**fields)
        if status in ("pending", "published"):
            return job, 1
        if status == "cancelled":
            self.ok("POST", f"P/jobs/{job}/cancel", {"reason": "not wanted"}, token="owner")
            return job, 1
        fence = self.claim(job)
        way = {
            "in_progress": (),
            "blocked": ("block",),
            "unblocked": ("block", "unblock"),
            "completed": ("complete",),
            "failed": ("fail",),
        }[status]
        for verb in way:
            body = {"result": {"summary": "done"}} if verb == "complete" else {"reason": f"to {verb}"}
            self.ok("POST", f"P/jobs/{job}/{verb}", {"fence": fence, **body})
        return job, fence

    def types(self, job: str) -> list[str]:
        """The types of a job's events, oldest first, as its owner reads them."""
        self.dispatch()
        found = self.ok("GET", f"P/jobs/{job}/events", token="owner", query={"limit": 1_000})
        assert "incomplete" not in found
        return [event["type"] for event in found["items"]]


def judged(made: World) -> CheckedWorld:
    """A world, with its answers judged."""
    return CheckedWorld(made.bus, made.clock, made.engine, made.owner, made.agent, made.agents)


def checked(seed: int = 0, **more: Any) -> CheckedWorld:
    """A fresh world whose answers are judged."""
    return judged(world(seed, **more))


def copied(template: Template) -> CheckedWorld:
    """A copy of a prepared world whose answers are judged."""
    return judged(template.copy())
