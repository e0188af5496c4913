"""Corners where two rules meet: roles that end under a claim, owners that remove each other, compressed bodies."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

JOB = {"summary": "work", "role": "developer"}


@pytest.fixture
def w() -> CheckedWorld:
    return checked()


# ---- roles that end under a claim


@pytest.mark.parametrize("way", ["role deleted", "roles taken away", "visibility narrowed"])
@pytest.mark.parametrize("verb", ["complete", "fail", "release", "block"])
def test_a_claim_can_always_be_ended_by_its_holder(w: CheckedWorld, verb: str, way: str) -> None:
    agent = w.enrol("b", ("qa",))
    job, other = w.job(role="qa"), w.job(role="qa")
    fence = w.claim(job, "b")
    if way == "role deleted":
        w.ok("DELETE", "P/roles/qa", token="owner")
    else:
        w.ok("PATCH", f"P/agents/{agent}", {"roles": []}, token="owner")
    if way == "visibility narrowed":
        w.ok("PATCH", "P", {"settings": {"visibility": "roles"}}, token="owner")
    w.ok("GET", f"P/jobs/{job}", token="b")
    w.refused("not_found", "GET", f"P/jobs/{other}", token="b")
    reason = {} if verb == "complete" else {"reason": "r"}
    w.ok("POST", f"P/jobs/{job}/{verb}", {"fence": fence, **reason}, token="b")
    if verb != "block":
        w.refused("not_found", "GET", f"P/jobs/{job}", token="b")


# ---- owners


def during(w: CheckedWorld, name: str, todo: Any) -> None:
    """Before the next write of this kind, something else happens."""
    table, original, waiting = w.bus.store.table, getattr(w.bus.store.table, name), [todo]

    def late(*given: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(*given)

    setattr(table, name, late)


def test_of_two_owners_who_remove_each_other_one_stays(w: CheckedWorld) -> None:
    a, b = w.person("a"), w.person("b")
    during(w, "transact", lambda: w.ok("DELETE", f"P/owners/{a}", token="b"))
    reply = w.call("DELETE", f"P/owners/{b}", token="a")
    assert (reply.status, reply.code) == (401, "token_revoked")
    left = {item["id"]: item["removed_at"] for item in w.ok("GET", "P/owners", token="owner")["items"]}
    assert left[b] is None
    assert left[a] is not None


def test_an_owner_keeps_a_token_to_come_back_with(w: CheckedWorld) -> None:
    owner = w.person("a")
    path = f"P/owners/{owner}/tokens"
    (first,) = (
        i["tokens"][0]["id"] for i in w.ok("GET", "P/owners", token="owner")["items"] if i["id"] == owner
    )
    w.refused("in_use", "DELETE", f"{path}/{first}", token="a")
    w.ok("POST", path, {}, token="a")
    w.ok("DELETE", f"{path}/{first}", token="a")


def test_owners_are_told_what_asks_for_them(w: CheckedWorld) -> None:
    spent, _ = w.job_in("failed", max_retries=0)
    failed, _ = w.job_in("failed")
    late, _ = w.job_in("in_progress", deadline="2026-11-30T21:00:10Z")
    w.pump()
    w.clock.advance(20)
    w.pump()
    w.viewer()
    for token in ("owner", "viewer"):
        notices = w.ok("GET", "P/me", token=token)["notices"]
        assert {(notice["code"], notice["job"]) for notice in notices} == {
            ("retries_spent", spent),
            ("failed", failed),
            ("overdue", late),
        }


# ---- compressed bodies


def zipped(value: Any) -> bytes:
    return gzip.compress(json.dumps(value).encode(), mtime=0)


@pytest.mark.parametrize("name", ["gzip", "GZIP", " gzip "])
def test_a_gzip_body_is_read(w: CheckedWorld, name: str) -> None:
    w.ok("POST", "P/jobs", raw=zipped(JOB), headers={"content-encoding": name})


@pytest.mark.parametrize("name", ["", "identity"])
def test_no_encoding(w: CheckedWorld, name: str) -> None:
    w.ok("POST", "P/jobs", JOB, headers={"content-encoding": name})


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, gzip", "zstd", "é"])
def test_other_encodings_are_not_understood(w: CheckedWorld, name: str) -> None:
    w.refused("unsupported_media_type", "POST", "P/jobs", raw=zipped(JOB), headers={"content-encoding": name})


@pytest.mark.parametrize("data", [b"", b"{}", zipped(JOB)[:-4], zipped(JOB)[:20], b"\x1f\x8b" + b"\0" * 20])
def test_what_is_no_gzip_cannot_be_read(w: CheckedWorld, data: bytes) -> None:
    reply = w.call("POST", "P/jobs", raw=data, headers={"content-encoding": "gzip"})
    assert reply.status in (400, 422)


def test_the_limit_counts_what_comes_out(w: CheckedWorld) -> None:
    bomb = gzip.compress(b" " * 20_000_000)
    assert len(bomb) < 100_000
    w.refused("too_large", "POST", "P/jobs", raw=bomb, headers={"content-encoding": "gzip"})
    fits = gzip.compress(json.dumps(JOB).encode().ljust(1_000_000))
    w.ok("POST", "P/jobs", raw=fits, headers={"content-encoding": "gzip"})
