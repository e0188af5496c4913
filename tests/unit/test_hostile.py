"""A small fuzzer: accepted requests, damaged at random. Whatever comes is answered, as documented, and never by a defect.

The seed is part of the test's name; a failure says what was sent.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import Sent, arranged

from interlock.domain.ledger import verify
from interlock.edges.operations import OPERATIONS

ROUNDS = 25

SCALARS: tuple[str, ...] = (
    "null", "true", "0", "-0", "1", "-1", "1.0", "1e999", "-1e308", "NaN", "Infinity", "1" * 40, "9" * 1_000, "9" * 1_001, "0.1", "1e-400",
    '""', '" "', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"' + "é" * 2_001 + '"', '"😀"', '"a\\nb"', '"' + "x" * 70_000 + '"',
    '"..\\/.."', '"a#b"', '"il_agt_x.y.z"', '"job_00000000000000000000000000"', '"agt_1"', '"owner"', '"installation"', '"HEAD"', '"__proto__"',
    '"2026-11-30T21:00:00Z"', '"9999-12-31T23:59:59.999Z"', '"0000-00-00T00:00:00Z"', "[]", "{}", "[[[[]]]]", '{"a":{"a":{}}}', '{"":null}',
    "[" * 70 + "]" * 70, "[null]", "[1,2,3]", '["qa","qa"]', '[{"type":"t","uri":"u"}]', '{"type":"t","type":"u"}', '{"$ref":"#"}', "[" + "1," * 500 + "1]",
)  # fmt: skip
NAMES = (
    "reason",
    "fence",
    "summary",
    "id",
    "data",
    "roles",
    "__class__",
    "",
    "\\u0000",
    "\\ud800",
    "é",
    "x" * 300,
    "status",
    "model_config",
)
HEADERS = (
    "idempotency-key",
    "if-match",
    "content-type",
    "traceparent",
    "x-forwarded-proto",
    "host",
    "accept",
    "cookie",
)
QUERIES = (
    "",
    "limit=1",
    "limit=x",
    "cursor=AAAA",
    "a=b",
    "%",
    "%zz",
    "&&&",
    "=",
    "?",
    "role=mine",
    "last=5&after=x",
    "q=%00",
    "é",
    "status=failed&status=failed",
)


def text_of(value: Any, rng: random.Random, chance: float) -> str:
    """JSON text of a value, in which parts were replaced, doubled, dropped or put in."""
    if rng.random() < chance:
        return rng.choice(SCALARS)
    if isinstance(value, dict):
        members = [
            f"{json.dumps(name)}:{text_of(part, rng, chance)}"
            for name, part in value.items()
            if rng.random() > chance / 2
        ]
        if rng.random() < chance:
            members.append(f'"{rng.choice(NAMES)}":{rng.choice(SCALARS)}')
        if members and rng.random() < chance / 2:
            members.append(rng.choice(members))
        rng.shuffle(members)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(part, rng, chance) for part in value) + "]"
    return json.dumps(value)


def damaged(text: str, rng: random.Random) -> bytes:
    """The text as bytes, some of them changed, dropped, put in, or all cut off."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        place = rng.randrange(len(data) + 1)
        end = rng.choice([place, place + 1, place + 1, len(data)])
        data[place:end] = rng.choice([b"", bytes([rng.randrange(256)])])
    return bytes(data)


def hostile_text(rng: random.Random) -> str:
    return "".join(rng.choice('abc"\\\0\x7f\né😀١v1{}#/.%') for _ in range(rng.choice([0, 1, 5, 40, 300])))


def fire(w: CheckedWorld, sent: Sent, rng: random.Random) -> None:
    """One damaged request; its answer is judged by the world."""
    headers = dict(sent.headers)
    for name in HEADERS:
        if rng.random() < 0.06:
            headers[name] = hostile_text(rng)
    path = sent.path
    if rng.random() < 0.1:
        steps = path.split("/")
        steps[rng.randrange(len(steps))] = rng.choice(
            ["..", "%00", "a%23b", "x", "%2F", "job_x", "default", "%F0%9F%98%80"]
        )
        path = "/".join(steps)
    query: Any = dict(sent.query) if rng.random() < 0.8 else rng.choice(QUERIES)
    raw = (
        damaged(text_of(sent.body, rng, rng.choice([0, 0.05, 0.2, 0.6])), rng)
        if sent.body is not None
        else hostile_text(rng).encode()
    )
    key = rng.choice([None, None, "K", "L"])
    reply = w.call(sent.method, path, raw=raw, token=sent.token, query=query, headers=headers, key=key)
    assert reply.status < 500, (sent.method, path, raw[:300], query, headers, key, reply.body)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "operation", [name for name in OPERATIONS if name not in ("system.health", "system.openapi")]
)
def test_damaged_requests_are_answered(operation: str, seed: int) -> None:
    rng = random.Random(f"{operation} {seed}")
    w = checked(seed)
    sent = arranged(w, operation)
    for _ in range(ROUNDS):
        fire(w, sent, rng)
        if rng.random() < 0.2:
            w.clock.advance(rng.choice([1, 100, 4_000]))
        if rng.random() < 0.2:
            w.pump()


@pytest.mark.parametrize("seed", range(8))
def test_a_bus_under_hostile_traffic_keeps_its_ledger_and_serves_the_others(seed: int) -> None:
    rng = random.Random(seed)
    w = checked(seed)
    names = [
        name
        for name in OPERATIONS
        if not name.startswith(("system.health", "system.openapi", "agents", "owners", "installation"))
    ]
    for _ in range(60):
        operation = rng.choice(names)
        try:
            sent = arranged(w, operation)
        except AssertionError:
            continue  # what it needs is gone, or made already
        fire(w, sent, rng)
    w.ok("POST", "P/resume", {"project": True}, token="owner")
    if w.call("POST", "P/roles", {"key": "honest", "label": "H"}, token="owner").status == 201:
        w.enrol("honest", ("honest",))
        job = w.job(role="honest", token="honest")
        fence = w.claim(job, "honest")
        w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="honest")
    w.pump()
    events, after = [], None
    while True:
        page = w.ok(
            "GET", "P/events", token="owner", query={"limit": 1_000, **({"after": after} if after else {})}
        )
        events += page["items"]
        after = page["next_cursor"]
        if not page["more"]:
            break
    assert verify(events) == []
