"""`job attach --file` and `job artifact --download`: what goes where, what is sent again, and what nobody keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli_stub import AGENT, Asked, Ended, Stub, cli, problem, serving

from interlock.cli import files, screen

DATA = bytes(range(256)) * 9_000
SHA = hashlib.sha256(DATA).hexdigest()
ARTIFACT: dict[str, Any] = {
    "id": "art_1", "type": "log", "uri": "upload://art_1", "checksum": f"sha256:{SHA}", "metadata": None,
    "state": "awaiting_upload", "name": "run.log", "size": len(DATA), "sha256": SHA,
}  # fmt: skip
VERIFIED = {**ARTIFACT, "state": "verified"}
S3 = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "run.log"
    made.write_bytes(DATA)
    return made


class Bus(Stub):
    """A bus, and whatever takes its uploads: ``puts`` are the answers to these, in order, the last one again."""

    def __init__(
        self, *puts: Any, verify: Any = (200, {"artifact": VERIFIED}), attach: Any = None, got: bytes = DATA
    ) -> None:
        super().__init__(self.reply)
        self.puts, self.verify, self.attach, self.got = list(puts), verify, attach, got
        self.artifact: dict[str, Any] = VERIFIED
        self.address = ""

    def reply(self, asked: Asked) -> Any:
        if asked.method == "PUT":
            return self.puts.pop(0) if len(self.puts) > 1 else self.puts[0]
        if asked.path.endswith("/verify"):
            return self.verify
        if asked.path.endswith("/artifacts"):
            upload = {
                "method": "PUT",
                "url": self.address or f"{self.url}/there?sign=x",
                "headers": {"content-length": str(len(DATA)), "x-signed": "y"},
            }
            return self.attach or (201, {"artifact": ARTIFACT, "upload": {**upload, "expires_in": 900}})
        if asked.method == "GET" and asked.path.endswith("/art_1"):
            download = {"url": self.address or f"{self.url}/there?sign=x", "expires_in": 300}
            more = {"download": download} if self.artifact["state"] == "verified" else {}
            return 200, {"artifact": self.artifact, **more}
        if isinstance(self.got, bytes):
            return 200, self.got
        return self.got


OK = (200, b"")


def attach(bus: Bus, file: Path, *more: str) -> Ended:
    with serving(bus):
        return cli(
            "job",
            "attach",
            "job_1",
            "--type",
            "log",
            "--file",
            str(file),
            "--json",
            *more,
            url=bus.url,
            token=AGENT,
        )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FIRST_PAUSE", 0.0)


def test_a_file_is_announced_sent_and_verified(file: Path) -> None:
    bus = Bus(OK)
    ended = attach(bus, file, "--fence", "4", "--metadata", '{"a": 1}')
    assert (ended.code, ended.document) == (0, {"artifact": VERIFIED})
    announced, put, verify = bus.asked
    assert announced.body == {
        "fence": 4,
        "type": "log",
        "metadata": {"a": 1},
        "name": "run.log",
        "size": len(DATA),
        "sha256": SHA,
    }
    assert (put.path, put.query, put.body) == ("/there", {"sign": ["x"]}, DATA)
    assert (put.headers["content-length"], put.headers["x-signed"]) == (str(len(DATA)), "y")
    assert "authorization" not in put.headers
    assert "transfer-encoding" not in put.headers
    assert (verify.path.rpartition("/jobs")[2], verify.body) == (
        "/job_1/artifacts/art_1/verify",
        {"fence": 4},
    )


def test_it_may_have_another_name_and_a_person_sees_what_came_of_it(file: Path) -> None:
    bus = Bus(OK)
    with serving(bus):
        ended = cli(
            "job", "attach", "job_1", "--type", "log", "--file", str(file), "--name", "x.log", url=bus.url
        )
    assert ended.code == 0
    assert bus.asked[0].body["name"] == "x.log"
    assert "fence" not in bus.asked[2].body
    assert "verified" in ended.out


@pytest.mark.parametrize("first", [(503, b""), (500 + 2, S3), None], ids=["503", "502", "no answer"])
def test_what_may_succeed_later_is_sent_again_whole(file: Path, first: Any) -> None:
    bus = Bus(first, first, OK)
    assert attach(bus, file).code == 0
    assert [asked.body for asked in bus.asked if asked.method == "PUT"] == [DATA] * 3


def test_an_upload_whose_answer_was_lost_has_arrived(file: Path) -> None:
    bus = Bus(None, (412, problem(412, "version_mismatch")[1]))
    assert attach(bus, file).code == 0
    assert len([asked for asked in bus.asked if asked.method == "PUT"]) == 2
    bus = Bus(None)  # never an answer; the verification tells
    assert attach(bus, file).code == 0


def test_an_upload_that_never_arrives_says_why(file: Path) -> None:
    bus = Bus(None, verify=problem(409, "wrong_state"))
    ended = attach(bus, file)
    assert ended.code == 75
    assert "no answer" in ended.err
    bus = Bus((503, b"busy"), verify=problem(409, "wrong_state"))
    ended = attach(bus, file)
    assert (ended.code, "503" in ended.err) == (75, True)


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [((403, S3), 5, "Request has expired"), (problem(403, "forbidden"), 5, "said forbidden"), (problem(400, "malformed_request"), 1, "said malformed_request"), ((307, b"", {"Location": "http://127.0.0.1:1/x"}), 1, "307")],
    ids=["S3", "the bus", "other bytes", "a redirect"],
)  # fmt: skip
def test_a_refusal_ends_it(file: Path, answer: Any, code: int, said: str) -> None:
    bus = Bus(answer)
    ended = attach(bus, file)
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert [asked.method for asked in bus.asked] == ["POST", "PUT"]


def test_a_refused_verification_is_the_answer(file: Path) -> None:
    bus = Bus(OK, verify=problem(409, "lease_lost"))
    ended = attach(bus, file)
    assert (ended.code, ended.document["code"]) == (4, "lease_lost")


def test_a_repeat_of_what_is_done_sends_nothing(file: Path) -> None:
    bus = Bus(OK, attach=(200, {"artifact": VERIFIED}, {"Idempotency-Replayed": "true"}))
    assert attach(bus, file, "--key", "k").document == {"artifact": VERIFIED}
    assert [asked.method for asked in bus.asked] == ["POST", "POST"]
    assert {asked.key for asked in bus.asked} == {"k"}


def test_addresses_that_are_no_web_addresses_are_not_opened(file: Path) -> None:
    bus = Bus(OK)
    bus.address = f"file://{file}"
    ended = attach(bus, file)
    assert (ended.code, "neither http nor https" in ended.err) == (1, True)
    assert [asked.method for asked in bus.asked] == ["POST"]


@pytest.mark.parametrize(
    "more",
    [(), ("--uri", "u", "--file", "FILE"), ("--file", "FILE", "--checksum", "c"), ("--uri", "u", "--name", "n"), ("--file", "FOLDER"), ("--file", "EMPTY"), ("--file", "NONE")],
)  # fmt: skip
def test_what_cannot_be_sent_is_said_before_anything_is(
    file: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    paths = {"FILE": file, "FOLDER": tmp_path, "EMPTY": tmp_path / "empty", "NONE": tmp_path / "none"}
    bus = Bus(OK)
    with serving(bus):
        ended = cli(
            "job",
            "attach",
            "job_1",
            "--type",
            "log",
            *(str(paths.get(word, word)) for word in more),
            url=bus.url,
        )
    assert ended.code == 2
    assert bus.asked == []


# ---- downloads


def download(bus: Bus, to: Path, *more: str) -> Ended:
    with serving(bus):
        return cli(
            "job",
            "artifact",
            "job_1",
            "art_1",
            "--download",
            str(to),
            "--json",
            *more,
            url=bus.url,
            token=AGENT,
        )


@pytest.mark.parametrize("name", ["saved.bin", "."], ids=["a file", "a folder"])
def test_a_download_is_compared_and_saved(tmp_path: Path, name: str) -> None:
    bus = Bus(OK)
    ended = download(bus, tmp_path / name)
    saved = tmp_path / ("run.log" if name == "." else name)
    assert (ended.code, ended.document["saved"]) == (0, str(saved))
    assert saved.read_bytes() == DATA
    assert "authorization" not in bus.asked[1].headers
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]


def test_the_name_of_a_download_is_never_a_path(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    bus = Bus(OK)
    bus.artifact = {**VERIFIED, "name": "../../evil"}
    ended = download(bus, inner)
    assert ended.document["saved"] == str(inner / "_.._evil")
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


@pytest.mark.parametrize("got", [DATA[:-1], DATA + b"x", b"", DATA[:-1] + b"x"])
def test_what_is_not_what_was_verified_is_not_saved(tmp_path: Path, got: bytes) -> None:
    there = tmp_path / "saved.bin"
    there.write_bytes(b"what was there")
    ended = download(Bus(OK, got=got), there)
    assert (ended.code, "not what was verified" in ended.err) == (1, True)
    assert there.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.parametrize(
    ("got", "code"), [((403, S3), 5), ((404, b""), 1), (None, 75), ((302, b"", {"Location": "/x"}), 1)]
)
def test_what_does_not_come_is_said(tmp_path: Path, got: Any, code: int) -> None:
    ended = download(Bus(OK, got=got), tmp_path / "saved.bin")
    assert ended.code == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", ["awaiting_upload", "altered", "referenced"])
def test_only_what_is_verified_can_be_downloaded(tmp_path: Path, state: str) -> None:
    bus = Bus(OK)
    bus.artifact = {**ARTIFACT, "state": state}
    ended = download(bus, tmp_path)
    assert (ended.code, state in ended.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    assert download(Bus(OK), tmp_path / "none" / "saved.bin").code == 2


def test_progress_is_shown_when_a_person_looks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def shown(looks: bool, run: Callable[[screen.Step], object]) -> str:
        monkeypatch.setattr("sys.stderr.isatty", lambda: looks, raising=False)
        with screen.bar("uploading", 2_000_000) as step:
            run(step)
        return capfd.readouterr().err

    assert shown(False, lambda step: step(1_000)) == ""
    assert "uploading" in shown(True, lambda step: step(1_000_000))
