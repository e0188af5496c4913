"""Every operation: it is accepted, its answer is as documented, it can be repeated, and it leaves a sound ledger."""

from __future__ import annotations

import json

import pytest
from tests.unit.checked import DOCUMENT, checked
from tests.unit.requests import ACCEPTED, OTHER_FORMS, WRITING, arranged

from interlock.domain.ledger import verify
from interlock.edges.operations import OPERATIONS
from interlock.store import items, keys


def test_every_operation_has_a_request_and_no_request_lacks_an_operation() -> None:
    assert ACCEPTED.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_accepted(operation: str) -> None:
    w = checked()
    reply = arranged(w, operation).by(w)
    assert reply.status == (201 if OPERATIONS[operation].created else 200), reply.body


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_its_other_forms_are_accepted_and_repeated_too(form: str) -> None:
    operation, arrange = OTHER_FORMS[form]
    w = checked()
    sent = arrange(w)
    first = sent.by(w, key="k")
    assert first.status == (201 if OPERATIONS[operation].created else 200), first.body
    before = w.everything()
    again = sent.by(w, key="k")
    assert (again.status, again.body) == (200, first.body)
    assert w.everything() == before


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if OPERATIONS[name].method == "GET"])
def test_a_read_writes_nothing(operation: str) -> None:
    w = checked()
    sent = arranged(w, operation)
    before = w.everything()
    sent.by(w)
    assert w.everything() == before


@pytest.mark.parametrize("operation", [name for name in WRITING if OPERATIONS[name].method == "POST"])
def test_a_keyed_repeat_is_answered_without_a_second_effect(operation: str) -> None:
    w = checked()
    sent = arranged(w, operation)
    first = sent.by(w, key="The Key ~ 1")
    assert first.status in (200, 201), first.body
    before = w.everything()
    again = sent.by(w, key="The Key ~ 1")
    assert again.status == 200
    if operation == "system.redrive":
        assert again.body["redriven"] == 0
        return
    assert w.everything() == before
    if operation not in ("claims.heartbeat", "system.repair"):
        assert again.headers["idempotency-replayed"] == "true"
    secret = {"token", "hint"}
    assert {k: v for k, v in again.body.items() if k not in secret} == {
        k: v for k, v in first.body.items() if k not in secret
    } or operation in ("jobs.record",)


@pytest.mark.parametrize("operation", WRITING)
def test_a_write_without_a_key_works_and_its_events_fit_the_heads(operation: str) -> None:
    w = checked()
    arranged(w, operation).by(w)
    w.pump()
    rows = w.everything()[0]
    table = w.bus.store.table
    heads, events = {}, []
    for row in rows:
        pk, sk = row[0], row[1]
        item = table.get(keys.head(*keys.entity_of(pk))) if sk == keys.HEAD else None
        if item is not None:
            heads[f"{pk.split('#')[0]}/{items.entity(items.read(item))}"] = (
                item["version"],
                item["digest"].hex(),
            )
        if sk.startswith(keys.LOG_PREFIX):
            (event,) = items.unpack(table.get(keys.log(pk, int(sk[4:])))["events"])  # type: ignore[index]
            if "large" in event:
                event["data"] = items.unpack(
                    table.get(keys.event_data(pk, event["seq"], event.pop("large")))["data"]
                )  # type: ignore[index]
            events.append((f"{pk.split('#')[0]}/{event['entity']}", event))
    for scoped, head in heads.items():
        chain = [event for name, event in events if name == scoped]
        assert verify(chain, {scoped.partition("/")[2]: head}) == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_is_ascii_json_that_says_its_version(operation: str) -> None:
    w = checked()
    reply = arranged(w, operation).by(w)
    json.dumps(reply.body)
    versions = [
        part["version"]
        for name, part in reply.body.items()
        if name != "retry"  # a rejection answers two jobs; the reviewer is the one that was asked
        if isinstance(part, dict) and isinstance(part.get("version"), int)
    ]
    if versions and operation not in ("system.health", "system.openapi"):
        assert reply.headers["etag"] == f'"v{versions[0]}"'


def test_every_documented_path_is_an_operation() -> None:
    documented = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert documented == {(row.method, row.path) for row in OPERATIONS.values()}
