"""Credentials that do not authenticate, and objects that are answered as if they did not exist."""

from __future__ import annotations

import json

import pytest
from tests.unit.checked import CheckedWorld, checked
from tests.unit.requests import WITH_CREDENTIAL, arranged

from interlock.edges.operations import OPERATIONS

OF_OBJECTS = [
    name
    for name in WITH_CREDENTIAL
    if OPERATIONS[name].path.startswith(
        tuple(f"/v1/projects/{{project}}/{kind}s/{{" for kind in ("job", "agent", "owner"))
    )
]
"""Operations on an object of a project."""


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def tampered(token: str, place: int) -> str:
    """The token with one character of a part changed: 0 scope, 1 identity, 2 secret."""
    head, parts = token[:7], token[7:].split(".")
    parts[place] = parts[place][:-1] + ("a" if parts[place][-1] != "a" else "b")
    return head + ".".join(parts)


# ---- every operation


@pytest.mark.parametrize("operation", WITH_CREDENTIAL)
def test_every_operation_asks_who_is_calling(operation: str) -> None:
    w = checked()
    agent = w.enrol("gone")
    w.ok("DELETE", f"P/agents/{agent}", token="owner")
    brief = w.ok("POST", f"P/agents/{w.enrol('brief')}/tokens", {"expires_in": 1}, token="owner")["token"]
    sent = arranged(w, operation)
    w.clock.advance(1)
    before = w.everything()
    for token, code in (
        (None, "token_missing"),
        ("nonsense", "token_invalid"),
        (tampered(w.owner, 2), "token_invalid"),
        (w.agents["gone"], "token_revoked"),
        (brief, "token_expired"),
    ):
        reply = sent.by(w, token=token)
        assert (reply.status, reply.code) == (401, code)
        challenge = reply.headers["www-authenticate"]
        assert challenge.startswith(
            'Bearer resource_metadata="https://bus.test/.well-known/oauth-protected-resource"'
        )
        assert ('error="invalid_token"' in challenge) is (code != "token_missing")
    assert w.everything() == before


@pytest.mark.parametrize(
    "operation", [name for name in WITH_CREDENTIAL if "{project}" in OPERATIONS[name].path]
)
def test_a_foreign_projects_credential_finds_nothing(operation: str) -> None:
    w = checked()
    other = w.project()
    w.enrol_in(other, "foreign agent")
    w.person("foreign owner", path=f"{other}/owners")
    sent = arranged(w, operation)
    before = w.everything()
    replies = [sent.by(w, token=token) for token in ("foreign agent", "foreign owner")]
    unknown = w.call(
        sent.method,
        "/v1/projects/nowhere" + sent.path[1:],
        sent.body,
        token=sent.token,
        query=dict(sent.query),
        headers=dict(sent.headers),
    )
    for reply in (*replies, unknown):
        assert (reply.status, reply.code) == (404, "not_found")
        assert reply.body == unknown.body, "not to be told apart"
    assert w.everything() == before


@pytest.mark.parametrize("operation", OF_OBJECTS)
def test_another_projects_object_is_an_unknown_object(operation: str) -> None:
    w = checked()
    other = w.project(roles=("developer", "qa"))
    w.person("here", path=f"{other}/owners")
    w.enrol_in(other, "agent here")
    sent = arranged(w, operation)
    path = other + sent.path[1:]
    steps = path.split("/")
    steps[5] = steps[5][:-2] + "zz"
    before = w.everything()
    token = "agent here" if sent.token == "agent" else "here"
    more = {"token": token, "query": dict(sent.query), "headers": dict(sent.headers)}
    foreign = w.call(sent.method, path, sent.body, **more)
    unknown = w.call(sent.method, "/".join(steps), sent.body, **more)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.body == unknown.body
    assert w.everything() == before


# ---- headers


@pytest.mark.parametrize(
    "form",
    ["{token}", "Basic {token}", "Bearer", "Bearer ", "Bearer: {token}", "Bearer {token} x", "Bearer {token},Bearer {token}", "Bearer\t{token}",
     "Token {token}", "Bearer {token}.", "Bearer .{token}", "Bearer \x00{token}", "é {token}", "Bearer {token}é"],
)  # fmt: skip
def test_malformed_authorization(w: CheckedWorld, form: str) -> None:
    reply = w.call("GET", "P/me", token=None, headers={"Authorization": form.format(token=w.agent)})
    assert (reply.status, reply.code) == (401, "token_invalid")
    assert w.agent.rpartition(".")[2] not in json.dumps(reply.body)


@pytest.mark.parametrize("form", ["Bearer {token}", "bearer {token}", "BEARER  {token}", " Bearer {token} "])
def test_accepted_authorization(w: CheckedWorld, form: str) -> None:
    assert (
        w.call("GET", "P/me", token=None, headers={"AUTHORIZATION": form.format(token=w.agent)}).status == 200
    )


def test_an_empty_header_is_none(w: CheckedWorld) -> None:
    assert w.call("GET", "P/me", token=None, headers={"Authorization": ""}).code == "token_missing"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("who", ["agent", "owner"])
def test_every_part_of_a_token_counts(w: CheckedWorld, who: str, place: int) -> None:
    token = tampered(w.agent if who == "agent" else w.owner, place)
    assert w.call("GET", "P/me", token=token).code == "token_invalid"


def test_a_token_does_not_change_its_kind_or_scope(w: CheckedWorld) -> None:
    other = w.project()
    for token in (
        w.agent.replace("il_agt_", "il_own_"),
        w.owner.replace("il_own_", "il_agt_"),
        w.owner.replace("installation", "default"),
        w.agent.replace("default", "other"),
        w.agent.replace("default", "installation"),
    ):
        assert w.call("GET", "P/me", token=token).status == 401
        assert w.call("GET", f"{other}/me", token=token).status == 401


def test_one_identitys_secret_is_not_anothers(w: CheckedWorld) -> None:
    a, b = w.enrol("a"), w.enrol("b")
    assert w.call("GET", "P/me", token=w.agents["a"].replace(a, b)).code == "token_invalid"


def test_an_unreadable_body_is_said_before_the_credential_is_looked_at(w: CheckedWorld) -> None:
    assert w.call("POST", "P/jobs", raw=b"{", token=None).code == "malformed_json"
    assert (
        w.call("POST", "P/jobs", {}, token=None, headers={"Idempotency-Key": ""}).code == "malformed_request"
    )


def test_the_credential_comes_before_the_object_the_object_before_the_right_the_right_before_the_fields(
    w: CheckedWorld,
) -> None:
    job = w.job()
    w.viewer()
    nonsense = {"nonsense": 1}
    assert w.call("POST", "P/jobs/job_none/stop", nonsense, token=None).status == 401
    assert w.call("POST", "P/jobs/job_none/stop", nonsense, token="viewer").status == 404
    assert w.call("POST", f"P/jobs/{job}/stop", nonsense, token="viewer").status == 403
    assert w.call("POST", f"P/jobs/{job}/stop", nonsense, token="owner").status == 422
    assert w.call("POST", f"P/jobs/{job}/stop", {"reason": "r"}, token="owner").status == 409


def test_replay_comes_before_fence_and_status_and_fence_before_status(w: CheckedWorld) -> None:
    job, fence = w.job_in("in_progress")
    body = {"fence": fence, "reason": "r"}
    w.ok("POST", f"P/jobs/{job}/fail", body, key="K")
    assert w.call("POST", f"P/jobs/{job}/fail", body, key="K").status == 200
    assert (
        w.call("POST", f"P/jobs/{job}/fail", {**body, "fence": fence + 1}, key="K").code
        == "idempotency_mismatch"
    )
    assert w.call("POST", f"P/jobs/{job}/block", {**body, "fence": fence + 1}).code == "lease_lost"
    assert w.call("POST", f"P/jobs/{job}/block", body).code == "wrong_state"


def test_open_operations_ignore_credentials(w: CheckedWorld) -> None:
    for token in (None, "nonsense", "agent"):
        assert w.call("GET", "/health", token=token).status == 200
