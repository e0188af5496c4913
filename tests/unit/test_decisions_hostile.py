"""Decisions under hostile and odd calls: nothing becomes a 500, nothing is written by what is refused, and nobody learns
or does what is not theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.test_decisions import QUESTION, ask, held, reply
from tests.unit.test_schema import REFUSED, SLOW, TAKEN, nested

from interlock.domain import limits


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def asks(w: CheckedWorld, job: str, fence: int, **fields: Any) -> Any:
    """The body of an ask, sent; the reply."""
    return w.call("POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, **fields})


def answers(w: CheckedWorld, decision: str, given: Any, token: str = "owner", **more: Any) -> Any:
    """An answer, sent; the reply."""
    return w.call("POST", f"P/decisions/{decision}/answer", {"answer": given, **more}, token=token)


# ---- schemas


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_that_is_not_taken(w: CheckedWorld, name: str) -> None:
    job, fence = held(w)
    body = {"fence": fence, **QUESTION, "schema": REFUSED[name]}
    refused = w.refused("invalid", "POST", f"P/jobs/{job}/decisions", body)
    assert [error["path"] for error in refused.body["errors"]] == ["schema"]


@pytest.mark.parametrize("schema", [True, False, [], "x", 5, None], ids=repr)
def test_a_schema_is_an_object(w: CheckedWorld, schema: Any) -> None:
    job, fence = held(w)
    w.refused("invalid", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "schema": schema})


def test_a_schema_that_nests_deeper_than_a_body_may(w: CheckedWorld) -> None:
    job, fence = held(w)
    body = {"fence": fence, **QUESTION, "schema": nested(80, lambda inner: {"not": inner}, {})}
    w.refused("malformed_json", "POST", f"P/jobs/{job}/decisions", body)


@pytest.mark.parametrize(("more", "status"), [(-1, 201), (0, 201), (1, 413)])
def test_a_schema_at_its_limit(w: CheckedWorld, more: int, status: int) -> None:
    job, fence = held(w)
    schema = {"title": ""}
    empty = len(json.dumps(schema, separators=(",", ":")))
    schema["title"] = "x" * (limits.SCHEMA_BYTES - empty + more)
    made = asks(w, job, fence, schema=schema)
    assert made.status == status
    if status == 201:
        assert made.body["decision"]["schema"] == schema


VALUES: dict[str, Any] = {
    "null": None, "true": True, "false": False, "zero": 0, "float": 1.5, "large": 1e308, "digits": 10**999, "text": "x",
    "empty": "", "blank": " \t", "surrogate": "\ud800", "nul": "a\0b", "list": [1, "a"], "nothing": [], "object": {"a": 1},
    "deep": nested(60, lambda inner: [inner], 1), "names": {"$ref": "#", "pattern": "(a+)+$", "": None, "\0": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_answers_of_every_kind_to_a_schema_that_is_taken(w: CheckedWorld, name: str) -> None:
    """Each is answered or refused; what is answered comes back as it was sent."""
    job, fence = held(w)
    decision = asks(w, job, fence, schema=TAKEN[name], wait=False).body["decision"]["id"]
    for given in VALUES.values():
        answered = answers(w, decision, given)
        assert answered.status in (200, 422), answered.body
        if answered.status == 200:
            assert w.ok("GET", f"P/decisions/{decision}", token="owner")["decision"]["answer"] == given
            decision = asks(w, job, fence, schema=TAKEN[name], wait=False).body["decision"]["id"]


@pytest.mark.parametrize("name", VALUES)
def test_an_answer_of_any_kind_that_the_schema_allows_is_kept(w: CheckedWorld, name: str) -> None:
    job, fence = held(w)
    made = ask(
        w, job, fence, **QUESTION, schema={"type": ["null", "boolean", "number", "string", "array", "object"]}
    )
    answered = reply(w, made["id"], VALUES[name])
    assert answered["decision"]["answer"] == VALUES[name]
    assert w.ok("GET", f"P/decisions/{made['id']}")["decision"]["answer"] == VALUES[name]
    assert answered["job"]["status"] == "unblocked"
    w.pump()
    w.types(job)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", ["question", "options", "approval"])
def test_an_answer_of_the_wrong_kind_is_refused(w: CheckedWorld, name: str, kind: str) -> None:
    job, fence = held(w)
    fields = {
        "question": QUESTION,
        "options": {**QUESTION, "options": ["a", "b"]},
        "approval": {"kind": "approval", "prompt": "p"},
    }[kind]
    made = ask(w, job, fence, **fields)
    body = {"answer": VALUES[name]}
    words = isinstance(VALUES[name], str) and VALUES[name].strip()
    if kind == "question" and words:
        assert reply(w, made["id"], VALUES[name])
    else:
        w.refused("invalid", "POST", f"P/decisions/{made['id']}/answer", body, token="owner")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 1_001, "[" * 70 + "]" * 70])
def test_what_is_no_json_never_comes_to_the_schema(w: CheckedWorld, text: str) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, schema={})
    path = f"P/decisions/{made['id']}/answer"
    w.refused("malformed_json", "POST", path, token="owner", raw=f'{{"answer": {text}}}')


@pytest.mark.parametrize("name", SLOW)
def test_a_check_that_takes_long_is_given_up(w: CheckedWorld, name: str) -> None:
    """Whether it fits or not: somebody is answered."""
    schema, value = SLOW[name]
    if len(json.dumps(schema, separators=(",", ":"))) > limits.SCHEMA_BYTES:
        pytest.skip("no schema of this size is taken")
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, schema=schema)
    assert answers(w, made["id"], value).status in (200, 413, 422)
    if w.get(job)["status"] == "blocked":
        w.ok("POST", f"P/decisions/{made['id']}/withdraw", {})


@pytest.mark.parametrize(("more", "status"), [(-1, 200), (0, 200), (1, 413)])
@pytest.mark.parametrize("field", ["answer", "data"])
def test_answers_and_data_at_their_limit(w: CheckedWorld, field: str, more: int, status: int) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, **QUESTION, schema={})
    part = {"a": "x" * (limits.ANSWER_BYTES - len('{"a":""}') + more)}
    assert (
        answers(
            w, made["id"], **{"given": "a", **({"given": part} if field == "answer" else {field: part})}
        ).status
        == status
    )


# ---- other fields


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["a", "a"], ["a"]),
        (["x" * 200], ["x" * 200]),
        ([f"o{n}" for n in range(20)], [f"o{n}" for n in range(20)]),
        (["\ud800", "�"], ["�"]),
        (["a\nb", "null"], ["a\nb", "null"]),
        (["x" * 201], None),
        ([" "], None),
        ([""], None),
        ([1], None),
        ([], None),
        ([f"o{n}" for n in range(21)], None),
    ],
    ids=lambda value: None if value is None else f"{len(value)}-{str(value)[:12]!a}",
)
def test_options(w: CheckedWorld, options: list[Any], kept: list[str] | None) -> None:
    job, fence = held(w)
    made = asks(w, job, fence, options=options)
    if kept is None:
        assert (made.status, made.code) == (422, "invalid")
        return
    assert made.body["decision"]["options"] == kept
    assert reply(w, made.body["decision"]["id"], kept[-1])["decision"]["answer"] == kept[-1]


@pytest.mark.parametrize(
    "prompt", ["a\0b", "a\nb\t\x1b[31m", "\u202e", "é" * 4_000, "x" * 4_000, "\U0001f600"]
)
def test_prompts_of_any_characters(w: CheckedWorld, prompt: str) -> None:
    job, fence = held(w)
    made = asks(w, job, fence, prompt=prompt)
    assert made.body["decision"]["prompt"] == prompt
    shown = w.get(job)
    assert len(shown["blocked_reason"]) <= limits.REASON_CHARACTERS
    assert w.ok("GET", "P/attention", token="owner")["items"][0]["decision"] == made.body["decision"]["id"]
    reply(w, made.body["decision"]["id"], "y" * 4_000, note=prompt)
    w.types(job)


@pytest.mark.parametrize("prompt", ["", " ", "x" * 4_001, None, 5])
def test_prompts_that_are_none(w: CheckedWorld, prompt: Any) -> None:
    job, fence = held(w)
    w.refused("invalid", "POST", f"P/jobs/{job}/decisions", {"fence": fence, **QUESTION, "prompt": prompt})


@pytest.mark.parametrize(
    ("seconds", "status"), [(0, 422), (1, 201), (2_592_000, 201), (2_592_001, 422), (-1, 422), (1.0, 422)]
)
def test_bounds_of_expiry(w: CheckedWorld, seconds: Any, status: int) -> None:
    job, fence = held(w)
    made = asks(w, job, fence, expires_in=seconds)
    assert made.status == status
    if status == 201:
        assert made.body["decision"]["expires_in"] == seconds


FINDING = {"kind": "bug", "description": "d"}


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([FINDING] * 100, 200),
        ([FINDING] * 101, 422),
        ([{**FINDING, "description": "x" * 2_000}] * 30, 200),
        ([{**FINDING, "description": "x" * 2_000}] * 33, 413),
        ([{**FINDING, "description": "x" * 2_001}], 422),
        ([{**FINDING, "line": 0, "file": "f", "fix": "f"}], 200),
        ([{**FINDING, "line": -1}], 422),
        ([{**FINDING, "line": 2**31 + 1}], 422),
        ([{**FINDING, "more": 1}], 422),
        ([{"kind": "bug"}], 422),
        ([None], 422),
        ({}, 422),
    ],
    ids=lambda value: f"{len(value)}-{str(value)[:30]}" if isinstance(value, list | dict) else None,
)
def test_findings_at_their_limits(w: CheckedWorld, findings: Any, status: int) -> None:
    job, fence = held(w)
    made = ask(w, job, fence, kind="review", prompt="p", wait=False)
    answered = answers(w, made["id"], "reject", findings=findings)
    assert answered.status == status, answered.body
    if status == 200:
        assert len(answered.body["decision"]["findings"]) == len(findings)
        assert w.ok("GET", "P/decisions", query={"state": "answered"})["items"][0]["id"] == made["id"]


def test_a_page_of_the_largest_decisions_stays_below_what_may_be_sent(w: CheckedWorld) -> None:
    """Lambda sends 6 MB; the page is cut, and its cursor goes on where it ended."""
    findings = [{"kind": "bug", "description": "é" * 2_000}] * 16
    made = []
    for _ in range(6):
        job, fence = held(w)
        for _ in range(10):
            schema = {"type": "object", "title": "x" * 8_000}
            more = {"prompt": "é" * 4_000, "blocker": "é" * 4_000, "risk": "é" * 4_000}
            made.append(ask(w, job, fence, **{**QUESTION, **more}, schema=schema, wait=False)["id"])
            reply(
                w,
                made[-1],
                {"a": "x" * 16_000},
                findings=findings,
                data={"a": "x" * 16_000},
                note="é" * 4_000,
            )
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        query = {"state": "all", "limit": 100, **({"cursor": cursor} if cursor else {})}
        page = w.ok("GET", "P/decisions", query=query, token="owner")
        assert len(json.dumps(page)) < 6_000_000
        assert page["items"]
        seen += [each["id"] for each in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert sorted(seen) == sorted(made)


# ---- ids


@pytest.mark.parametrize(
    "make",
    [
        lambda job: "dec_",
        lambda job: "dec",
        lambda job: "dec_x_1",
        lambda job: f"dec_{job}",
        lambda job: f"dec_{job}_",
        lambda job: f"dec_{job}_0",
        lambda job: f"dec_{job}_03",
        lambda job: f"dec_{job}_3x",
        lambda job: f"dec_{job}_٣",
        lambda job: f"dec_{job}_-3",
        lambda job: f"dec_{job}_3_3",
        lambda job: f"dec_{job}_99999999999999999999",
        lambda job: f"DEC_{job}_3",
        lambda job: f"job_{job}",
        lambda job: f"dec_{job}_3#",
        lambda job: f"dec__{job}_3",
        lambda job: "dec_" + "x" * 90 + "_3",
        lambda job: f"dec_{job}_3\0",
        lambda job: f" dec_{job}_3",
        lambda job: "..",
    ],
    ids=range(20),
)
def test_what_is_no_id_is_not_found(w: CheckedWorld, make: Any) -> None:
    from urllib.parse import quote

    job, fence = held(w)
    made = ask(w, job, fence)
    assert made["id"] == f"dec_{job.removeprefix('job_')}_3"
    name = quote(make(job.removeprefix("job_")), safe="")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/answer", {"answer": "a"}),
        ("POST", "/withdraw", {}),
    ):
        w.refused("not_found", method, f"P/decisions/{name}{path}", body, token="owner")


def test_another_projects_decision_is_not_found(w: CheckedWorld) -> None:
    job, fence = held(w)
    made = ask(w, job, fence)
    other = w.project()
    w.enrol_in(other, "stranger")
    for token in ("owner", "stranger"):
        w.refused("not_found", "GET", f"{other}/decisions/{made['id']}", token=token)
        w.refused("not_found", "POST", f"{other}/decisions/{made['id']}/answer", {"answer": "a"}, token=token)
    w.refused("not_found", "GET", f"P/decisions/{made['id']}", token="stranger")
    assert w.ok("GET", f"{other}/decisions", query={"state": "all", "job": job}, token="owner")["items"] == []


@pytest.mark.parametrize(
    "query", [{"state": "moot"}, {"job": "A"}, {"role": "A"}, {"limit": "0"}, {"cursor": "x"}, {"x": "1"}]
)
def test_queries_that_are_none(w: CheckedWorld, query: dict[str, str]) -> None:
    code = {"x": "unknown_field", "cursor": "bad_cursor"}.get(next(iter(query)), "invalid")
    w.refused(code, "GET", "P/decisions", query=query)


def test_a_cursor_is_of_the_list_that_it_came_from(w: CheckedWorld) -> None:
    job, fence = held(w)
    for _ in range(3):
        ask(w, job, fence, **QUESTION, wait=False)
    first = w.ok("GET", "P/decisions", query={"limit": 1})
    query = {"limit": 1, "cursor": first["next_cursor"]}
    assert len(w.ok("GET", "P/decisions", query=query)["items"]) == 1
    for other in ({"state": "all"}, {"job": job}, {"role": "qa"}):
        w.refused("bad_cursor", "GET", "P/decisions", query={**query, **other})


@pytest.mark.parametrize("state", ["open", "all"])
@pytest.mark.parametrize("of_job", [False, True])
def test_pages_show_each_decision_once(w: CheckedWorld, state: str, of_job: bool) -> None:
    job, fence = held(w)
    made = []
    for number in range(12):
        w.clock.advance(1)
        made.append(ask(w, job, fence, **QUESTION, wait=False)["id"])
        if number % 3 == 2:
            reply(w, made[-1], "a")
    wanted = [each for n, each in enumerate(made) if state == "all" or n % 3 != 2]
    seen, cursor = [], None
    for _ in range(20):
        query = {
            "state": state,
            "limit": 5,
            **({"job": job} if of_job else {}),
            **({"cursor": cursor} if cursor else {}),
        }
        page = w.ok("GET", "P/decisions", query=query)
        seen += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(wanted)
    if not of_job:
        assert seen == (wanted if state == "open" else wanted[::-1])
