"""Artifacts with a verified upload: slot, bytes, verification, download; and everything that goes wrong on the way."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.unit.checked import CheckedWorld, checked

from interlock.app import write
from interlock.domain import limits, times
from interlock.domain.identity import SYSTEM
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.store import items, keys
from interlock.store.ports import Put

DATA = b"all 214 tests passed\n"
SHA = hashlib.sha256(DATA).hexdigest()


def place(job: str, artifact: str) -> str:
    return keys.upload("default", job, artifact)


def tamper(w: CheckedWorld, job: str, artifact: str, data: bytes | None) -> None:
    """What somebody with rights over the bucket can do: other bytes, or none."""
    if data is None:
        del w.engine.blobs._uploads[place(job, artifact)]
    else:
        w.engine.blobs._uploads[place(job, artifact)] = data


def verify(w: CheckedWorld, job: str, artifact: str, **more: Any) -> Any:
    return w.call("POST", f"P/jobs/{job}/artifacts/{artifact}/verify", more.pop("body", {}), **more)


def verified(w: CheckedWorld, job: str, data: bytes = DATA, **more: Any) -> str:
    artifact = w.uploaded(job, data, **more)
    w.ok("POST", f"P/jobs/{job}/artifacts/{artifact}/verify", {})
    return artifact


def read(w: CheckedWorld, job: str, artifact: str) -> Any:
    return w.ok("GET", f"P/jobs/{job}/artifacts/{artifact}", token="owner")


def announced(**other: Any) -> dict[str, Any]:
    return {"type": "log", "name": "tests.log", "size": len(DATA), "sha256": SHA, **other}


class TestSlot:
    def test_it_says_how_to_upload(self) -> None:
        w = checked()
        job = w.job()
        reply = w.call("POST", f"P/jobs/{job}/artifacts", announced(metadata={"suite": "unit"}))
        assert reply.status == 201
        made, upload = reply.body["artifact"], reply.body["upload"]
        assert made["state"] == "awaiting_upload"
        assert made["expires_at"] == times.rfc3339(w.clock.now + 900_000)
        assert (made["name"], made["size"], made["sha256"]) == ("tests.log", len(DATA), SHA)
        assert (made["uri"], made["checksum"]) == (f"upload://{made['id']}", f"sha256:{SHA}")
        assert made["metadata"] == {"suite": "unit"}
        assert "verified_at" not in made
        assert (upload["method"], upload["expires_in"]) == ("PUT", 900)
        assert upload["headers"] == {"content-length": str(len(DATA))}
        assert upload["url"].startswith(f"https://bus.test/blobs/uploads/default/{job}/{made['id']}?")
        assert w.get(job)["artifacts"] == [made]

    def test_the_address_is_the_one_that_the_client_used(self) -> None:
        w = checked()
        headers = {"x-forwarded-proto": "http"}
        made = w.ok("POST", f"P/jobs/{w.job()}/artifacts", announced(), headers=headers)
        assert made["upload"]["url"].startswith("http://bus.test/blobs/")

    def test_it_is_one_change_with_an_event(self) -> None:
        w = checked()
        job = w.job()
        artifact, _ = w.slot(job, DATA)
        assert w.get(job)["version"] == 2
        w.dispatch()
        event = w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"][-1]
        (told,) = event["data"]["artifacts"]
        assert event["type"] == "job.artifact_added"
        assert (told["id"], told["state"], told["size"]) == (artifact, "awaiting_upload", len(DATA))

    def test_it_counts_toward_the_limit(self) -> None:
        w = checked()
        job = w.job(artifacts=[{"type": "log", "uri": "s3://x"}] * 99)
        w.slot(job, DATA)
        reply = w.refused("limit_reached", "POST", f"P/jobs/{job}/artifacts", announced())
        assert "101th" in reply.body["detail"]

    def test_what_the_system_attached_does_not_count(self) -> None:
        w = checked()
        job = w.job(artifacts=[{"type": "log", "uri": "s3://x"}] * 98)
        for number in range(5):
            attached_by_system(w, job, number)
        w.slot(job, DATA)
        verified(w, job)
        assert len(w.get(job)["artifacts"]) == 105
        w.refused("limit_reached", "POST", f"P/jobs/{job}/artifacts", announced())

    def test_all_of_them_are_read_however_many_pages_they_fill(self) -> None:
        w = checked()
        job = w.job()
        wanted = [verified(w, job, b"%d" % number) for number in range(60)]  # two rows each
        for number in range(60):
            attached_by_system(w, job, number)
        shown = w.get(job)["artifacts"]
        assert {made["id"] for made in shown if made["state"] == "verified"} == set(wanted)
        assert len(shown) == 120


def attached_by_system(w: CheckedWorld, job: str, number: int) -> None:
    """As a review's rejection does it."""
    head = items.job(w.bus.store.table.get(keys.head("default", "job", job)) or {})
    name = f"art_{number:026d}"
    key = keys.artifact(keys.partition("default", "job", job), name)
    made = {
        "id": name, "type": "rejection_reason", "uri": "inline://rejection_reason", "checksum": None, "metadata": None,
        "state": "referenced", "author": SYSTEM.as_event(), "created_at": times.rfc3339(w.clock.now),
    }  # fmt: skip
    put = Put(key, {"pk": key.pk, "sk": key.sk, "doc": items.pack(made)})
    fact = Fact("job.artifact_added", head.status, head.status, {})
    change = Change({"later_artifacts": head.later_artifacts + 1}, (fact,))
    write.change(w.bus, head, SYSTEM, w.clock.now, change, parts=[put])


class TestForms:
    @pytest.mark.parametrize(
        ("body", "wrong"),
        [
            ({"type": "log"}, {"uri": "is required; for an upload: name, size and sha256"}),
            (announced(uri="s3://x"), {"uri": "is not for uploads"}),
            (announced(checksum="c"), {"checksum": "is not for uploads"}),
            (
                {"type": "log", "uri": "s3://x", "name": "n"},
                {"uri": "is not for uploads", "size": "is required for an upload", "sha256": "is required for an upload"},
            ),
            (announced(sha256=None), {"sha256": "is required for an upload"}),
            (announced(size=None, name=None), {"size": "is required for an upload", "name": "is required for an upload"}),
        ],
    )  # fmt: skip
    def test_mixtures_and_halves_name_each_field(self, body: Any, wrong: dict[str, str]) -> None:
        w = checked()
        reply = w.refused("invalid", "POST", f"P/jobs/{w.job()}/artifacts", body)
        assert {error["path"]: error["message"] for error in reply.body["errors"]} == wrong

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("size", value) for value in (0, -1, limits.UPLOAD_BYTES + 1, 1.5, "1", True)),
            *(("sha256", value) for value in (SHA.upper(), SHA[:-1], SHA + "0", SHA[:-1] + "g", f"sha256:{SHA}", SHA + "\n", 1)),
            *(("name", value) for value in ("", " ", ".", "..", "a/b", "..\\x", "a\0b", "a\nb", "\u202egnp.exe", "x" * 256, 5)),
        ],
    )  # fmt: skip
    def test_bad_values(self, field: str, value: Any) -> None:
        w = checked()
        reply = w.refused("invalid", "POST", f"P/jobs/{w.job()}/artifacts", announced(**{field: value}))
        assert [error["path"] for error in reply.body["errors"]] == [field]

    @pytest.mark.parametrize(
        "other", [{"size": 1}, {"size": limits.UPLOAD_BYTES}, {"name": "x" * 255}, {"name": "ünï 📄.txt"}, {"uri": None}]
    )  # fmt: skip
    def test_good_values(self, other: dict[str, Any]) -> None:
        w = checked()
        assert w.call("POST", f"P/jobs/{w.job()}/artifacts", announced(**other)).status == 201

    def test_artifacts_of_creation_and_of_a_result_are_references(self) -> None:
        w = checked()
        job, fence = w.job_in("in_progress")
        body = {"fence": fence, "result": {"artifacts": [announced()]}}
        for path, sent in (
            (f"P/jobs/{job}/complete", body),
            ("P/jobs", {"summary": "s", "role": "qa", "artifacts": [announced()]}),
        ):
            reply = w.refused("invalid", "POST", path, sent)
            assert {error["path"].rpartition("/")[2] for error in reply.body["errors"]} == {
                "uri",
                "name",
                "size",
                "sha256",
            }


class TestVerify:
    def test_from_slot_to_download(self) -> None:
        w = checked()
        job = w.job()
        artifact = w.uploaded(job, DATA)
        assert "download" not in read(w, job, artifact)
        w.clock.advance(5)
        reply = verify(w, job, artifact)
        made = reply.body["artifact"]
        assert (reply.status, made["state"], made["verified_at"]) == (
            200,
            "verified",
            times.rfc3339(w.clock.now),
        )
        assert w.get(job)["artifacts"] == [made]
        shown = read(w, job, artifact)
        assert shown["artifact"] == made
        assert shown["download"]["expires_in"] == limits.DOWNLOAD_SECONDS
        ticket = w.engine.blobs.read("GET", shown["download"]["url"].removeprefix("https://bus.test"))
        assert (ticket.key, ticket.name) == (place(job, artifact), "log.txt")
        w.dispatch()
        last = w.ok("GET", f"P/jobs/{job}/events", token="owner")["items"][-1]
        assert (last["type"], last["data"]["artifacts"][0]["state"]) == ("job.artifact_added", "verified")
        assert w.get(job)["version"] == w.get(job)["rev"] == 3

    def test_again_it_answers_the_same_and_writes_nothing(self) -> None:
        w = checked()
        job = w.job()
        artifact = w.uploaded(job, DATA)
        first = verify(w, job, artifact, key="one")
        before = w.everything()
        w.clock.advance(60)
        for key in ("one", "two", None):
            again = verify(w, job, artifact, key=key)
            assert (again.status, again.body) == (200, first.body)
            assert again.headers.get("idempotency-replayed") == ("true" if key == "one" else None)
        assert w.everything() == before

    def test_nothing_has_come_yet(self) -> None:
        w = checked()
        job = w.job()
        artifact, url = w.slot(job, DATA)
        path = f"P/jobs/{job}/artifacts/{artifact}/verify"
        reply = w.refused("wrong_state", "POST", path, {})
        assert "nothing has been uploaded" in reply.body["detail"]
        assert "upload.url" in reply.body["hint"]
        w.clock.advance(900)
        reply = w.refused("wrong_state", "POST", path, {})
        assert "expired" in reply.body["detail"]
        assert "anew" in reply.body["hint"]
        with pytest.raises(Exception, match="expired"):
            w.put(url, DATA)
        assert w.get(job)["artifacts"][0]["state"] == "awaiting_upload"

    def test_a_large_one_may_take_its_time_but_not_for_ever(self) -> None:
        w = checked()
        job = w.job()
        early, late = w.uploaded(job, DATA), w.uploaded(job, DATA)
        w.clock.advance(limits.UPLOAD_SECONDS + limits.VERIFY_SECONDS - 1)
        assert verify(w, job, early, token="owner").status == 200
        w.clock.advance(1)
        reply = w.refused("wrong_state", "POST", f"P/jobs/{job}/artifacts/{late}/verify", {}, token="owner")
        assert "expired" in reply.body["detail"]
        assert w.engine.blobs._until.keys() == {place(job, late)}

    @pytest.mark.parametrize(
        ("other", "fields"),
        [(b"x", {"size", "sha256"}), (b"x" * len(DATA), {"sha256"}), (DATA + b"x", {"size", "sha256"})],
    )
    def test_other_bytes_are_told_apart(self, other: bytes, fields: set[str]) -> None:
        w = checked()
        job = w.job()
        artifact = w.uploaded(job, DATA)
        tamper(w, job, artifact, other)
        reply = w.refused("wrong_state", "POST", f"P/jobs/{job}/artifacts/{artifact}/verify", {})
        assert {error["path"] for error in reply.body["errors"]} == fields
        assert hashlib.sha256(other).hexdigest() in str(reply.body["errors"])
        assert w.get(job)["artifacts"][0]["state"] == "awaiting_upload"

    def test_a_reference_needs_none(self) -> None:
        w = checked()
        job = w.job(artifacts=[{"type": "log", "uri": "s3://x"}])
        later = w.ok("POST", f"P/jobs/{job}/artifacts", {"type": "log", "uri": "s3://y"})["artifact"]["id"]
        for artifact in (w.get(job)["artifacts"][0]["id"], later):
            reply = w.refused("wrong_state", "POST", f"P/jobs/{job}/artifacts/{artifact}/verify", {})
            assert "reference" in reply.body["detail"]

    def test_an_ended_job_takes_none_but_from_an_owner(self) -> None:
        w = checked()
        job = w.job()
        artifact = w.uploaded(job, DATA)
        w.ok("POST", f"P/jobs/{job}/cancel", {"reason": "r"})
        path = f"P/jobs/{job}/artifacts"
        w.refused("wrong_state", "POST", path, announced())
        w.refused("wrong_state", "POST", f"{path}/{artifact}/verify", {})
        assert verify(w, job, artifact, token="owner").status == 200
        assert w.call("POST", path, announced(), token="owner").status == 201

    def test_a_holder_sends_its_fence_and_a_lost_one_is_told(self) -> None:
        w = checked()
        w.enrol("bob")
        job = w.job(token="owner")
        fence = w.claim(job, "bob")
        artifact = w.uploaded(job, DATA, token="bob", body={"fence": fence})
        path = f"P/jobs/{job}/artifacts/{artifact}/verify"
        reply = w.refused("invalid", "POST", path, {}, token="bob")
        assert reply.body["errors"] == [{"path": "fence", "message": "is required"}]
        w.refused("lease_lost", "POST", path, {"fence": fence + 1}, token="bob")
        w.refused("not_holder", "POST", path, {"fence": fence})
        w.refused("forbidden", "POST", path, {})
        w.ok("POST", f"P/jobs/{job}/stop", {"reason": "r"}, token="owner")
        w.refused("stop_requested", "POST", path, {"fence": fence}, token="bob")

    def test_what_is_not_there(self) -> None:
        w = checked()
        job, other = w.job(), w.job()
        artifact = verified(w, job)
        foreign = w.project()
        for path in (
            f"P/jobs/{other}/artifacts/{artifact}",
            f"P/jobs/{job}/artifacts/art_nothing",
            f"P/jobs/{job}/artifacts/{artifact}%23VERIFIED",
            f"{foreign}/jobs/{job}/artifacts/{artifact}",
        ):
            w.refused("not_found", "POST", f"{path}/verify", {}, token="owner")
            w.refused("not_found", "GET", path, token="owner")


class TestRepeats:
    def test_a_repeated_attach_answers_the_slot_as_it_is_now(self) -> None:
        w = checked()
        job = w.job()
        path = f"P/jobs/{job}/artifacts"
        first = w.call("POST", path, announced(), key="k")
        w.ok("POST", path, announced(), key="another")  # the same content; not the same call
        w.clock.advance(100)
        again = w.call("POST", path, announced(), key="k")
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.body["artifact"] == first.body["artifact"]
        assert again.body["upload"]["expires_in"] == 800
        w.clock.advance(700)
        w.put(again.body["upload"]["url"], DATA)
        w.clock.advance(101)
        late = w.call("POST", path, announced(), key="k")
        assert (late.status, late.body) == (200, {"artifact": first.body["artifact"]})
        verify(w, job, first.body["artifact"]["id"])
        done = w.call("POST", path, announced(), key="k")
        assert done.body["artifact"]["state"] == "verified"
        assert "upload" not in done.body
        w.refused("idempotency_mismatch", "POST", path, announced(size=1), key="k")

    @pytest.mark.parametrize(
        "body", [announced(), {"type": "log", "uri": "s3://x"}], ids=["upload", "reference"]
    )
    def test_a_repeat_that_the_head_has_forgotten_makes_nothing_twice(self, body: Any) -> None:
        w = checked()
        job = w.job()
        path = f"P/jobs/{job}/artifacts"
        first = w.ok("POST", path, body, key="k")["artifact"]
        for number in range(limits.OPERATIONS_REMEMBERED):
            w.ok("POST", f"P/jobs/{job}/events", {"type": "custom.x"}, key=str(number))
        before = w.everything()
        again = w.call("POST", path, body, key="k")
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.body["artifact"] == first
        assert w.everything() == before


class TestAlteredLater:
    @pytest.mark.parametrize(
        "data", [None, b"", b"x" * len(DATA), DATA + b"x"], ids=["deleted", "emptied", "same size", "longer"]
    )
    def test_it_is_seen_everywhere_and_is_no_evidence(self, data: bytes | None) -> None:
        w = checked()
        job = w.job(requires=["log"])
        fence = w.claim(job)
        artifact = w.uploaded(job, DATA, body={"fence": fence})
        verify(w, job, artifact, body={"fence": fence}, key="v")
        tamper(w, job, artifact, data)
        assert w.get(job)["artifacts"][0]["state"] == "altered"
        shown = read(w, job, artifact)
        assert shown["artifact"]["state"] == "altered"
        assert "download" not in shown
        reply = w.refused("evidence_missing", "POST", f"P/jobs/{job}/complete", {"fence": fence})
        assert "altered" in reply.body["errors"][0]["message"]
        path = f"P/jobs/{job}/artifacts/{artifact}/verify"
        reply = w.refused("wrong_state", "POST", path, {"fence": fence})
        assert "anew" in reply.body["hint"]
        assert verify(w, job, artifact, body={"fence": fence}, key="v").body["artifact"]["state"] == "altered"
        tamper(w, job, artifact, DATA)  # the same bytes, whoever brought them back
        assert read(w, job, artifact)["artifact"]["state"] == "verified"
        assert w.call("POST", f"P/jobs/{job}/complete", {"fence": fence}).status == 200


class TestEvidence:
    def test_only_references_and_verified_uploads_count(self) -> None:
        w = checked()
        job = w.job(requires=["log", "report"])
        fence = w.claim(job)
        body = {"fence": fence}
        w.ok("POST", f"P/jobs/{job}/artifacts", {**body, "type": "report", "uri": "s3://r"})
        artifact, url = w.slot(job, DATA, body=body)
        path = f"P/jobs/{job}/complete"
        for _ in range(2):
            reply = w.refused("evidence_missing", "POST", path, body)
            (error,) = reply.body["errors"]
            assert "log" in error["message"]
            assert "awaiting_upload" in error["message"]
            if url:
                w.put(url, DATA)  # complete and still not verified
                url = ""
        verify(w, job, artifact, body=body)
        assert w.call("POST", path, body).status == 200

    def test_a_type_may_be_shown_by_another_artifact(self) -> None:
        w = checked()
        job = w.job(requires=["log"])
        fence = w.claim(job)
        w.slot(job, DATA, body={"fence": fence})
        w.ok("POST", f"P/jobs/{job}/artifacts", {"fence": fence, "type": "log", "uri": "s3://x"})
        assert w.call("POST", f"P/jobs/{job}/complete", {"fence": fence}).status == 200


class TestPut:
    def test_only_the_bytes_that_were_announced_and_only_once(self) -> None:
        w = checked()
        job = w.job()
        artifact, url = w.slot(job, DATA)
        for wrong in (b"", DATA[:-1], DATA + b"x", b"x" * len(DATA)):
            with pytest.raises(Exception, match="malformed_request"):
                w.put(url, wrong)
        assert w.bus.store.blobs.stat([place(job, artifact)]) == {}
        w.put(url, DATA)
        for again in (DATA, b"x" * len(DATA)):
            with pytest.raises(Exception, match="version_mismatch"):
                w.put(url, again)
        assert verify(w, job, artifact).status == 200


class TestSweep:
    def test_what_nobody_verified_goes_away_and_nothing_else(self) -> None:
        w = checked()
        job = w.job()
        kept, lost = verified(w, job), w.uploaded(job, DATA)
        w.clock.advance(limits.UNVERIFIED_DAYS * 86_400 - 1)
        assert w.engine.sweep() == 0
        w.clock.advance(1)
        assert w.engine.sweep() == 1
        assert w.bus.store.blobs.stat([place(job, name) for name in (kept, lost)]).keys() == {
            place(job, kept)
        }
        w.clock.advance(400 * 86_400)
        assert w.engine.sweep() == 0
        assert read(w, job, kept)["artifact"]["state"] == "verified"
