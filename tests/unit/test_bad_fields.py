"""Every field of every body: wrong types, unknown and missing fields, both sides of each boundary.

The cases are made from the documented schemas: what a schema refuses must be refused, naming the field, and what it
accepts must not be called malformed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.unit.checked import DOCUMENT, CheckedWorld, _inlined, checked
from tests.unit.requests import WITH_BODY, Sent, arranged, upload_form

from interlock.edges.operations import OPERATIONS

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 30, 2**53 + 1, 10**999, 1.5, 1e308, "", " ", "x", "1", "null", "\0", "\ud800", "é" * 3_000,
    "2026-13-01T00:00:00Z", "high", "custom.x", [], [None], [1], ["x"], [""], [[]], [{}], ["x"] * 300, {}, {"x": 1}, {"": None}, {"a": {"b": []}},
)  # fmt: skip

SEMANTIC = {
    "must not be blank",
    "is a reserved word",
    "send at least one field",
    "name exactly one of project, role, agent",
    "is required; for an upload: name, size and sha256",
    "is required for an upload",
    "name at least one of tokens, usd, seconds",
    "a question says its blocker",
    "a question says its risk",
}
"""What the schemas do not say, and the bus checks."""
ALTERNATIVES = {"project", "role", "agent"}
"""Fields of a pause, of which a body names one."""
UPLOAD = {"name", "size", "sha256"}
"""Fields of an attach that announces an upload, in the place of those of a reference."""
SCHEMA = {"schema"}
"""What a question has in the place of options."""


def schema_of(operation: str) -> dict[str, Any]:
    """The documented schema of the body, references replaced."""
    row = OPERATIONS[operation]
    content = DOCUMENT["paths"][row.path][row.method.lower()]["requestBody"]["content"]
    return dict(_inlined(content["application/json"]["schema"]))


def objects(schema: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every closed object of a schema, and where it stands; lists are entered at their first item."""
    for choice in schema.get("anyOf", [schema]):
        if choice.get("additionalProperties") is False:
            yield path, choice
            for name, part in choice.get("properties", {}).items():
                yield from objects(part, (*path, name))
        elif choice.get("type") == "array":
            yield from objects(choice["items"], (*path, 0))


def fields(operation: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every field of a body, nested ones too, with its schema."""
    for path, closed in objects(schema_of(operation)):
        for name, part in closed["properties"].items():
            yield (*path, name), part


def changed(body: Any, path: Path, value: Any) -> Any:
    """The body with another value at the path."""
    if not path:
        return value
    made = copy.deepcopy(body)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return made


def without(body: Any, path: Path) -> Any:
    made = copy.deepcopy(body)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner.pop(path[-1], None)
    return made


def pointer(path: Path) -> str:
    return "/".join(map(str, path))


class Bench:
    """A request that is accepted, sent with other bodies; the world is made anew when one was accepted."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.fresh()

    def fresh(self) -> None:
        self.w: CheckedWorld = checked()
        self.sent: Sent = arranged(self.w, self.operation)
        self.before = self.w.everything()

    def body(self, path: Path, value: Any) -> Any:
        """The accepted body with another value at the path."""
        made = changed(self.sent.body, path, value)
        if self.operation in ("projects.pause", "projects.resume") and path[0] in ALTERNATIVES:
            made = {name: part for name, part in made.items() if name == path[0] or name not in ALTERNATIVES}
        if self.operation == "jobs.attach" and path[0] in UPLOAD:
            made = {**upload_form(b"it works"), "fence": self.sent.body["fence"], path[0]: value}
        if self.operation == "decisions.ask" and path[0] in SCHEMA:
            made["options"] = None
        return made

    def send(self, body: Any) -> tuple[int, dict[str, Any]]:
        reply = self.sent.by(self.w, body=body)
        if reply.status < 300:
            self.fresh()
        else:
            assert self.w.everything() == self.before, "a refused call has written"
        return reply.status, reply.body


@pytest.mark.parametrize("operation", WITH_BODY)
def test_the_request_that_is_accepted_sends_every_field(operation: str) -> None:
    """Otherwise the tests below would change fields of bodies that are not there."""
    bench = Bench(operation)
    for path, _ in fields(operation):
        if path[0] in (
            "parent",
            "not_before",
            "session",
            "heartbeat_seconds",
            "lease_seconds",
            *ALTERNATIVES,
            *UPLOAD,
            *SCHEMA,
        ):
            continue  # alternatives, and plain ones that are set where they are tested
        inner = bench.sent.body
        for step in path:
            assert isinstance(inner, list) or step in inner, f"{operation} does not send {pointer(path)}"
            inner = inner[step]


@pytest.mark.parametrize("operation", WITH_BODY)
def test_wrong_types_and_values(operation: str) -> None:
    bench = Bench(operation)
    for path, schema in fields(operation):
        validator = Draft202012Validator(schema)
        for value in VALUES:
            status, body = bench.send(bench.body(path, value))
            right = validator.is_valid(value)
            at = [error for error in body.get("errors", ()) if error["path"].startswith(pointer(path))]
            case = (operation, pointer(path), repr(value)[:60], status, body.get("code"), body.get("errors"))
            if right:
                assert status < 300 or body["code"] not in ("invalid", "unknown_field") or _semantic(body), (
                    case
                )
            else:
                assert status in (413, 422), case
                assert at or status == 413, case


def _semantic(body: dict[str, Any]) -> bool:
    return bool(body["errors"]) and all(
        error["message"] in SEMANTIC
        or any(word in error["message"] for word in ("time", "must be", "review"))
        or (error["path"], error["message"]) == ("fence", "is required")
        for error in body["errors"]
    )


@pytest.mark.parametrize("operation", WITH_BODY)
def test_unknown_fields_are_refused_everywhere(operation: str) -> None:
    bench = Bench(operation)
    for path, _ in objects(schema_of(operation)):
        for name in ("nonsense", "Reason", "fence ", "a/b~c", "é", "\ud800", "x" * 5_000, "__class__", ""):
            if name == "\ud800" and path:
                continue  # its own test below: pydantic cannot name it
            status, body = bench.send(changed(bench.sent.body, (*path, name), 1))
            assert (status, body["code"]) == (422, "unknown_field"), (path, name, body)
            assert len(body["errors"]) == 1
            assert len(body["errors"][0]["path"]) < 300
            assert body["errors"][0]["message"] == "is not a known field"


@pytest.mark.parametrize("operation", WITH_BODY)
def test_lone_surrogates_in_names_are_refused_at_any_depth(operation: str) -> None:
    bench = Bench(operation)
    for path, _ in objects(schema_of(operation)):
        status, body = bench.send(changed(bench.sent.body, (*path, "\ud800"), 1))
        assert status == 422, (path, body)


@pytest.mark.parametrize("operation", WITH_BODY)
def test_missing_fields_are_named(operation: str) -> None:
    bench = Bench(operation)
    for path, closed in objects(schema_of(operation)):
        for name in closed.get("required", ()):
            status, body = bench.send(without(bench.sent.body, (*path, name)))
            assert (status, body["code"]) == (422, "invalid")
            assert body["errors"] == [{"path": pointer((*path, name)), "message": "is required"}]
    required = schema_of(operation).get("required", ())
    status, body = bench.send({})
    if required:
        assert (status, {error["path"] for error in body["errors"]}) == (422, set(required))


@pytest.mark.parametrize("operation", WITH_BODY)
def test_a_body_is_an_object(operation: str) -> None:
    bench = Bench(operation)
    for value in (None, True, 0, 1.5, "x", [], [{}]):
        reply = bench.sent.by(
            bench.w,
            body=None,
            raw=repr(value).replace("None", "null").replace("True", "true").replace("'", '"'),
        )
        assert (reply.status, reply.code) == (422, "invalid")
        assert "object" in reply.body["errors"][0]["message"]


@pytest.mark.parametrize("operation", WITH_BODY)
def test_both_sides_of_each_boundary(operation: str) -> None:
    bench = Bench(operation)
    for path, schema in fields(operation):
        for choice in schema.get("anyOf", [schema]):
            for right, wrong in _boundaries(choice):
                status, body = bench.send(bench.body(path, wrong))
                assert (status, body["code"]) == (422, "invalid"), (path, repr(wrong)[:80], body)
                assert any(error["path"].startswith(pointer(path)) for error in body["errors"])
                status, body = bench.send(bench.body(path, right))
                assert status < 300 or body["code"] not in ("invalid", "unknown_field", "too_large"), (
                    path,
                    repr(right)[:80],
                    body,
                )


def _boundaries(schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """(a value just inside, a value just outside) pairs of a schema."""
    if "maximum" in schema:
        yield schema["maximum"], schema["maximum"] + 1
    if "minimum" in schema:
        yield schema["minimum"], schema["minimum"] - 1
    letter = "custom." if schema.get("pattern", "").startswith("^custom") else ""
    if "maxLength" in schema:
        longest = schema["maxLength"]
        yield letter + "x" * (longest - len(letter)), letter + "x" * (longest + 1 - len(letter))
    if "maxItems" in schema:
        yield _items(schema, schema["maxItems"]), _items(schema, schema["maxItems"] + 1)
    if schema.get("minItems"):
        yield _items(schema, schema["minItems"]), []
    if "enum" in schema and schema.get("type") == "string":
        yield schema["enum"][-1], schema["enum"][-1].upper()


def _items(schema: dict[str, Any], count: int) -> list[Any]:
    """So many small items of a list; those of a plan have names of their own."""
    of = {
        ("type", "uri"): {"type": "t", "uri": "u"},
        ("id",): {"id": "job_x"},
        ("description", "kind"): {"kind": "bug", "description": "d"},
        ("role", "summary"): {"role": "qa", "summary": "s"},
        ("ref", "role", "summary"): {"role": "qa", "summary": "s", "ref": "r"},
        (): "qa",
    }
    item = of[tuple(sorted(schema["items"].get("required", ())))]
    if isinstance(item, dict) and "ref" in item:
        return [{**item, "ref": f"r{number}"} for number in range(count)]
    return [item] * count
