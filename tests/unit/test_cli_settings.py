"""Which bus, project and credential: flag > environment > credentials.json > profile; tokens stay with their bus."""

import json
import os
import sys

import pytest
from tests.unit.cli_stub import AGENT, OWNER, Stub, cli, serving

from interlock.cli import settings
from interlock.cli.client import side_of
from interlock.cli.exits import CommandError
from interlock.domain.access import RIGHTS
from interlock.edges.operations import OPERATIONS

FILE = {
    "url": "http://file",
    "project": "filed",
    "owner_token": "il_own_installation.o.1",
    "agent_token": "il_agt_filed.a.1",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder below one with credentials.json, and an empty configuration folder."""
    monkeypatch.setattr(settings, "profiles_folder", lambda: tmp_path / "profiles")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "work" / ".interlock").mkdir(parents=True)
    (tmp_path / "work" / ".interlock" / "credentials.json").write_text(json.dumps(FILE))
    deep = tmp_path / "work" / "a" / "b"
    deep.mkdir(parents=True)
    return deep


def profile(place, text, name="default.toml", mode=0o600):
    path = place.parents[2] / "profiles" / name
    path.write_text(text)
    path.chmod(mode)


def test_the_nearest_credentials_file_upwards_is_read(place):
    found = settings.load(environment={}, folder=place)
    assert (found.url, found.project) == ("http://file", "filed")
    assert found.token("owner") == FILE["owner_token"]
    assert found.token("agent") == FILE["agent_token"]


def test_the_environment_comes_before_the_file(place):
    environment = {"INTERLOCK_URL": "http://env/", "INTERLOCK_PROJECT": "envp", "INTERLOCK_TOKEN": AGENT}
    found = settings.load(environment=environment, folder=place)
    assert (found.url, found.project) == ("http://env", "envp")
    assert found.token("owner") == found.token("agent") == AGENT


def test_a_flag_comes_before_the_environment(place):
    environment = {"INTERLOCK_URL": "http://env", "INTERLOCK_PROJECT": "envp", "INTERLOCK_TOKEN": AGENT}
    found = settings.load(url="http://flag", project="flagp", environment=environment, folder=place)
    assert (found.url, found.project) == ("http://flag", "flagp")


def test_a_token_is_never_sent_to_another_bus_than_its_files(place):
    found = settings.load(url="http://elsewhere", environment={}, folder=place)
    assert found.token("owner") == ""
    assert found.project == "default"
    same = settings.load(url="http://file/", environment={}, folder=place)
    assert same.token("owner") == FILE["owner_token"]


def test_one_value_of_the_environment_leaves_the_others_to_the_file(place):
    found = settings.load(environment={"INTERLOCK_PROJECT": "other"}, folder=place)
    assert (found.url, found.project, found.token("agent")) == ("http://file", "other", FILE["agent_token"])


def test_up_with_a_command_gives_both_tokens(place):
    environment = {"INTERLOCK_URL": "http://env", "INTERLOCK_TOKEN": AGENT, "INTERLOCK_OWNER_TOKEN": OWNER}
    found = settings.load(environment=environment, folder=place)
    assert (found.token("agent"), found.token("owner")) == (AGENT, OWNER)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default.toml", 'url = "http://prof"\nproject = "p"\ntoken = "il_own_p.o.1"\n'),
        ("default.json", '{"url": "http://prof", "project": "p", "token": "il_own_p.o.1"}'),
    ],
)
def test_a_profile_is_the_last_resort(place, name, text):
    profile(place, text, name)
    found = settings.load(environment={}, folder=place.parents[2])
    assert (found.url, found.project, found.token("agent")) == ("http://prof", "p", "il_own_p.o.1")
    assert settings.load(environment={}, folder=place).url == "http://file"


def test_a_named_profile_comes_before_the_file(place):
    profile(place, 'url = "http://other"\nagent_token = "il_agt_x.a.1"\n', "other.toml")
    for found in (
        settings.load(profile="other", environment={}, folder=place),
        settings.load(environment={"INTERLOCK_PROFILE": "other"}, folder=place),
    ):
        assert (found.url, found.project) == ("http://other", "x")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_profile_that_others_may_read_is_refused(place):
    profile(place, 'url = "http://prof"\n', mode=0o644)
    with pytest.raises(CommandError, match="others may read") as refused:
        settings.load(environment={}, folder=place.parents[2])
    assert refused.value.code == 5


@pytest.mark.parametrize("text", ["{", "[]", "\xff", '{"url": "gopher://x"}'])
def test_a_credentials_file_that_cannot_be_used_is_named(place, text):
    (place.parents[1] / ".interlock" / "credentials.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CommandError) as refused:
        settings.load(environment={}, folder=place)
    assert refused.value.code == 2


def test_no_bus_at_all_says_how_to_get_one(place):
    with pytest.raises(CommandError, match="no bus is known") as refused:
        settings.load(environment={}, folder=place.parents[2])
    assert "interlock up" in refused.value.hint


def test_tokens_are_not_shown():
    found = settings.Settings("http://x", "p", OWNER, AGENT)
    assert "secret" not in repr(found)


def test_the_project_is_read_from_the_token():
    found = settings.load(url="http://x", environment={"INTERLOCK_TOKEN": "il_agt_blue.a.1"})
    assert found.project == "blue"


def test_the_side_follows_the_rights_table():
    agents_only = {
        "claims.next", "claims.claim", "claims.complete", "claims.fail", "claims.block", "claims.resume",
        "claims.release", "claims.restart", "claims.heartbeat", "claims.reject",
        "decisions.ask",
    }  # fmt: skip
    about_the_caller = {"system.me", "jobs.explain"}
    for operation in OPERATIONS:
        expected = "agent" if operation in agents_only | about_the_caller else "owner"
        assert side_of(operation) == expected, operation
        if "holder" in RIGHTS[operation]:
            assert side_of(operation, fence=3) == "agent"


@pytest.mark.parametrize(
    ("args", "token"),
    [
        (("whoami",), "agent_token"),
        (("whoami", "--as", "owner"), "owner_token"),
        (("job", "list"), "owner_token"),
        (("job", "list", "--assignee", "me"), "agent_token"),
        (("job", "list", "--role", "mine"), "agent_token"),
        (("job", "list", "--as", "agent"), "agent_token"),
        (("job", "next"), "agent_token"),
        (("job", "unblock", "job_1", "--reason", "r"), "owner_token"),
        (("job", "unblock", "job_1", "--reason", "r", "--fence", "2"), "agent_token"),
        (("job", "cancel", "job_1", "--reason", "r"), "owner_token"),
        (("job", "attach", "job_1", "--type", "t", "--uri", "u", "--fence", "2"), "agent_token"),
        (("job", "explain", "job_1"), "agent_token"),
        (("job", "explain", "job_1", "--agent", "agt_1"), "owner_token"),
    ],
)
def test_which_credential_a_command_uses(args, token, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".interlock").mkdir()
    with serving(Stub(lambda asked: (409, {"code": "paused", "detail": "enough"}))) as stub:
        (tmp_path / ".interlock" / "credentials.json").write_text(json.dumps({**FILE, "url": stub.url}))
        assert cli(*args, token=None).code == 4
    assert [one.token for one in stub.asked] == [FILE[token]]


def test_a_token_from_standard_input(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with serving(Stub(lambda asked: (409, {"code": "paused"}))) as stub:
        cli("whoami", "--token-stdin", url=stub.url, token=None, stdin=f"{AGENT}\n")
        cli("whoami", "--token-stdin", url=stub.url, token=OWNER, stdin=AGENT)
    assert [one.token for one in stub.asked] == [AGENT, AGENT]


@pytest.mark.parametrize("token", ["a\nb", "a b", "ä"])
def test_a_token_that_could_break_a_header_is_not_sent(token):
    with serving(Stub()) as stub:
        assert cli("whoami", url=stub.url, token=token).code == 5
    assert stub.asked == []


def test_without_a_credential_nothing_is_sent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serving(Stub()) as stub:
        assert cli("whoami", url=stub.url, token=None).code == 5
        assert os.environ.get("INTERLOCK_TOKEN") is None
    assert stub.asked == []
