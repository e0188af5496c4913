"""Agents, owners and their tokens: enrol, change, rotate, revoke, retire."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.world import START
from tests.unit.checked import CheckedWorld, checked

from interlock.app import bootstrap
from interlock.errors import InterlockError

PEOPLE = {"agent": "P/agents", "owner": "P/owners", "installation": "/v1/owners"}
BODY = {"agent": {"label": "b", "roles": ["qa"]}, "owner": {"label": "b"}, "installation": {"label": "b"}}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


def enrol(w: CheckedWorld, kind: str, name: str = "b", **more: Any) -> tuple[str, dict[str, Any]]:
    """(path of the new identity, what its creation answered)."""
    made = w.ok("POST", PEOPLE[kind], {**BODY[kind], "label": name, **more}, token="owner")
    w.agents[name] = made["token"]
    shown = made["agent" if kind == "agent" else "owner"]
    return f"{PEOPLE[kind]}/{shown['id']}", made


def works(w: CheckedWorld, token: str) -> str | None:
    """The code with which a token is refused, or None."""
    return w.call("GET", "P/me", token=token).code


# ---- enrolment


def test_an_enrolled_agent_and_its_token(w: CheckedWorld) -> None:
    reply = w.call(
        "POST",
        "P/agents",
        {
            "label": "Bot é",
            "roles": ["qa", "developer", "qa"],
            "tool_family": "codex",
            "capabilities": ["gpu"],
        },
        token="owner",
    )
    assert (reply.status, reply.headers["etag"]) == (201, '"v1"')
    agent, token = reply.body["agent"], reply.body["token"]
    (kept,) = agent.pop("tokens")
    assert {**agent, "id": "", "digest": ""} == {
        "id": "", "label": "Bot é", "roles": ["qa", "developer"], "capabilities": ["gpu"], "tool_family": "codex",
        "created_at": "2026-11-30T21:00:00.000Z", "retired_at": None, "version": 1, "digest": "",
        "max_claims": None, "stop": None,
    }  # fmt: skip
    assert token.startswith(f"il_agt_default.{agent['id']}.")
    assert len(token.rpartition(".")[2]) == 43, "256 bits"
    assert (kept["name"], kept["live"], kept["expires_at"], kept["revoked_at"]) == ("first", True, None, None)
    assert works(w, token) is None


def test_owners_of_a_project_and_of_the_installation(w: CheckedWorld) -> None:
    _, made = enrol(w, "owner", "p", rights="viewer")
    assert (made["owner"]["rights"], made["owner"]["scope"]) == ("viewer", "default")
    assert made["token"].startswith(f"il_own_default.{made['owner']['id']}.")
    _, made = enrol(w, "installation", "i")
    assert (made["owner"]["rights"], made["owner"]["scope"]) == ("owner", "installation")
    assert made["token"].startswith("il_own_installation.own_")
    assert works(w, "p") is works(w, "i") is None


@pytest.mark.parametrize("kind", PEOPLE)
def test_a_repeated_enrolment_answers_without_the_token(w: CheckedWorld, kind: str) -> None:
    first = w.call("POST", PEOPLE[kind], BODY[kind], token="owner", key="K")
    again = w.call("POST", PEOPLE[kind], BODY[kind], token="owner", key="K")
    shown = "agent" if kind == "agent" else "owner"
    assert (first.status, again.status, again.headers["idempotency-replayed"]) == (201, 200, "true")
    assert again.body[shown] == first.body[shown]
    assert "token" not in again.body
    assert "otate" in again.body["hint"]
    w.refused(
        "idempotency_mismatch", "POST", PEOPLE[kind], {**BODY[kind], "label": "c"}, token="owner", key="K"
    )


def test_agents_need_live_roles_to_begin_with(w: CheckedWorld) -> None:
    refused = w.refused(
        "unknown_role", "POST", "P/agents", {"label": "b", "roles": ["qa", "chef"]}, token="owner"
    )
    assert [error["path"] for error in refused.body["errors"]] == ["roles"]
    w.refused("invalid", "POST", "P/agents", {"label": "b", "roles": []}, token="owner")


@pytest.mark.parametrize("kind", PEOPLE)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_lists_page_through_everybody(w: CheckedWorld, kind: str, limit: int) -> None:
    made = {enrol(w, kind, f"n{number}")[0].rpartition("/")[2] for number in range(5)}
    found: list[str] = []
    cursor = None
    while True:
        page = w.ok(
            "GET",
            PEOPLE[kind],
            token="owner",
            query={"limit": limit, **({"cursor": cursor} if cursor else {})},
        )
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert made <= set(found)
    assert len(found) == len(set(found)) == 5 + (kind != "owner")


def test_an_agent_reads_itself_only(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    other, _ = enrol(w, "agent", "c")
    w.viewer()
    for token in ("b", "owner", "viewer"):
        assert w.ok("GET", path, token=token)["agent"] == made["agent"]
    w.refused("not_found", "GET", other, token="b")


# ---- changes


def test_changes_of_an_agent_bind_its_next_call(w: CheckedWorld) -> None:
    path, _ = enrol(w, "agent")
    shown = w.ok(
        "PATCH",
        path,
        {"label": "new", "roles": ["ops", "ops"], "capabilities": ["gpu"], "tool_family": "x"},
        token="owner",
    )["agent"]
    assert (shown["label"], shown["roles"], shown["capabilities"], shown["tool_family"]) == (
        "new",
        ["ops"],
        ["gpu"],
        "x",
    )
    me = w.ok("GET", "P/me", token="b")
    assert (me["actor"]["label"], me["roles"], me["capabilities"]) == ("new", ["ops"], ["gpu"])
    assert w.ok("PATCH", path, {"tool_family": None}, token="owner")["agent"]["tool_family"] is None
    assert w.ok("PATCH", path, {"tool_family": None}, token="owner")["agent"]["version"] == 3, (
        "no change, no event"
    )
    w.refused("unknown_role", "PATCH", path, {"roles": ["chef"]}, token="owner")
    w.refused("invalid", "PATCH", path, {"label": None}, token="owner")


def test_a_role_taken_away_leaves_running_work_to_its_holder(w: CheckedWorld) -> None:
    path, _ = enrol(w, "agent", roles=["qa", "ops"])
    job = w.job(role="qa")
    fence = w.claim(job, "b")
    w.ok("PATCH", path, {"roles": ["ops"]}, token="owner")
    w.ok("POST", f"P/jobs/{job}/complete", {"fence": fence}, token="b")


@pytest.mark.parametrize("path", ["P/roles/qa", "P", "agent"])
def test_if_match_is_optional_here_and_binds_when_sent(w: CheckedWorld, path: str) -> None:
    if path == "agent":
        path, _ = enrol(w, "agent")
    body = {"title": "New"} if path == "P" else {"label": "New"}
    w.refused("version_mismatch", "PATCH", path, body, token="owner", headers={"If-Match": '"v99"'})
    version = w.call("GET", "P" if path.startswith("P/roles") else path, token="owner").headers["etag"]
    reply = w.call("PATCH", path, body, token="owner", headers={"If-Match": version})
    assert reply.status == 200
    assert reply.headers["etag"] != version


# ---- tokens


@pytest.mark.parametrize("kind", PEOPLE)
def test_further_tokens_work_beside_the_first(w: CheckedWorld, kind: str) -> None:
    path, _ = enrol(w, kind)
    reply = w.call("POST", f"{path}/tokens", {"name": "laptop"}, token="owner")
    assert reply.status == 201
    assert works(w, reply.body["token"]) is works(w, "b") is None


@pytest.mark.parametrize("kind", PEOPLE)
def test_a_token_expires(w: CheckedWorld, kind: str) -> None:
    path, _ = enrol(w, kind)
    token = w.ok("POST", f"{path}/tokens", {"expires_in": 60}, token="owner")["token"]
    w.clock.advance(59.999)
    assert works(w, token) is None
    w.clock.advance(0.001)
    assert works(w, token) == "token_expired"
    assert works(w, "b") is None


@pytest.mark.parametrize("kind", PEOPLE)
def test_a_revoked_token_ends_with_the_answer(w: CheckedWorld, kind: str) -> None:
    path, _ = enrol(w, kind)
    made = w.ok("POST", f"{path}/tokens", {}, token="owner")
    answer = w.ok("DELETE", f"{path}/tokens/{made['id']}", token="owner")
    assert answer == {"id": made["id"], "revoked": True}
    assert works(w, made["token"]) == "token_revoked"
    assert works(w, "b") is None
    version = w.call("DELETE", f"{path}/tokens/{made['id']}", token="owner").headers["etag"]
    assert version == '"v3"', "revoking again changes nothing"
    w.refused("not_found", "DELETE", f"{path}/tokens/tok_none", token="owner")
    w.refused("wrong_state", "POST", f"{path}/tokens/{made['id']}/rotate", {}, token="owner")


@pytest.mark.parametrize("kind", PEOPLE)
def test_a_rotated_token_ends_after_its_grace_time(w: CheckedWorld, kind: str) -> None:
    path, made = enrol(w, kind)
    first = made["agent" if kind == "agent" else "owner"]["tokens"][0]["id"]
    second = w.ok("POST", f"{path}/tokens/{first}/rotate", {"grace_seconds": 10}, token="owner")
    assert works(w, "b") is works(w, second["token"]) is None
    w.clock.advance(10)
    assert works(w, "b") == "token_expired"
    assert works(w, second["token"]) is None
    third = w.ok("POST", f"{path}/tokens/{second['id']}/rotate", {"grace_seconds": 0}, token="owner")
    assert works(w, second["token"]) == "token_revoked"
    assert works(w, third["token"]) is None


def test_the_grace_time_is_an_hour_and_never_prolongs(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    first = made["agent"]["tokens"][0]["id"]
    w.ok("POST", f"{path}/tokens/{first}/rotate", {}, token="owner")
    short = w.ok("POST", f"{path}/tokens", {"expires_in": 30, "name": "short"}, token="owner")
    w.ok("POST", f"{path}/tokens/{short['id']}/rotate", {}, token="owner")
    ends = {t["id"]: t["expires_at"] for t in w.ok("GET", path, token="owner")["agent"]["tokens"]}
    assert ends[first] == "2026-11-30T22:00:00.000Z"
    assert ends[short["id"]] == "2026-11-30T21:00:30.000Z"


def test_a_rotated_token_keeps_its_name(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    second = w.ok("POST", f"{path}/tokens/{made['agent']['tokens'][0]['id']}/rotate", {}, token="owner")
    names = {t["id"]: t["name"] for t in w.ok("GET", path, token="owner")["agent"]["tokens"]}
    assert names[second["id"]] == "first"


@pytest.mark.parametrize("verb", ["tokens", "rotate"])
def test_a_repeated_token_creation_answers_without_the_token(w: CheckedWorld, verb: str) -> None:
    path, made = enrol(w, "agent")
    path += "/tokens" if verb == "tokens" else f"/tokens/{made['agent']['tokens'][0]['id']}/rotate"
    first = w.call("POST", path, {}, token="owner", key="K")
    before = w.everything()
    again = w.call("POST", path, {}, token="owner", key="K")
    assert (first.status, again.status, again.headers["idempotency-replayed"]) == (201, 200, "true")
    assert again.body["id"] == first.body["id"]
    assert "token" not in again.body
    assert "otate" in again.body["hint"]
    assert w.everything() == before


def test_ten_live_tokens_and_one_more_while_one_is_replaced(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    for _ in range(9):
        w.ok("POST", f"{path}/tokens", {}, token="owner")
    w.refused("limit_reached", "POST", f"{path}/tokens", {}, token="owner")
    first = made["agent"]["tokens"][0]["id"]
    second = w.ok("POST", f"{path}/tokens/{first}/rotate", {}, token="owner")["id"]
    w.refused("limit_reached", "POST", f"{path}/tokens/{second}/rotate", {}, token="owner")
    w.clock.advance(3_600)
    w.ok("POST", f"{path}/tokens/{second}/rotate", {"grace_seconds": 0}, token="owner")


def test_ended_tokens_are_forgotten_in_the_end(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    current = made["agent"]["tokens"][0]["id"]
    for _ in range(15):
        current = w.ok("POST", f"{path}/tokens/{current}/rotate", {"grace_seconds": 0}, token="owner")["id"]
    shown = w.ok("GET", path, token="owner")["agent"]["tokens"]
    assert len(shown) == 11
    assert works(w, "b") == "token_invalid", "too long ago to be told apart"


# ---- retirement


def test_a_retired_agent_is_locked_out_and_its_work_goes_back(w: CheckedWorld) -> None:
    path, _ = enrol(w, "agent", roles=["developer"])
    jobs = [w.job() for _ in range(3)]
    for job in jobs:
        w.claim(job, "b")
    w.ok("POST", f"P/jobs/{jobs[1]}/block", {"fence": 1, "reason": "r"}, token="b")
    shown = w.ok("DELETE", path, token="owner")["agent"]
    assert shown["retired_at"]
    assert not any(token["live"] for token in shown["tokens"])
    assert works(w, "b") == "token_revoked"
    for job in jobs:
        assert w.get(job)["status"] == "published"
        assert w.types(job)[-1] == "job.stopped"
        assert w.get(job)["retry_count"] == 0
    before = w.everything()
    assert w.ok("DELETE", path, token="owner")["agent"] == shown, "again changes nothing"
    assert w.everything() == before
    w.refused("wrong_state", "PATCH", path, {"label": "x"}, token="owner")
    w.refused("wrong_state", "POST", f"{path}/tokens", {}, token="owner")


def test_a_claim_that_slips_in_during_retirement_is_stopped_by_the_dispatcher(w: CheckedWorld) -> None:
    path, _ = enrol(w, "agent", roles=["developer"])
    job = w.job()
    from interlock.app import identity

    original = identity.timers.empty_hands
    try:
        identity.timers.empty_hands = lambda *_: 0  # the process dies here
        w.claim(job, "b")
        w.ok("DELETE", path, token="owner")
    finally:
        identity.timers.empty_hands = original
    assert w.get(job)["status"] == "in_progress"
    w.clock.advance(30)  # calls that were under way have ended
    w.pump()
    assert w.get(job)["status"] == "published"


@pytest.mark.parametrize("kind", ["owner", "installation"])
def test_a_removed_owner_is_locked_out(w: CheckedWorld, kind: str) -> None:
    path, _ = enrol(w, kind)
    shown = w.ok("DELETE", path, token="owner")["owner"]
    assert shown["removed_at"]
    assert works(w, "b") == "token_revoked"
    assert w.ok("DELETE", path, token="owner")["owner"] == shown
    w.refused("wrong_state", "POST", f"{path}/tokens", {}, token="owner")


@pytest.mark.parametrize("kind", ["owner", "installation"])
def test_an_owner_cannot_remove_itself(w: CheckedWorld, kind: str) -> None:
    path, _ = enrol(w, kind)
    w.refused("in_use", "DELETE", path, token="b")


def test_the_ledger_of_an_identity(w: CheckedWorld) -> None:
    path, made = enrol(w, "agent")
    token = made["agent"]["tokens"][0]["id"]
    w.ok("PATCH", path, {"label": "new"}, token="owner")
    second = w.ok("POST", f"{path}/tokens", {}, token="owner")["id"]
    w.ok("POST", f"{path}/tokens/{token}/rotate", {}, token="owner")
    w.ok("DELETE", f"{path}/tokens/{second}", token="owner")
    w.ok("DELETE", path, token="owner")
    w.dispatch()
    entity = f"agent/{made['agent']['id']}"
    events = [
        e
        for e in w.ok("GET", "P/events", token="owner", query={"limit": 100})["items"]
        if e["entity"] == entity
    ]
    assert [event["type"] for event in events] == [
        "agent.created", "agent.updated", "token.created", "token.rotated", "token.revoked", "agent.retired",
    ]  # fmt: skip
    assert events[1]["data"] == {"changes": {"label": ["b", "new"]}}
    assert events[4]["data"] == {"token": second}


# ---- the first owner


def test_bootstrap_makes_one_owner_and_recovers_another() -> None:
    w = checked()
    token = bootstrap.first_owner(w.bus)
    assert w.ok("GET", "/v1/projects", token=token)["items"]
    with pytest.raises(InterlockError) as refused:
        bootstrap.first_owner(w.bus)
    assert refused.value.code == "already_exists"
    assert "recover" in refused.value.hint
    another = bootstrap.first_owner(w.bus, recover=True)
    assert another != token
    labels = {owner["label"] for owner in w.ok("GET", "/v1/owners", token=another)["items"]}
    assert {"first owner", "recovered owner"} <= labels


def test_bootstrap_twice_at_once_leaves_one_owner() -> None:
    w = checked()
    table, get, won = w.bus.store.table, w.bus.store.table.get, []

    def raced(key: Any, **more: Any) -> Any:
        found = get(key, **more)
        if key.sk == "FIRST" and not won:
            won.append("")
            won[0] = bootstrap.first_owner(w.bus)
        return found

    table.get = raced  # type: ignore[method-assign]
    with pytest.raises(InterlockError) as refused:
        bootstrap.first_owner(w.bus)
    assert refused.value.code == "already_exists"
    live = [
        o
        for o in w.ok("GET", "/v1/owners", token=won[0])["items"]
        if o["label"] == "first owner" and not o["removed_at"]
    ]
    assert len(live) == 1
    assert w.clock.now == START
