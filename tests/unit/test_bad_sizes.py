"""Parts that are too large: 413 naming the part and the limit, on the byte; and answers that stay small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock.edges import jsonio

KIB = 1_024


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def sized(size: int, filler: str = "x") -> dict[str, str]:
    """An object of exactly so many bytes as compact UTF-8 JSON."""
    width = len(filler.encode("utf-8", "surrogatepass"))
    text, rest = divmod(size - len('{"a":""}'), width)
    made = {"a": filler * text + "x" * rest}
    assert jsonio.size(made) == size
    return made


def ruled(**fields: Any) -> dict[str, Any]:
    """A job with one routing rule."""
    return {"summary": "x", "role": "developer", "routing": [{"role": "qa", "summary": "y", **fields}]}


CASES = {
    "context": (256 * KIB, "context", lambda w, part: ("POST", "P/jobs", {"summary": "x", "role": "developer", "context": part})),
    "metadata": (4 * KIB, "metadata", lambda w, part: ("POST", f"P/jobs/{w.job()}/artifacts", {"type": "t", "uri": "u", "metadata": part})),
    "metadata at creation": (
        4 * KIB, "metadata",
        lambda w, part: ("POST", "P/jobs", {"summary": "x", "role": "developer", "artifacts": [{"type": "t", "uri": "u", "metadata": part}]}),
    ),
    "custom event": (64 * KIB, "data", lambda w, part: ("POST", f"P/jobs/{w.job()}/events", {"type": "custom.x", "data": part})),
    "result": (64 * KIB, "result.data", lambda w, part: ("POST", f"P/jobs/{w.job_in('in_progress')[0]}/complete", {"fence": 1, "result": {"data": part}})),
    "context in a plan": (
        256 * KIB, "context", lambda w, part: ("POST", "P/plans", {"jobs": [{"ref": "a", "summary": "x", "role": "developer", "context": part}]}),
    ),
    "metadata in a rule": (4 * KIB, "metadata", lambda w, part: ("POST", "P/jobs", ruled(artifacts=[{"type": "t", "uri": "u", "metadata": part}]))),
    "value of a guard": (4 * KIB, "value", lambda w, part: ("POST", "P/jobs", ruled(when={"field": "a", "op": "eq", "value": part}))),
    "fail": (64 * KIB, "data", lambda w, part: ("POST", f"P/jobs/{w.job_in('in_progress')[0]}/fail", {"fence": 1, "reason": "r", "data": part})),
    "block": (64 * KIB, "data", lambda w, part: ("POST", f"P/jobs/{w.job_in('in_progress')[0]}/block", {"fence": 1, "reason": "r", "data": part})),
}  # fmt: skip


@pytest.mark.parametrize("filler", ["x", "é", "😀", "\ud800"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_count_stored_utf8_and_hold_on_the_byte(w: CheckedWorld, name: str, filler: str) -> None:
    limit, part, build = CASES[name]
    method, path, body = build(w, sized(limit + 1, filler))
    refused = w.refused("too_large", method, path, body)
    assert part in refused.body["detail"]
    assert f"{limit:,}" in refused.body["detail"]
    assert "artifact" in refused.body["hint"]
    method, path, body = build(w, sized(limit, filler))
    assert w.call(method, path, body).status in (200, 201)


def test_an_edited_context_has_the_same_limit(w: CheckedWorld) -> None:
    job, headers = w.job(), {"If-Match": '"v1"'}
    refused = w.refused(
        "too_large", "PATCH", f"P/jobs/{job}", {"context": sized(256 * KIB + 1)}, headers=headers
    )
    assert "context" in refused.body["detail"]
    edited = w.ok("PATCH", f"P/jobs/{job}", {"context": sized(256 * KIB)}, headers=headers)["job"]
    assert edited["context"] == w.get(job)["context"] == sized(256 * KIB)


def parts(constraints: int, rest: int) -> dict[str, Any]:
    """Constraints and artifacts that are together so many bytes above what 40 constraints and 8 artifacts take."""
    return {
        "constraints": ["c" * constraints] * 40,
        "artifacts": [{"type": "t", "uri": "u", "checksum": None, "metadata": {"a": "m" * rest}}] * 8,
        "routing": [],
    }


def test_constraints_and_artifacts_together(w: CheckedWorld) -> None:
    body = {"summary": "x", "role": "developer"}
    low, high = 1, 4_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if jsonio.size(parts(850, middle)) <= 64 * KIB else (low, middle)
    refused = w.refused("too_large", "POST", "P/jobs", {**body, **parts(850, high)})
    assert "constraints" in refused.body["detail"]
    assert "artifacts" in refused.body["detail"]
    assert w.call("POST", "P/jobs", {**body, **parts(850, low)}).status == 201
    job, _ = w.job_in("in_progress")
    fat = [{"type": "t", "uri": "u", "metadata": {"a": "m" * 4_000}}] * 17
    refused = w.refused(
        "too_large", "POST", f"P/jobs/{job}/complete", {"fence": 1, "result": {"artifacts": fat}}
    )
    assert "result.artifacts" in refused.body["detail"]


def rule(size: int) -> dict[str, Any]:
    """A routing rule of so many bytes, as it is stored."""
    plain = {
        "role": "qa", "summary": "x", "on": "completed", "when": None, "context": {"a": ""}, "constraints": [], "priority": 20,
        "artifacts": [], "max_retries": 3,
    }  # fmt: skip
    return {**plain, "context": {"a": "x" * (size - jsonio.size(plain))}}


@pytest.mark.parametrize("over", [0, 1])
def test_routing_counts_with_constraints_and_artifacts(w: CheckedWorld, over: int) -> None:
    others = {"constraints": ["c"], "artifacts": [], "routing": [rule(20_000), rule(20_000), {}]}
    room = 64 * KIB - jsonio.size(others) + len("{}")
    routing = [rule(20_000), rule(20_000), rule(room + over)]
    body = {"summary": "x", "role": "developer", "constraints": ["c"], "routing": routing}
    assert jsonio.size({**others, "routing": routing}) == 64 * KIB + over
    for path, sent in (("P/jobs", body), ("P/plans", {"jobs": [{**body, "ref": "a"}]})):
        if over:
            refused = w.refused("too_large", "POST", path, sent)
            assert "routing" in refused.body["detail"]
            assert "65,536" in refused.body["detail"]
        else:
            assert w.call("POST", path, sent).status == 201


def test_a_part_that_is_too_large_is_told_apart_from_a_body_that_is(w: CheckedWorld) -> None:
    refused = w.refused(
        "too_large", "POST", "P/jobs", {"summary": "x", "role": "developer", "context": sized(999_000)}
    )
    assert "context" in refused.body["detail"]
    text = json.dumps({"summary": "x", "role": "developer", "context": {"a": ""}}).replace(
        '""', '"' + "x" * 1_000_000 + '"'
    )
    for raw in (text, text.encode()):
        refused = w.refused("too_large", "POST", "P/jobs", raw=raw)
        assert "the body" in refused.body["detail"]
        assert "1,000,000" in refused.body["detail"]


@pytest.mark.parametrize("size", [999_999, 1_000_000, 1_000_001])
def test_the_body_limit_holds_on_the_byte(w: CheckedWorld, size: int) -> None:
    raw = b'{"reason":"r"' + b" " * (size - 14) + b"}"
    job = w.job()
    assert len(raw) == size
    reply = w.call("POST", f"P/jobs/{job}/cancel", raw=raw)
    assert (reply.status, reply.code) == ((200, None) if size <= 1_000_000 else (413, "too_large"))


def test_a_body_that_is_too_large_is_refused_before_anything_else_is_looked_at(w: CheckedWorld) -> None:
    for token in (None, "il_agt_default.x.y", "agent"):
        w.refused("too_large", "POST", "P/jobs", token=token, raw=b"x" * 1_000_001)
    w.refused("too_large", "GET", "P/jobs", raw=b"x" * 1_000_001)


# ---- answers stay small whatever was sent


def test_an_error_names_a_hundred_fields_and_counts_the_rest(w: CheckedWorld) -> None:
    raw = json.dumps({f"f{number}": 0 for number in range(60_000)})
    reply = w.call("POST", "P/jobs", raw=raw)
    assert (reply.status, reply.code) == (422, "invalid")
    assert len(reply.body["errors"]) == 100
    assert "59902 more" in reply.body["detail"]
    assert len(json.dumps(reply.body)) < 20_000


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"é" * 400_000: 1}, ensure_ascii=False),
        '{"a":1,"' + "é" * 200_000 + '":1,"' + "é" * 200_000 + '":2}',
        json.dumps({"summary": "x", "role": "é" * 400_000}, ensure_ascii=False),
        json.dumps({"summary": "x" * 900_000, "role": "developer"}),
        json.dumps({"summary": "x", "role": "developer", "on_expire": "é" * 400_000}, ensure_ascii=False),
        json.dumps({"summary": "x", "role": "developer", "deadline": "2" * 900_000}),
        json.dumps({"summary": "x", "role": "developer", "parent": "j" * 900_000}),
        json.dumps({"summary": "x", "role": "developer", "artifacts": [[]] * 200_000}),
        json.dumps({"summary": "x", "role": "developer", "constraints": [""] * 200_000}),
        json.dumps({"summary": "x", "role": "developer", "capabilities": [{}] * 200_000}),
        "7" * 900_000,
        '"' + "x" * 900_000,
    ],
    ids=range(12),
)
def test_hostile_bodies_of_the_largest_size_get_small_answers(w: CheckedWorld, raw: str) -> None:
    reply = w.call("POST", "P/jobs", raw=raw.encode())
    assert reply.status in (400, 422)
    assert len(json.dumps(reply.body)) < 30_000


@pytest.mark.parametrize(
    "name", ["content-type", "idempotency-key", "if-match", "authorization", "traceparent"]
)
def test_hostile_headers_get_small_answers(w: CheckedWorld, name: str) -> None:
    job = w.job()
    headers = {"If-Match": '"v1"', name: "é" * 50_000}
    for method, path, body in (
        ("POST", "P/jobs", {"summary": "x", "role": "developer"}),
        ("PATCH", f"P/jobs/{job}", {"summary": "y"}),
    ):
        reply = w.call(
            method, path, body, headers=headers, token=None if name == "authorization" else "agent"
        )
        assert reply.status < 500
        assert len(json.dumps(reply.body)) < 5_000


def test_hostile_queries_get_small_answers(w: CheckedWorld) -> None:
    for query in (
        {"q": "é" * 50_000},
        {"é" * 50_000: "1"},
        {"cursor": "A" * 50_000},
        {"role": ["x"] * 199},
        {"limit": "9" * 50_000},
    ):
        reply = w.call("GET", "P/jobs", query=query)
        assert reply.status in (400, 422)
        assert len(json.dumps(reply.body)) < 30_000
