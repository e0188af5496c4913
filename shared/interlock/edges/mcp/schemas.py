"""JSON Schemas of tools: made from the models of the REST bodies, in the plain form that every client understands.

Clients hand these to models and to providers' own checkers, which differ in what they take: references are written out,
"or null" of an optional field is left away, and nothing but an object stands at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_DROPPED = frozenset(
    {"title", "$defs", "discriminator", "minLength", "minItems", "maxItems", "minimum", "maximum", "pattern"}
    | {"additionalProperties"}
)
"""What a model does not need to know beforehand: every client pays for a tool's schema with its attention, and the check
of the operation says what is wrong with a field, and how it has to be."""
_SAID_ABOVE = frozenset({"description", "default", "maxLength"})
"""What fields of objects in a list do without: where such a field stands by itself, as in `publish_job`, it says all."""
_TOLD_BY_NULL = {"type": "null"}


def of_arguments(own: type[BaseModel], rest: Iterable[type[BaseModel]] = ()) -> Schema:
    """The schema of a tool's arguments: a tool's own fields, and those of the bodies that it passes on, side by side.

    A field that only some of several bodies require is optional here; the body's own check names it where it is missing.
    """
    parts = [own.model_json_schema(), *(model.model_json_schema() for model in rest)]
    properties: Schema = {}
    for part in parts:
        for name, field in part.get("properties", {}).items():
            properties.setdefault(name, _plain(field, part.get("$defs", {})))
    if "idempotency_key" in properties:
        properties["idempotency_key"] = properties.pop("idempotency_key")
    needed = list(parts[0].get("required", ()))
    if len(parts) == 2:
        needed += parts[1].get("required", ())
    return {
        "type": "object",
        "properties": properties,
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def _plain(value: Any, defs: Mapping[str, Any], *, names: bool = False, listed: bool = False) -> Any:
    """A schema without references, titles and nulls.

    ``names``: the keys here are names of fields, not words. ``listed``: it is of something in a list.
    """
    if isinstance(value, list):
        return [_plain(each, defs, listed=listed) for each in value]
    if not isinstance(value, dict):
        return value
    if not names and "$ref" in value:
        more = {key: each for key, each in value.items() if key != "$ref"}
        return _plain({**defs[value["$ref"].rpartition("/")[2]], **more}, defs, listed=listed)
    if not names and "anyOf" in value:
        choices = [choice for choice in value["anyOf"] if choice != _TOLD_BY_NULL]
        if len(choices) == 1:
            more = {key: each for key, each in value.items() if key != "anyOf"}
            return _plain({**choices[0], **more}, defs, listed=listed)
    dropped = frozenset() if names else _DROPPED | _SAID_ABOVE if listed else _DROPPED
    kept = {
        "anyOf" if key == "oneOf" and not names else key: _plain(
            each, defs, names=not names and key == "properties", listed=listed or key == "items"
        )
        for key, each in value.items()
        if key not in dropped
    }
    if not names and kept.get("default", ...) is None:
        del kept["default"]
    return kept


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
THING: Schema = {"type": "object"}
THINGS: Schema = {"type": "array", "items": THING}
TEXTS: Schema = {"type": "array", "items": TEXT}


def of_answer(parts: Mapping[str, Schema]) -> Schema:
    """The schema of a tool's answer: its parts, and what every answer has. A refusal has `error` instead of parts."""
    return {
        "type": "object",
        "properties": {
            **parts,
            "error": THING,
            "notices": THINGS,
            "cut": TEXTS,
            "next": TEXTS,
        },
        "required": ["next"],
    }
