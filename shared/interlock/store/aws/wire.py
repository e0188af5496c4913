"""Items in DynamoDB's JSON and back.

Reads both forms of it: what botocore answers (``B`` holds bytes) and what a Lambda function is sent by a stream
(``B`` holds base64 text).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from interlock.store.ports import Item, Key

Wire = dict[str, dict[str, Any]]
"""Attribute names to values that name their type."""


def to_wire(item: Mapping[str, Any]) -> Wire:
    """An item for a request."""
    return {name: value_to_wire(value) for name, value in item.items()}


def key_to_wire(key: Key) -> Wire:
    """A primary key for a request."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def value_to_wire(value: Any) -> dict[str, Any]:
    """One value for a request. Raises ValueError for what no store keeps."""
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    if isinstance(value, Mapping):
        return {"M": to_wire(value)}
    if isinstance(value, (list, tuple)):
        return {"L": [value_to_wire(part) for part in value]}
    raise ValueError(f"a store keeps no {type(value).__name__}")


def from_wire(attributes: Mapping[str, Mapping[str, Any]]) -> Item:
    """The item of an answer or of a stream's record. Raises ValueError for types that we never write."""
    return {name: _value(value) for name, value in attributes.items()}


def _value(typed: Mapping[str, Any]) -> Any:
    ((kind, value),) = typed.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else int(Decimal(value))
        case "B":
            return base64.b64decode(value) if isinstance(value, str) else bytes(value)
        case "M":
            return {name: _value(part) for name, part in value.items()}
        case "L":
            return [_value(part) for part in value]
    raise ValueError(f"an attribute has the type {kind}, which we never write")
