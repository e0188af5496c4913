"""The reference documents are what the code says, say everything, and the tables that they come from agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from infra import docs
from infra.limits_text import INTERNAL, SECTIONS, UNITS
from jsonschema import Draft202012Validator
from tests.meta.stack import ROOT

from interlock.domain import limits
from interlock.domain.access import RIGHTS
from interlock.domain.lifecycle import STATUSES, TRANSITIONS
from interlock.edges import openapi
from interlock.edges.operations import OPERATIONS
from interlock.errors import CODES

PUBLISHED = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
PACKAGE = ROOT / "shared" / "interlock"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_document_is_current(name: str) -> None:
    assert name not in docs.stale(), "run `uv run python -m infra.docs --write`"


def test_nothing_but_what_is_made_stands_among_what_agents_read() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / docs.AGENTS).rglob("*") if path.is_file()}
    assert there == {name for name in docs.PAGES if name.startswith(docs.AGENTS)}


def test_the_served_description_is_the_published_one() -> None:
    assert json.loads(json.dumps(openapi.document())) == PUBLISHED


def test_every_code_is_explained_and_used() -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.name != "errors.py"
    )
    text = page("errors.md")
    for code, spec in CODES.items():
        assert f"| `{code}` | {spec.title} | {spec.hint}" in text
        assert spec.hint.endswith("."), code
        assert f'"{code}"' in sources or code == "store_unavailable", f"nothing answers {code}"


def test_no_other_code_is_raised() -> None:
    for path in PACKAGE.rglob("*.py"):
        for code in re.findall(r'InterlockError\(\s*"([a-z_]+)"', path.read_text(encoding="utf-8")):
            assert code in CODES, f"{path.name} raises {code}"


def test_every_limit_is_documented_with_an_existing_code() -> None:
    named = {row.name for _, rows in SECTIONS for row in rows}
    known = {name for name in vars(limits) if name.isupper()}
    assert named | INTERNAL.keys() | UNITS == known
    assert not named & INTERNAL.keys()
    assert all(row.code is None or row.code in CODES for _, rows in SECTIONS for row in rows)


def test_every_transition_and_status_is_documented() -> None:
    text = page("lifecycle.md")
    for row in TRANSITIONS:
        assert f"| {row.operation.replace('_', ' ')} | " in text
        assert f"`{row.event}`" in text
    for status in STATUSES:
        assert f"| `{status}` | " in text


def test_every_operation_is_documented_with_its_rights() -> None:
    text = page("lifecycle.md")
    for row in OPERATIONS.values():
        rights = ", ".join(right.replace("_", " ") for right in RIGHTS[row.name])
        assert f"| `{row.name}` | `{row.method} {row.path}` | {row.summary} | {rights} |" in text


@pytest.mark.parametrize("name", ["errors.md", "limits.md", "lifecycle.md"])
def test_tables_are_well_formed_and_links_lead_somewhere(name: str) -> None:
    text = page(name)
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = block.splitlines()
        assert set(lines[1]) <= set("| -")
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / "docs" / target).is_file()


# ---- the description


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from _nodes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _nodes(part)


def _described() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in PUBLISHED["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_reference_resolves_and_every_component_is_used() -> None:
    used = set()
    for node in _nodes(PUBLISHED):
        if "$ref" in node:
            _, _, kind, name = node["$ref"].split("/")
            assert name in PUBLISHED["components"][kind]
            used.add((kind, name))
    made = {(kind, name) for kind in ("schemas", "responses") for name in PUBLISHED["components"][kind]}
    assert made == used


def test_schemas_are_schemas() -> None:
    for schema in PUBLISHED["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for _, _, operation in _described():
        for parameter in operation["parameters"]:
            Draft202012Validator.check_schema(parameter["schema"])


def test_every_operation_has_an_id_a_text_and_its_parameters() -> None:
    ids = [operation["operationId"] for _, _, operation in _described()]
    assert sorted(ids) == sorted(name.replace(".", "_") for name in OPERATIONS)
    for path, method, operation in _described():
        assert operation["summary"].endswith(".")
        assert operation["description"]
        assert set(operation["tags"]) <= {tag["name"] for tag in PUBLISHED["tags"]}
        placed = {part["name"] for part in operation["parameters"] if part["in"] == "path"}
        assert placed == set(re.findall(r"{(\w+)}", path))
        assert ("requestBody" in operation) <= (method in ("post", "patch"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_status_that_an_operation_can_answer_is_documented(operation: str) -> None:
    row = OPERATIONS[operation]
    described = PUBLISHED["paths"][row.path][row.method.lower()]
    statuses = {str(code.status) for code in CODES.values()}
    if RIGHTS[operation] == ("anyone",):
        statuses -= {"401", "403", "404", "409", "412", "422", "428"}
    assert described["responses"].keys() == statuses | {"200"} | ({"201"} if row.created else set())
    assert ("security" in described) is (RIGHTS[operation] == ("anyone",))


def test_problems_are_documented_by_status_with_their_codes() -> None:
    for status, response in PUBLISHED["components"]["responses"].items():
        codes = {name for name, code in CODES.items() if str(code.status) == status}
        assert set(re.findall(r"[a-z_]{4,}", response["description"])) >= codes
        assert list(response["content"]) == ["application/problem+json"]


def test_bodies_are_closed() -> None:
    bodies = [operation["requestBody"] for _, _, operation in _described() if "requestBody" in operation]
    for body in bodies:
        ref = body["content"]["application/json"]["schema"]["$ref"]
        schema = PUBLISHED["components"]["schemas"][ref.rpartition("/")[2]]
        assert schema["additionalProperties"] is False
        assert body["required"] is bool(schema.get("required"))
