"""One operation carried out for one caller, whatever edge it was asked through.

The order of checks is the same everywhere: credential, project and object, right, fields; then the use case: replay
by key, fence, status, rules.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import ValidationError

from interlock.app import write
from interlock.app.call import Answer, Bus, Call
from interlock.app.leases import renew
from interlock.domain import access, limits
from interlock.domain.identity import Actor
from interlock.edges import auth, jsonio, models, problems
from interlock.edges.operations import OPERATIONS, Operation
from interlock.errors import FieldError, InterlockError, StoreError

NOBODY = Actor("anonymous", "", "")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_KEY = re.compile(rf"[\x20-\x7e]{{1,{limits.KEY_CHARACTERS}}}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of an operation: the names in its path, its body and query as they came, and what goes along.

    ``query`` is read when the caller is let in; it gives text, or values of the types that its model names. ``base`` is
    the bus's address as the caller wrote it.
    """

    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=dict)
    query: Callable[[], Mapping[str, Any]] = dict
    key: str | None = None
    if_match: int | None = None
    trace: str | None = None
    base: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation, ready to be carried out."""

    operation: Operation
    use_case: Callable[[Call], Answer]
    body: Any
    query: Any

    def carry_out(self, bus: Bus, asked: Asked, admit: Callable[[Operation, int], auth.Admission]) -> Answer:
        """The use case's answer to what is asked. ``admit`` says who asks, at this time, and on what object."""
        operation, now = self.operation, bus.clock()
        if access.RIGHTS[operation.name] == ("anyone",):
            return self.use_case(Call(bus, operation.name, NOBODY, now, params=asked.params))
        admitted = admit(operation, now)
        body, sent = _fields(self.body, asked.body)
        query = _query(self.query, asked.query())
        if operation.edit and asked.if_match is None:
            raise InterlockError("if_match_required")
        call = Call(
            bus,
            operation.name,
            admitted.actor,
            now,
            project=admitted.project,
            target=admitted.target,
            decision=admitted.decision,
            params=asked.params,
            query=query,
            body=body,
            sent=sent,
            key=_scoped(operation, admitted, asked),
            body_hash=jsonio.digest(asked.body),
            if_match=asked.if_match,
            trace=asked.trace if asked.trace and _TRACE.fullmatch(asked.trace) else None,
            base=asked.base,
        )
        try:
            return self.use_case(renew(call) if operation.renews else call)
        except write.Lost:
            raise StoreError("throttled", "many callers change this object at once") from None


@cache
def entry(name: str) -> Entry:
    """The operation of a name, its use case and models imported."""
    operation = OPERATIONS[name]
    module, _, function = operation.use_case.partition(":")
    area = "interlock.edges" if module == "openapi" else "interlock.app"
    return Entry(
        operation,
        getattr(importlib.import_module(f"{area}.{module}"), function),
        getattr(models, operation.body) if operation.body else None,
        getattr(models, operation.query) if operation.query else None,
    )


def check_key(key: str) -> str:
    """An Idempotency-Key as it may be, or malformed_request."""
    if not _KEY.fullmatch(key):
        raise InterlockError(
            "malformed_request", f"Idempotency-Key is 1–{limits.KEY_CHARACTERS} printable ASCII characters"
        )
    return key


def _scoped(operation: Operation, admitted: auth.Admission, asked: Asked) -> bytes | None:
    """The digest of the key within its scope: actor, operation, object."""
    if asked.key is None:
        return None
    objects = "\0".join(f"{name}={asked.params[name]}" for name in sorted(asked.params))
    return jsonio.digest([admitted.actor.reference, operation.name, objects, asked.key])


def _fields(model: Any, raw: Any) -> tuple[dict[str, Any], frozenset[str]]:
    if model is None:
        return {}, frozenset()
    if not isinstance(raw, dict):
        raise InterlockError(
            "invalid", "the body must be a JSON object", errors=[FieldError("", "must be a JSON object")]
        )
    try:
        value = model.model_validate({jsonio.clean(name): field for name, field in raw.items()})
    except ValidationError as failed:
        raise problems.from_validation(failed) from None
    return value.model_dump(), frozenset(value.model_fields_set)


def _query(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict((model or models.Model).model_validate(given).model_dump())
    except ValidationError as failed:
        raise problems.from_validation(failed) from None
