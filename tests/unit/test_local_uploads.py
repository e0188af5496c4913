"""Uploads and downloads through the local server: real HTTP, files on disk, everything refused as it must be."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import resource
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.domain.files import disposition, is_name, safe_name
from interlock.errors import CODES
from interlock.local import server as servers
from interlock.local.door import Door
from interlock.local.gateway import Target
from interlock.local.routing import Router
from interlock.local.server import Server
from interlock.local.template import Function
from interlock.store.embedded import open_embedded
from interlock.store.embedded.blobs import FolderBlobs
from interlock.store.ports import Stored, Upload

KEY = "uploads/p/job_1/art_1"
DATA = bytes(range(256)) * 1000
SHA = hashlib.sha256(DATA).hexdigest()
FUNCTION = Function("Echo", Path("echo.py"), "handler", 20, 256)


class Bench:
    """A server whose only business is a folder of blobs; ``now`` is its clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_796_072_400_000
        self.folder = folder
        self.blobs = FolderBlobs(folder, lambda: self.now)
        self.before: Callable[[], object] = lambda: None
        target = Target(FUNCTION, lambda event, _: {"statusCode": 404, "body": "none"})
        self.server = Server(
            servers.bind("127.0.0.1", 0),
            Router([("ANY", "$default", target)]),
            before=lambda: (self.before(), None)[1],
            threads=4,
            door=Door(self.blobs),
        )
        self.port = int(self.server.url.rpartition(":")[2])
        self.server.start()

    def slot(self, data: bytes = DATA, key: str = KEY) -> Upload:
        sha256 = hashlib.sha256(data).hexdigest()
        return self.blobs.upload(key, size=len(data), sha256=sha256, seconds=900, base=self.server.url)

    def call(
        self, method: str, url: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        target = url.removeprefix(self.server.url)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})
            response = connection.getresponse()
            return response.status, {n.lower(): v for n, v in response.getheaders()}, response.read()

    def raw(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(data)
            received = b""
            while chunk := sock.recv(65536):
                received += chunk
            return received

    def put(self, data: bytes = DATA, key: str = KEY) -> None:
        upload = self.slot(data, key)
        assert self.call(upload.method, upload.url, data, **upload.headers)[0] == 200

    def incoming(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.folder / "incoming")
        return []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "blobs")
    yield made
    made.server.close()


def problem(answer: tuple[int, dict[str, str], bytes], code: str) -> dict[str, Any]:
    status, headers, body = answer
    assert (status, headers["content-type"]) == (CODES[code].status, "application/problem+json")
    found: dict[str, Any] = json.loads(body)
    assert found["code"] == code
    assert found["hint"].strip()
    return found


def raw_status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def eventually(probe: Callable[[], Any]) -> None:
    limit = time.monotonic() + 20
    while not probe():
        assert time.monotonic() < limit
        time.sleep(0.01)


def head(bench: Bench, upload: Upload, *headers: str) -> bytes:
    target = upload.url.removeprefix(bench.server.url)
    return "\r\n".join([f"PUT {target} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]).encode()


def test_an_upload_is_stored_and_comes_back(bench: Bench) -> None:
    upload = bench.slot()
    status, headers, body = bench.call("PUT", upload.url, DATA, **upload.headers)
    assert (status, body, headers["content-length"]) == (200, b"", "0")
    assert bench.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}
    assert bench.incoming() == []
    url = bench.blobs.download(KEY, name="ä b.html", seconds=60, base=bench.server.url)
    status, headers, body = bench.call("GET", url)
    assert (status, body) == (200, DATA)
    assert headers["content-length"] == str(len(DATA))
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == disposition("ä b.html")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["cache-control"] == "private, no-store"
    status, again, body = bench.call("HEAD", url)
    assert (status, body) == (200, b"")
    assert {**again, "date": ""} == {**headers, "date": ""}


def test_connections_are_kept_between_uploads_and_downloads(bench: Bench) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", bench.port, timeout=20)) as connection:
        for number in range(5):
            data = b"%d" % number * 100_000
            upload = bench.slot(data, f"uploads/p/j/a{number}")
            connection.request("PUT", upload.url.removeprefix(bench.server.url), data)
            assert connection.getresponse().read() == b""
            url = bench.blobs.download(f"uploads/p/j/a{number}", name="x", seconds=9, base="")
            connection.request("GET", url)
            assert connection.getresponse().read() == data


@pytest.mark.parametrize(
    "wrong",
    [DATA[:-1], DATA + b"x", b""],
    ids=["less", "more", "none"],
)
def test_a_wrong_length_is_refused(bench: Bench, wrong: bytes) -> None:
    found = problem(bench.call("PUT", bench.slot().url, wrong), "malformed_request")
    assert f"{len(DATA)} bytes were announced" in found["detail"]
    assert bench.blobs.stat([KEY]) == {}
    assert bench.incoming() == []
    bench.put()


def test_a_wrong_checksum_is_refused_and_the_right_bytes_may_follow(bench: Bench) -> None:
    found = problem(bench.call("PUT", bench.slot().url, DATA[:-1] + b"x"), "malformed_request")
    assert "SHA-256" in found["detail"]
    assert bench.blobs.stat([KEY]) == {}
    assert bench.incoming() == []
    bench.put()


def test_no_length_is_refused(bench: Bench) -> None:
    upload = bench.slot()
    target = upload.url.removeprefix(bench.server.url)
    answer = bench.call("PUT", target, iter([DATA[:1000], DATA[1000:]]))  # in chunks
    assert "no length" in problem(answer, "malformed_request")["detail"]
    answer = bench.raw(head(bench, upload))
    assert raw_status(answer) == 400
    assert bench.blobs.stat([KEY]) == {}


def test_a_second_write_is_refused(bench: Bench) -> None:
    upload = bench.slot()
    bench.put()
    found = problem(bench.call("PUT", upload.url, DATA), "version_mismatch")
    assert "verify" in found["hint"]
    assert problem(bench.call("PUT", bench.slot(b"other").url, b"other"), "version_mismatch")
    assert bench.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}


def test_of_two_at_once_one_gets_in(bench: Bench) -> None:
    upload = bench.slot()
    first = head(bench, upload, f"Content-Length: {len(DATA)}")
    with contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(socket.create_connection(("127.0.0.1", bench.port), timeout=20))
            for _ in range(3)
        ]
        for sock in socks:
            sock.sendall(first + DATA[:1000])
        eventually(lambda: len(bench.incoming()) == 3)
        for sock in socks:
            sock.sendall(DATA[1000:])
        statuses = sorted(raw_status(sock.recv(65536)) for sock in socks)
    assert statuses == [200, 412, 412]
    assert bench.blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}
    eventually(lambda: bench.incoming() == [])


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD"])
def test_forged_and_expired_addresses(bench: Bench, method: str) -> None:
    bench.put(key="uploads/p/j/there")
    url = (
        bench.slot().url
        if method == "PUT"
        else bench.blobs.download("uploads/p/j/there", name="x", seconds=900, base=bench.server.url)
    )
    body = DATA if method == "PUT" else None
    signature = re.search(r"signature=(\w+)", url)
    assert signature
    for forged in (
        url.replace(signature[1], "0" * 64),
        url.replace("expires=1", "expires=2"),
        url.partition("?")[0],
        url.replace("/blobs/uploads/p", "/blobs/uploads/q"),
        url.replace("/blobs/uploads", "/blobs/..%2f..%2fuploads"),
    ):
        answer = bench.call(method, forged, body)
        assert answer[0] == 403
        if method != "HEAD":
            problem(answer, "forbidden")
    other = bench.slot().url if method != "PUT" else bench.blobs.download(KEY, name="x", seconds=9, base="")
    assert bench.call(method, other, body)[0] == 403
    bench.now += 900_000
    assert bench.call(method, url, body)[0] == 403
    assert bench.blobs.stat([KEY]) == {}


def test_addresses_of_another_bus_are_forged_and_those_before_a_restart_are_not(
    bench: Bench, tmp_path: Path
) -> None:
    other = FolderBlobs(tmp_path / "other", lambda: bench.now)
    url = other.upload(KEY, size=len(DATA), sha256=SHA, seconds=900, base=bench.server.url).url
    problem(bench.call("PUT", url, DATA), "forbidden")
    again = FolderBlobs(bench.folder, lambda: bench.now)
    url = again.upload(KEY, size=len(DATA), sha256=SHA, seconds=900, base=bench.server.url).url
    assert bench.call("PUT", url, DATA)[0] == 200
    if os.name == "posix":
        assert stat.S_IMODE((bench.folder / "key").stat().st_mode) == 0o600


def test_what_is_gone_and_what_the_path_does_not_know(bench: Bench) -> None:
    url = bench.blobs.download(KEY, name="x", seconds=60, base=bench.server.url)
    problem(bench.call("GET", url), "not_found")
    for method in ("POST", "DELETE", "PATCH", "OPTIONS"):
        answer = bench.call(method, url)
        assert "GET" in problem(answer, "method_not_allowed")["detail"]
        assert answer[1]["allow"] == "GET, HEAD, PUT"
    assert bench.call("PUT", "/blobs", DATA)[0] == 404  # the default route's
    assert bench.call("GET", "/blobsy/x")[0] == 404


def test_who_asks_before_sending_is_answered_at_once(bench: Bench) -> None:
    upload = bench.slot()
    ask = ("Expect: 100-continue", f"Content-Length: {len(DATA)}")
    forged = Upload("PUT", upload.url[:-1] + "x", upload.headers)
    assert raw_status(bench.raw(head(bench, forged, *ask))) == 403
    answer = bench.raw(head(bench, upload, *ask) + DATA)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert raw_status(bench.raw(head(bench, upload, *ask))) == 412


def test_what_is_refused_is_not_waited_for(bench: Bench) -> None:
    """64 MB are announced, the refusal comes before they are sent."""
    size = 64 * 1024 * 1024
    upload = bench.blobs.upload(KEY, size=size, sha256=SHA, seconds=900, base=bench.server.url)
    forged = Upload("PUT", upload.url[:-1] + "x", upload.headers)
    assert raw_status(bench.raw(head(bench, forged, f"Content-Length: {size}"))) == 403
    assert raw_status(bench.raw(head(bench, upload, f"Content-Length: {size + 1}"))) == 400
    assert bench.incoming() == []


def test_a_large_upload_is_never_in_memory(bench: Bench) -> None:
    block = os.urandom(1024 * 1024)
    blocks = 200
    found = hashlib.sha256()
    for _ in range(blocks):
        found.update(block)
    size = blocks * len(block)
    upload = bench.blobs.upload(KEY, size=size, sha256=found.hexdigest(), seconds=900, base=bench.server.url)

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)

    before = peak()
    target = upload.url.removeprefix(bench.server.url)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", bench.port, timeout=60)) as connection:
        connection.request("PUT", target, (block for _ in range(blocks)), {"Content-Length": str(size)})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert bench.blobs.stat([KEY]) == {KEY: Stored(size, found.hexdigest())}
        connection.request("GET", bench.blobs.download(KEY, name="x", seconds=900, base=""))
        response = connection.getresponse()
        again = hashlib.sha256()
        while chunk := response.read(1024 * 1024):
            again.update(chunk)
    assert again.hexdigest() == found.hexdigest()
    assert peak() - before < 60 * 1024, "KiB"


def test_a_connection_that_breaks_off_leaves_nothing(bench: Bench) -> None:
    upload = bench.slot()
    with socket.create_connection(("127.0.0.1", bench.port), timeout=20) as sock:
        sock.sendall(head(bench, upload, f"Content-Length: {len(DATA)}") + DATA[:5000])
        eventually(lambda: len(bench.incoming()) == 1)
    eventually(lambda: bench.incoming() == [])
    assert bench.blobs.stat([KEY]) == {}
    bench.put()


def test_a_full_disk_is_said_and_leaves_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Any, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("interlock.store.embedded.uploads.Intake.write", full)
    answer = bench.call("PUT", bench.slot().url, DATA)
    assert "No space left" in problem(answer, "store_unavailable")["detail"]
    assert answer[1]["retry-after"] == "1"
    monkeypatch.undo()
    assert bench.incoming() == []
    bench.put()


def test_a_disk_that_fails_at_the_end_is_said_and_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    upload = bench.slot()
    monkeypatch.setattr("interlock.store.embedded.blobs.os.fsync", broken)
    problem(bench.call("PUT", upload.url, DATA), "store_unavailable")
    monkeypatch.undo()
    assert bench.blobs.stat([KEY]) == {}
    assert bench.incoming() == []
    bench.put()


def test_before_runs_ahead_of_uploads_and_downloads_too(bench: Bench) -> None:
    seen: list[int] = []
    bench.before = lambda: seen.append(1)
    bench.put()
    bench.call("GET", bench.blobs.download(KEY, name="x", seconds=9, base=bench.server.url))
    assert seen == [1, 1]


def test_a_log_line_names_no_signature(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="interlock"):
        bench.put()
        bench.call("GET", bench.slot().url)
    assert [(record.status, record.path) for record in caplog.records] == [
        (200, f"/blobs/{KEY}"),
        (403, f"/blobs/{KEY}"),
    ]  # type: ignore[attr-defined]
    assert "signature" not in "".join(str(vars(record)) for record in caplog.records)


class TestFolder:
    """What is on disk: hashed once, looked at again when something has touched it."""

    @pytest.fixture
    def blobs(self, tmp_path: Path) -> FolderBlobs:
        self.now = 1_796_072_400_000
        made = FolderBlobs(tmp_path, lambda: self.now)
        upload = made.upload(KEY, size=len(DATA), sha256=SHA, seconds=9, base="http://x")
        made.put_at(upload.url, [DATA])
        return made

    def file(self, tmp_path: Path) -> Path:
        return next(path for path in (tmp_path / "uploads").iterdir() if not path.suffix)

    def test_it_is_not_hashed_again(
        self, blobs: FolderBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("interlock.store.embedded.blobs.hashed", lambda _: "0" * 64)
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}
        os.utime(self.file(tmp_path))
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), "0" * 64)}

    @pytest.mark.parametrize("keep_time", [False, True])
    def test_other_bytes_are_seen_even_with_the_old_date(
        self, blobs: FolderBlobs, tmp_path: Path, keep_time: bool
    ) -> None:
        file = self.file(tmp_path)
        at = file.stat().st_mtime_ns
        other = DATA[:-1] + b"x"
        file.write_bytes(other)
        if keep_time:
            os.utime(file, ns=(at, at))
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), hashlib.sha256(other).hexdigest())}
        file.write_bytes(DATA)
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}

    @pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", None])
    def test_a_torn_note_only_costs_work(
        self, blobs: FolderBlobs, tmp_path: Path, note: bytes | None
    ) -> None:
        record = self.file(tmp_path).with_suffix(".sha256")
        record.unlink() if note is None else record.write_bytes(note)
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}
        assert json.loads(record.read_bytes())["sha256"] == SHA

    def test_what_nobody_keeps_is_swept(self, blobs: FolderBlobs, tmp_path: Path) -> None:
        (tmp_path / "unverified" / ".new-torn").write_bytes(b"")
        self.now += 7 * 86_400_000 - 1
        assert blobs.sweep() == 0
        self.now += 1
        assert blobs.sweep() == 1
        assert blobs.stat([KEY]) == {}
        assert list((tmp_path / "uploads").iterdir()) == []
        assert blobs.sweep() == 0

    def test_what_is_kept_is_not(self, blobs: FolderBlobs) -> None:
        blobs.keep(KEY)
        self.now += 400 * 86_400_000
        assert blobs.sweep() == 0
        assert blobs.stat([KEY]) == {KEY: Stored(len(DATA), SHA)}

    def test_a_folder_that_is_none_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "blobs").write_bytes(b"")
        blobs = FolderBlobs(tmp_path / "blobs", lambda: 0)
        for call in (
            lambda: blobs.stat([KEY]),
            lambda: blobs.upload(KEY, size=1, sha256=SHA, seconds=1, base=""),
            lambda: blobs.keep(KEY),
            lambda: blobs.open(KEY),
        ):
            with pytest.raises(Exception, match="store_unavailable"):
                call()


def test_a_start_forgets_what_an_earlier_process_left_half_way(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "incoming").mkdir(parents=True)
    (tmp_path / "blobs" / "incoming" / "half").write_bytes(b"x" * 1000)
    opened = open_embedded(tmp_path, clock=lambda: 0)
    opened.close()
    assert not (tmp_path / "blobs" / "incoming").exists()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.txt", "report.txt"),
        ("../../etc/passwd", "_.._etc_passwd"),
        (".bashrc", "bashrc"),
        ("..", "art_1"),
        (" ", "art_1"),
        ('a"b\r\nc: d', "a_b__c_ d"),
        ("\u202egnp.exe", "_gnp.exe"),
        ("ünï 📄.txt", "ünï 📄.txt"),
        ("100%.log", "100_.log"),
    ],
)
def test_names_of_downloads_are_safe(name: str, safe: str) -> None:
    made = safe_name(name, "art_1")
    assert made == safe
    assert is_name(made)
    header = disposition(made)
    assert header.isascii()
    assert header.isprintable()
    assert header.startswith('attachment; filename="')
    assert header.count('"') == 2
