"""What cannot be read: JSON, content types, methods, paths, ids, headers, queries, cursors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import ACCEPTED, WITH_BODY, arranged

from interlock.edges.operations import OPERATIONS

JOB = {"summary": "work", "role": "developer"}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- JSON

MALFORMED: dict[str, tuple[bytes, str]] = {
    "nothing but white space and a comma": (b" , ", "malformed_json"),
    "not json": (b"summary=work", "malformed_json"),
    "half": (b'{"reason": "r"', "malformed_json"),
    "two": (b"{}{}", "malformed_json"),
    "trailing comma": (b'{"reason":"r",}', "malformed_json"),
    "single quotes": (b"{'reason':'r'}", "malformed_json"),
    "nan": (b'{"reason":NaN}', "malformed_json"),
    "infinity": (b'{"data":{"a":[-Infinity]}}', "malformed_json"),
    "1e999": (b'{"data":1e999}', "malformed_json"),
    "1,001 digits": (b'{"fence":' + b"1" * 1_001 + b"}", "malformed_json"),
    "5,000 digits": (b'{"fence":' + b"1" * 5_000 + b"}", "malformed_json"),
    "depth 65": (b'{"data":' + b"[" * 64 + b"]" * 64 + b"}", "malformed_json"),
    "depth 200,000": (b"[" * 200_000, "malformed_json"),
    "deep objects": (b'{"a":' * 100_000, "malformed_json"),
    "duplicate": (b'{"reason":"a","reason":"b"}', "duplicate_key"),
    "duplicate escaped": (b'{"reason":"a","r\\u0065ason":"b"}', "duplicate_key"),
    "duplicate inside": (b'{"data":{"x":[{"a":1,"a":2}]}}', "duplicate_key"),
    "byte order mark": (b'\xef\xbb\xbf{"reason":"r"}', "malformed_json"),
    "utf-16": ('{"reason":"r"}'.encode("utf-16"), "malformed_json"),
    "latin-1": ('{"reason":"é"}'.encode("latin-1"), "malformed_json"),
    "surrogate bytes": (b'{"reason":"\xed\xa0\x80"}', "malformed_json"),
    "overlong": (b'{"reason":"\xc0\xaf"}', "malformed_json"),
    "raw control": (b'{"reason":"a\x01b"}', "malformed_json"),
    "raw nul": (b'{"reason":"r"}\x00', "malformed_json"),
    "bad escape": (b'{"reason":"\\q"}', "malformed_json"),
    "gzip": (b"\x1f\x8b\x08\x00\x00", "malformed_json"),
}


@pytest.mark.parametrize("operation", WITH_BODY)
def test_malformed_bodies_of_every_operation(operation: str) -> None:
    w = checked()
    sent = arranged(w, operation)
    before = w.everything()
    for name, (raw, code) in MALFORMED.items():
        reply = sent.by(w, body=None, raw=raw)
        assert reply.code == code, (name, reply.body)
    assert w.everything() == before


def test_a_depth_of_64_is_read(w: CheckedWorld) -> None:
    deep: Any = {}
    for _ in range(61):
        deep = [deep]
    job = w.ok("POST", "P/jobs", {**JOB, "context": {"a": deep}})["job"]
    assert w.get(job["id"])["context"] == {"a": deep}
    w.refused("malformed_json", "POST", "P/jobs", {**JOB, "context": {"a": [deep]}})


def test_text_in_the_event_that_is_not_utf8_is_refused(w: CheckedWorld) -> None:
    w.refused("malformed_json", "POST", "P/jobs", raw='{"summary":"\ud800","role":"developer"}')


def test_a_base64_body_that_is_none(w: CheckedWorld) -> None:
    from interlock.edges.http import handler_for

    event = {
        "body": "%%%",
        "isBase64Encoded": True,
        "headers": {},
        "pathParameters": {"project": "default"},
        "requestContext": {"requestId": "test"},
    }
    answer = handler_for("jobs.create")(event, None)
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    "event", [{}, {"headers": None, "pathParameters": None, "requestContext": None, "body": None}]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_empty_event_is_answered(w: CheckedWorld, operation: str, event: dict[str, Any]) -> None:
    from interlock.edges.http import handler_for

    w.ok("GET", "/health", token=None)
    answer = handler_for(operation)(event, None)
    assert answer["statusCode"] == (200 if operation in ("system.health", "system.openapi") else 401)


@pytest.mark.parametrize("raw", ["", " ", "\n\t "])
def test_an_empty_body_is_an_empty_object(w: CheckedWorld, raw: str) -> None:
    job, _ = w.job_in("failed")
    assert w.call("POST", f"P/jobs/{job}/restart", raw=raw).status == 200
    w.refused("invalid", "POST", "P/jobs", raw=raw)


def test_a_body_where_none_is_wanted_is_not_looked_at(w: CheckedWorld) -> None:
    w.ok("GET", "P/jobs", raw=b"{{{{")
    w.ok("DELETE", "P/roles/qa", raw=b"\xff", token="owner")


# ---- content types


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/json;x=y",
        "application/merge-patch+json",
    ],
)
def test_accepted_content_types(w: CheckedWorld, kind: str) -> None:
    w.ok("POST", "P/jobs", JOB, headers={"content-type": kind})


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "é",
    ],
)
def test_other_content_types(w: CheckedWorld, kind: str) -> None:
    w.refused("unsupported_media_type", "POST", "P/jobs", JOB, headers={"content-type": kind})
    assert w.call("GET", "P/jobs", headers={"content-type": kind}).status == 200


def test_no_content_type_is_taken_for_json(w: CheckedWorld) -> None:
    from interlock.edges.http import handler_for

    event = {
        "body": json.dumps(JOB), "headers": {"Authorization": f"Bearer {w.agent}"}, "pathParameters": {"project": "default"},
        "requestContext": {"requestId": "test"},
    }  # fmt: skip
    w.ok("GET", "/health", token=None)
    assert handler_for("jobs.create")(event, None)["statusCode"] == 201


# ---- methods and paths


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "BREW", ""])
def test_wrong_methods_name_the_right_ones(w: CheckedWorld, method: str) -> None:
    refused = w.refused("method_not_allowed", method, "P/jobs")
    assert refused.headers["allow"] == "GET, POST"
    assert "GET, POST" in refused.body["detail"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_method_that_no_operation_of_the_path_has(w: CheckedWorld, operation: str) -> None:
    path = OPERATIONS[operation].path.replace("{", "").replace("}", "")
    refused = w.call("PURGE", path, token=None)
    assert refused.code == "method_not_allowed"
    assert OPERATIONS[operation].method in refused.headers["allow"].split(", ")


@pytest.mark.parametrize(
    "path",
    ["/", "", "/v1", "/v1/", "/v2/projects", "/v1/projects/", "/v1/projects/default/", "/v1/projects/default/job", "//v1/projects", "/V1/projects",
     "/v1/projects/default/jobs/", "/v1/projects/default/jobs//claim", "/v1/projects/default/jobs/x/claim/y", "/v1/projects//jobs", "/health/",
     "/v1/projects/default/jobs?x", "/.well-known/x", "/v1/projects/default/flows", "/v1/projects/default/plans/x", "/mcp", "/é", "/%00", "*"],
)  # fmt: skip
def test_paths_that_are_not(w: CheckedWorld, path: str) -> None:
    for method in ("GET", "POST"):
        refused = w.call(method, path)
        assert refused.code == "not_found"
        assert "openapi" in refused.body["hint"]


HOSTILE_IDS = (
    "..", ".", "%2e%2e", "a/b", "../default", "a#b", "default#job#x", "HEAD", "job_x#HEAD", "JOB_X", "a b", " ", "\0", "a\n", "é", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "x" * 81, "x" * 5_000, "-x", "_x", "'", '"', ";--", "{job}", "*", "a%23b", "a%2Fb", "~", "😀", "١",
)  # fmt: skip


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if "{" in OPERATIONS[name].path])
def test_hostile_ids_in_paths_are_not_found(w: CheckedWorld, operation: str) -> None:
    row = OPERATIONS[operation]
    sent = arranged(w, operation)
    whole = "/v1/projects/default" + sent.path[1:] if sent.path.startswith("P") else sent.path
    before = w.everything()
    for place, part in enumerate(row.path.split("/")):
        if not part.startswith("{"):
            continue
        for hostile in HOSTILE_IDS:
            steps = whole.split("/")
            steps[place] = quote(hostile, safe="")
            reply = w.call(
                row.method, "/".join(steps), sent.body, token=sent.token, headers=dict(sent.headers)
            )
            assert reply.code == "not_found", (hostile, reply.body)
            assert hostile not in json.dumps(reply.body) or len(hostile) < 4
    assert w.everything() == before


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if "{" in OPERATIONS[name].path])
def test_unknown_ids_in_paths_are_not_found(w: CheckedWorld, operation: str) -> None:
    row = OPERATIONS[operation]
    sent = arranged(w, operation)
    whole = "/v1/projects/default" + sent.path[1:] if sent.path.startswith("P") else sent.path
    before = w.everything()
    for place, part in enumerate(row.path.split("/")):
        if part.startswith("{"):
            steps = whole.split("/")
            steps[place] = steps[place][:-2] + "zz"
            reply = w.call(
                row.method, "/".join(steps), sent.body, token=sent.token, headers=dict(sent.headers)
            )
            assert reply.code == "not_found"
    assert w.everything() == before


# ---- headers


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb", "a\nb", "\x7f", "\0", "😀"])
def test_malformed_idempotency_keys(w: CheckedWorld, key: str) -> None:
    refused = w.refused("malformed_request", "POST", "P/jobs", JOB, headers={"Idempotency-Key": key})
    assert "255" in refused.body["detail"]


@pytest.mark.parametrize("key", [" ", "x" * 255, "~!@#$%^&*()", "a b"])
def test_accepted_idempotency_keys(w: CheckedWorld, key: str) -> None:
    first = w.call("POST", "P/jobs", JOB, headers={"Idempotency-Key": key})
    assert w.call("POST", "P/jobs", JOB, headers={"idempotency-key": key}).body == first.body


def test_an_idempotency_key_means_nothing_outside_post(w: CheckedWorld) -> None:
    job = w.job()
    assert w.call("GET", f"P/jobs/{job}", headers={"Idempotency-Key": "é" * 300}).status == 200
    assert w.call("DELETE", "P/roles/qa", headers={"Idempotency-Key": ""}, token="owner").status == 200


@pytest.mark.parametrize(
    "operation", ["jobs.edit", "agents.update", "roles.update", "projects.update", "jobs.get", "jobs.create"]
)
def test_a_malformed_if_match_is_refused_everywhere(operation: str) -> None:
    w = checked()
    sent = arranged(w, operation)
    before = w.everything()
    assert sent.by(w, headers={"If-Match": "nonsense"}).code == "malformed_request"
    assert w.everything() == before


# ---- queries


@pytest.mark.parametrize(
    "operation", [name for name in ACCEPTED if name not in ("system.health", "system.openapi")]
)
@pytest.mark.parametrize(
    "query", ["nonsense=1", "é=1", "%F0=1", "Limit=1", "=1", "a", "&&x", "limit[]=1", "%00=%00"]
)
def test_unknown_parameters_are_refused(operation: str, query: str) -> None:
    w = checked()
    sent = arranged(w, operation)
    before = w.everything()
    assert sent.by(w, query=query).code == "unknown_field"
    assert w.everything() == before


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=-1", "limit=", "limit=1.0", "limit=+1", "limit=%201", "limit=1e1", "limit=١", "limit=999999999999999999999",
     "limit=x", "limit=1&limit=2", "status=", "status=Published", "status=open", "status=published,failed", "role=", "role=A", "role=%23",
     "order=", "order=Newest", "order=random", "assignee=", "assignee=A", "assignee=a%23b", "source=%00", "parent=..", "external_id=",
     "q=", "q=%20", "q=" + "x" * 201, "cursor=", "cursor=" + "x" * 501, "q=a&q=b", "external_id=a&external_id=a"],
)  # fmt: skip
def test_values_are_refused_and_never_clamped(w: CheckedWorld, query: str) -> None:
    refused = w.refused("invalid", "GET", "P/jobs", query=query)
    assert refused.body["errors"][0]["path"].split("/")[0] == query.partition("=")[0]


@pytest.mark.parametrize("path", ["P/events", "events"])
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "last=0", "last=1001", "last=", "after=", "cursor="]
)
def test_values_of_event_lists(w: CheckedWorld, path: str, query: str) -> None:
    path = f"P/jobs/{w.job()}/events" if path == "events" else path
    known = ("limit", "cursor") if "jobs" in path else ("limit", "last", "after")
    reply = w.call("GET", path, query=query)
    assert reply.code == ("invalid" if query.partition("=")[0] in known else "unknown_field")


@pytest.mark.parametrize(
    "query",
    ["limit=1", "limit=100", "q=%00", "q=%F0%9F%98%80", "q=%ff", "q=a%2Bb+c", "external_id=%23", "limit=007"],
)
def test_accepted_values(w: CheckedWorld, query: str) -> None:
    w.ok("GET", "P/jobs", query=query)


def test_too_many_parameters_cannot_be_read(w: CheckedWorld) -> None:
    w.refused("malformed_request", "GET", "P/jobs", query="&".join(["role=qa"] * 201))
    assert w.call("GET", "P/jobs", query="&".join(["role=qa"] * 200)).status == 200
