"""Decisions as items, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from interlock.domain.decision import OPEN, Decision
from interlock.store import items, keys
from interlock.store.ports import Item, Key

_PLAIN = ("state", "hop")
"""What conditions name; the rest is packed."""
_IN_KEY = frozenset({"id", "project", "job"})
_PACKED = tuple(f.name for f in fields(Decision) if f.name not in (*_PLAIN, *_IN_KEY))


def key(decision: Decision) -> Key:
    """Where the decision is."""
    return Key(keys.partition(decision.project, "job", decision.job), f"{keys.DECISION_PREFIX}{decision.id}")


def item(decision: Decision) -> Item:
    """A decision as an item: in index 1 while it is open, in index 2 for good."""
    where = key(decision)
    packed = {name: value for name in _PACKED if (value := getattr(decision, name)) not in (None, ())}
    sort = keys.time_sort(decision.asked_at, decision.id)
    listed = {"g2pk": keys.decisions_partition(decision.project), "g2sk": sort}
    if decision.state == OPEN:
        listed |= {"g1pk": keys.decisions_partition(decision.project), "g1sk": sort}
    return {
        "pk": where.pk,
        "sk": where.sk,
        "format": items.FORMAT,
        **{name: getattr(decision, name) for name in _PLAIN},
        "doc": items.pack(packed),
        **listed,
    }


def read(found: Item) -> Decision:
    """A decision from its item."""
    project, _, job = keys.entity_of(found["pk"])
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) and name in ("options", "roles", "findings") else value
        for name, value in items.unpack(found["doc"]).items()
    }
    plain = {name: found[name] for name in _PLAIN}
    return Decision(
        id=found["sk"].removeprefix(keys.DECISION_PREFIX), project=project, job=job, **plain, **values
    )
