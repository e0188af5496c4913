"""The data folder: holder, format, credentials."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import sys
from pathlib import Path

import pytest

from interlock.local import folder as folders
from interlock.local.folder import Credentials, FolderBusyError, FolderError


def made() -> Credentials:
    secret = os.urandom(16).hex()
    return Credentials(
        "", "default", "own", f"il_own_installation.own.{secret}", "agt", f"il_agt_default.agt.{secret}"
    )


def test_a_new_folder_ignores_itself_and_has_the_current_format(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".interlock"
    folder = folders.hold(path)
    assert (path / ".gitignore").read_text() == "*\n"
    assert (path / "format").read_text() == f"{folders.FORMAT}\n"
    folder.close()
    assert not (path / "holder.json").exists()


def test_who_comes_second_is_told_who_was_first(tmp_path: Path) -> None:
    first = folders.hold(tmp_path)
    with pytest.raises(FolderBusyError, match=rf"process {os.getpid()}\."):
        folders.hold(tmp_path)
    first.announce("http://127.0.0.1:8787")
    with pytest.raises(FolderBusyError, match=rf"process {os.getpid()}, http://127\.0\.0\.1:8787") as refused:
        folders.hold(tmp_path)
    assert refused.value.exit_code == 4
    (tmp_path / "holder.json").unlink()
    with pytest.raises(FolderBusyError, match="just starting"):
        folders.hold(tmp_path)
    first.close()
    folders.hold(tmp_path).close()


def _hold_and_die(path: Path) -> None:
    folders.hold(path)
    os._exit(9)


def test_the_lock_is_free_after_its_holder_died(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert (tmp_path / "holder.json").exists()
    folders.hold(tmp_path).close()


def test_credentials_are_made_once(tmp_path: Path) -> None:
    folder = folders.hold(tmp_path)
    first = folder.credentials(made)
    assert json.loads((tmp_path / "credentials.json").read_text())["agent_token"] == first.agent_token
    folder.close()
    folder = folders.hold(tmp_path)
    assert folder.credentials(made) == first
    folder.close()


def test_credentials_stand_on_disk_before_anything_is_made_from_them(tmp_path: Path) -> None:
    folder = folders.hold(tmp_path)
    first = folder.credentials(made)  # … and here the process dies, before the identities are made
    folder.close()
    folder = folders.hold(tmp_path)
    assert folder.credentials(lambda: pytest.fail("made new ones")) == first
    folder.close()


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are POSIX's")
def test_credentials_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = folders.hold(tmp_path)
    before = os.umask(0)
    try:
        folder.save(folder.credentials(made))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600
    folder.close()
    folders.hold(tmp_path / "new").close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


NO_TOKENS = json.dumps(dict.fromkeys(("url", "project", "owner", "owner_token", "agent", "agent_token"), "x"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": ""}', "\x00", NO_TOKENS])
def test_unreadable_credentials_are_named_and_kept(tmp_path: Path, text: str) -> None:
    folder = folders.hold(tmp_path)
    (tmp_path / "credentials.json").write_text(text)
    with pytest.raises(FolderError, match="Move it away"):
        folder.credentials(made)
    assert (tmp_path / "credentials.json").read_text() == text
    folder.close()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("2\n")
    with pytest.raises(FolderError, match="newer Interlock"):
        folders.hold(tmp_path)
    assert (tmp_path / "format").read_text() == "2\n"
    (tmp_path / "format").write_text("1\n")
    folders.hold(tmp_path).close()  # the refusal let the lock go


@pytest.mark.parametrize("text", ["", "one"])
def test_an_unreadable_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "format").write_text(text)
    with pytest.raises(FolderError, match="format"):
        folders.hold(tmp_path)


def test_a_database_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bus.db").write_bytes(b"?")
    with pytest.raises(FolderError, match="no format file"):
        folders.hold(tmp_path)


def test_an_older_format_is_backed_up_and_migrated(tmp_path: Path) -> None:
    folders.hold(tmp_path).close()
    (tmp_path / "bus.db").write_text("one")
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "b").write_text("blob")

    def add(word: str) -> None:
        (tmp_path / "bus.db").write_text((tmp_path / "bus.db").read_text() + word)

    folders.hold(
        tmp_path, migrations={1: lambda _: add(" two"), 2: lambda _: add(" three")}, current=3
    ).close()
    assert (tmp_path / "bus.db").read_text() == "one two three"
    assert (tmp_path / "format").read_text() == "3\n"
    (backup,) = (tmp_path / "backups").iterdir()
    assert (backup / "bus.db").read_text() == "one"
    assert (backup / "blobs" / "b").read_text() == "blob"
    assert (backup / "format").read_text() == "1\n"


def test_a_migration_that_fails_names_the_backup_and_may_run_again(tmp_path: Path) -> None:
    folders.hold(tmp_path).close()
    (tmp_path / "bus.db").write_text("one")

    def fail(_: Path) -> None:
        raise RuntimeError("no room")

    with pytest.raises(FolderError, match=r"no room.*format-1-"):
        folders.hold(tmp_path, migrations={1: fail}, current=2)
    assert (tmp_path / "format").read_text() == "1\n"
    folders.hold(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="--data"):
        folders.hold(tmp_path / "file" / "data")
