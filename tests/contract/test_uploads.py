"""Uploads mean the same on every engine: what was announced gets in, once, and what is there can be told."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError

from interlock.domain.files import disposition
from interlock.errors import StoreError
from interlock.store.aws.blobs import S3Blobs
from interlock.store.aws.clients import client
from interlock.store.ports import Stored, Upload

KEY = "uploads/p/job_1/art_1"
DATA = bytes(range(256)) * 300
SHA = hashlib.sha256(DATA).hexdigest()
OTHER = DATA[:-1] + b"x"
BASE = "http://127.0.0.1:8787"


def slot(engine, key=KEY, seconds=900) -> Upload:
    return engine.blobs.upload(key, size=len(DATA), sha256=SHA, seconds=seconds, base=BASE)


def judges(engine) -> bool:
    """Whether the engine looks at what it is sent; moto takes the caller's word for a checksum and a signature."""
    return engine.name != "moto"


def test_what_was_announced_is_stored_and_known(engine):
    assert engine.blobs.stat([KEY]) == {}
    made = slot(engine)
    assert made.method == "PUT"
    assert made.headers["content-length"] == str(len(DATA))
    assert engine.send(made, DATA) == 200
    assert engine.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}


def test_many_are_looked_at_at_once(engine):
    names = [f"uploads/p/job_1/art_{number}" for number in range(20)]
    for name in names[::2]:
        assert engine.send(slot(engine, name), DATA) == 200
    assert engine.blobs.stat([]) == {}
    assert engine.blobs.stat(names) == dict.fromkeys(names[::2], Stored(len(DATA), SHA))


def test_nothing_is_replaced(engine):
    first = slot(engine)
    assert engine.send(first, DATA) == 200
    assert engine.send(first, DATA) == 412
    assert engine.send(slot(engine), DATA) == 412
    small = engine.blobs.upload(KEY, size=1, sha256=hashlib.sha256(b"x").hexdigest(), seconds=9, base=BASE)
    assert engine.send(small, b"x") == 412
    assert engine.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}


def test_other_bytes_are_refused_and_the_right_ones_may_follow(engine):
    if not judges(engine):
        pytest.skip("moto does not compare")
    made = slot(engine)
    assert engine.send(made, OTHER) == 400
    assert engine.blobs.stat([KEY]) == {}
    assert engine.send(made, DATA) == 200


@pytest.mark.parametrize("data", [b"", DATA[:-1], DATA + b"x"], ids=["none", "less", "more"])
def test_another_length_is_refused(engine, data):
    if engine.name not in ("embedded", "memory"):
        pytest.skip("the client's own header would have to lie")
    assert engine.send(slot(engine), data) == 400
    assert engine.blobs.stat([KEY]) == {}


def test_an_address_expires_and_is_good_for_nothing_else(engine):
    if engine.name not in ("embedded", "memory"):
        pytest.skip("only AWS itself judges AWS's signatures")
    made = slot(engine, seconds=10)
    for changed in (
        made.url.replace("art_1", "art_2"),
        made.url.replace(f"size={len(DATA)}", f"size={len(OTHER) + 1}"),
        made.url.replace(SHA, hashlib.sha256(OTHER).hexdigest()),
        made.url.replace("expires=1", "expires=2"),
        made.url[:-1] + ("0" if made.url[-1] != "0" else "1"),
        made.url.partition("&signature")[0],
        made.url.replace("/uploads/", "/../"),
        made.url.replace("expires=", "expires=x"),
        made.url.partition("?")[0],
    ):
        assert changed != made.url
        assert engine.send(Upload("PUT", changed, made.headers), DATA) == 403, changed
    assert engine.fetch(made.url)[0] == 403
    engine.advance(10)
    assert engine.send(made, DATA) == 403
    assert engine.blobs.stat([KEY]) == {}


def test_a_download_is_an_attachment(engine):
    assert engine.send(slot(engine), DATA) == 200
    url = engine.blobs.download(KEY, name="ä b.html", seconds=60, base=BASE)
    status, headers, body = engine.fetch(url)
    assert (status, body) == (200, DATA)
    assert headers["content-disposition"] == disposition("ä b.html")
    assert headers["content-type"] == "application/octet-stream"
    nothing = engine.blobs.download("uploads/p/none", name="x", seconds=60, base=BASE)
    assert engine.fetch(nothing)[0] in (403, 404)  # 403: S3, to whoever may not list


def test_the_address_is_the_bus_s_own_or_s3_s(engine):
    for url in (slot(engine).url, engine.blobs.download(KEY, name="x", seconds=60, base=BASE)):
        host = urlsplit(url).netloc
        assert host == "127.0.0.1:8787" if engine.name in ("embedded", "memory") else host != "127.0.0.1:8787"


def test_what_is_kept_stays_and_may_be_kept_again(engine):
    assert engine.send(slot(engine), DATA) == 200
    engine.blobs.keep(KEY)
    engine.blobs.keep(KEY)
    assert engine.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}


@pytest.mark.parametrize(
    ("region", "host"),
    [("eu-central-1", "blobs.s3.eu-central-1.amazonaws.com"), ("us-east-1", "blobs.s3.amazonaws.com")],
)
def test_s3_is_told_by_its_own_host_and_every_header_is_signed(monkeypatch, region, host):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    client.cache_clear()
    try:
        made = S3Blobs("blobs").upload(KEY, size=len(DATA), sha256=SHA, seconds=900, base=BASE)
    finally:
        client.cache_clear()
    address = urlsplit(made.url)
    query = parse_qs(address.query)
    assert (address.scheme, address.netloc, address.path) == ("https", host, f"/{KEY}")
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["X-Amz-Expires"] == ["900"]
    assert query["X-Amz-SignedHeaders"][0].split(";") == sorted(["host", *made.headers])
    assert made.headers["x-amz-checksum-sha256"] == base64.b64encode(bytes.fromhex(SHA)).decode()
    assert made.headers["if-none-match"] == "*"
    assert made.headers["x-amz-tagging"] == "interlock-upload=unverified"


def test_s3_objects_without_a_whole_sha256_are_nobody_s_evidence(monkeypatch):
    answers = {
        "none": {},
        "parts": {"ChecksumSHA256": base64.b64encode(b"x" * 32).decode() + "-2"},
        "odd": {"ChecksumSHA256": "eA=="},
    }

    class Fake:
        def head_object(self, *, Key, **_):
            return {"ContentLength": 5, **answers[Key]}

    monkeypatch.setattr("interlock.store.aws.blobs.client", lambda service: Fake())
    assert S3Blobs("b").stat(list(answers)) == dict.fromkeys(answers, Stored(5, None))


@pytest.mark.parametrize(
    ("code", "missing"), [("404", True), ("403", True), ("SlowDown", False), ("500", False)]
)
def test_what_s3_does_not_show_is_not_there_and_what_fails_is_not_hidden(monkeypatch, code, missing):
    class Fake:
        def head_object(self, **_):
            raise ClientError({"Error": {"Code": code}}, "HeadObject")

    monkeypatch.setattr("interlock.store.aws.blobs.client", lambda service: Fake())
    if missing:
        assert S3Blobs("b").stat([KEY, "other"]) == {}
    else:
        with pytest.raises(StoreError):
            S3Blobs("b").stat([KEY])
