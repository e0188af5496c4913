"""OpenAPI 3.1, made from the operations table, the models and the table of codes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from interlock import __version__
from interlock.app.call import Answer, Call
from interlock.domain import access
from interlock.edges import answers, models
from interlock.edges.operations import OPERATIONS, Operation
from interlock.errors import CODES

_REF = "#/components/schemas/{model}"
_PARAMETERS: Mapping[str, str] = {
    "project": "The project's id.",
    "job": "The job's id.",
    "agent": "The agent's id.",
    "owner": "The owner's id.",
    "token": "The token's id (not its secret).",
    "role": "The role's key.",
    "artifact": "The artifact's id.",
    "decision": "The decision's id.",
    "broadcast": "The broadcast's id.",
}
_AREAS: Mapping[str, str] = {
    "jobs": "Publishing, reading and changing jobs.",
    "claims": "Taking a job, keeping its lease, ending it.",
    "decisions": "Questions, approvals and reviews: asking, answering, withdrawing.",
    "plans": "Publishing many jobs that wait for each other.",
    "ledger": "The history of every change.",
    "roles": "Routing labels for work.",
    "agents": "Enrolled AIs and scripts, and their tokens.",
    "owners": "People with rights over a project, and their tokens.",
    "installation": "Owners of the whole installation.",
    "projects": "Namespaces, settings, pause and resume.",
    "system": "The bus itself.",
}
_HEADERS: Mapping[str, tuple[str, str, str]] = {
    "401": ("WWW-Authenticate", "Where the API says how to get a credential.", "string"),
    "405": ("Allow", "The methods that the path knows.", "string"),
    "429": ("Retry-After", "Seconds to wait before the same call is sent again.", "integer"),
    "503": ("Retry-After", "Seconds to wait before the same call is sent again.", "integer"),
}
"""The header that answers of a status always carry: its name, meaning and type."""
_WITHOUT_CREDENTIAL = ("401", "403", "404", "409", "412", "422", "428")


@cache
def document() -> dict[str, Any]:
    """The whole description. Made once; nobody changes it."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS.values():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "version": __version__,
            "summary": "A coordination bus for teams of AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": text} for name, text in _AREAS.items()],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "il_agt_… or il_own_…"}
            },
            "responses": _responses(),
        },
    }


def _schemas() -> dict[str, Any]:
    wanted = {name for row in OPERATIONS.values() for name in (row.body,) if name}
    _, bodies = models_json_schema(
        [(getattr(models, name), "validation") for name in sorted(wanted)], ref_template=_REF
    )
    schemas = dict(sorted(bodies["$defs"].items()))
    for name in schemas:
        if name.endswith("Edit"):  # what is not sent stays as it is: an edit has no defaults
            for field in schemas[name]["properties"].values():
                field.pop("default", None)
    return {**schemas, **answers.schemas()}


def _operation(operation: Operation) -> dict[str, Any]:
    open_to_all = access.RIGHTS[operation.name] == ("anyone",)
    who = ", ".join(right.replace("_", " ") for right in access.RIGHTS[operation.name])
    described: dict[str, Any] = {
        "operationId": operation.name.replace(".", "_"),
        "tags": [operation.area],
        "summary": operation.summary,
        "description": f"Open to: {who}.",
        "parameters": _parameters(operation),
        "responses": _answers(operation, open_to_all),
    }
    if open_to_all:
        described["security"] = []
    if operation.body:
        content = {"application/json": {"schema": {"$ref": _REF.format(model=operation.body)}}}
        required = bool(getattr(models, operation.body).model_json_schema().get("required"))
        described["requestBody"] = {"required": required, "content": content}
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": part[1:-1],
            "in": "path",
            "required": True,
            "description": _PARAMETERS[part[1:-1]],
            "schema": {"type": "string"},
        }
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    if operation.query:
        schema = getattr(models, operation.query).model_json_schema(ref_template=_REF)
        for name, field in schema["properties"].items():
            shown = {key: value for key, value in field.items() if key not in ("title", "default")}
            if "anyOf" in shown:
                shown = next(choice for choice in shown["anyOf"] if choice.get("type") != "null")
            parameter = {"name": name, "in": "query", "schema": shown}
            found.append(
                {**parameter, "style": "form", "explode": True} if shown.get("type") == "array" else parameter
            )
    if operation.keyed and access.RIGHTS[operation.name] != ("anyone",):
        text = "The same key makes a repeat safe: the first effect is answered again."
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
        found.append({"name": "Idempotency-Key", "in": "header", "description": text, "schema": schema})
    if operation.method == "PATCH":
        text = 'The version that was read, as its ETag says it: `"v3"`.'
        schema = {"type": "string", "pattern": '^(W/)?"v[0-9]{1,15}"$'}
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": operation.edit,
                "description": text,
                "schema": schema,
            }
        )
    return found


def _answers(operation: Operation, open_to_all: bool) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model=operation.answer)}}}
    shown: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if operation.created:
        shown = {
            "201": {"description": "Made.", "content": content},
            "200": {"description": "A repeat: as it is now.", "content": content},
        }
    for status in sorted({str(code.status) for code in CODES.values()}):
        if not (open_to_all and status in _WITHOUT_CREDENTIAL):
            shown[status] = {"$ref": f"#/components/responses/{status}"}
    return shown


def _header(text: str, kind: str) -> dict[str, Any]:
    return {"description": text, "required": True, "schema": {"type": kind}}


def _responses() -> dict[str, Any]:
    grouped: dict[str, list[str]] = {}
    for name, code in CODES.items():
        grouped.setdefault(str(code.status), []).append(name)
    return {
        status: {
            "description": "Refused: " + ", ".join(names) + ".",
            **(
                {"headers": {_HEADERS[status][0]: _header(*_HEADERS[status][1:])}}
                if status in _HEADERS
                else {}
            ),
            "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}},
        }
        for status, names in sorted(grouped.items())
    }


def serve(call: Call) -> Answer:
    """This API's own description."""
    del call
    return Answer(document())
