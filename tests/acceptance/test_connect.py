"""`interlock agent connect` on a real bus: what it writes lets a client in, and holds no token that others read."""

import itertools
import json
import os
import re
import stat
from pathlib import Path

import pytest
from tests.acceptance.cli_bus import running_bus
from tests.acceptance.test_mcp import Client

from interlock.cli.clients import CLIENTS

SECRET = re.compile(r"il_(agt|own)_\S+")


NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    with running_bus(tmp_path_factory.mktemp("connect")) as running:
        yield running


@pytest.fixture
def place(bus, monkeypatch):
    """A folder of a project below the bus's own."""
    folder = bus.folder / f"project-{next(NUMBERS)}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CODEX_HOME", str(folder / "codex"))
    return folder


@pytest.fixture
def ada(place):
    """A name that nobody has yet."""
    return f"ada-{place.name}"


def variables(file):
    return dict(line.split("=", 1) for line in Path(file).read_text().splitlines())


def written(folder):
    return sorted(file for file in folder.rglob("*") if file.is_file())


def test_claude_reads_what_was_written_and_calls_a_tool(bus, place, ada):
    answer = bus.json("agent", "connect", "claude", "--as", ada, "--write")
    config = json.loads((place / ".mcp.json").read_text())["mcpServers"]["interlock"]
    given = variables(answer["written"][0])
    sent = config["headers"]["Authorization"].replace("${INTERLOCK_TOKEN}", given["INTERLOCK_TOKEN"])
    me = Client(config["url"], sent.removeprefix("Bearer "), modern=True).tool("whoami")
    assert me["actor"]["label"] == ada
    assert me["roles"] == ["developer", "ops", "qa"], "not reviewer, which is independent"
    assert bus.json("agent", "show", ada)["agent"]["tool_family"] == "Claude Code"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_is_in_the_private_file_and_nowhere_else(client, bus, place, ada):
    ended = bus.il("agent", "connect", client, "--as", ada, "--write", "--skills")
    assert ended.code == 0, ended
    assert not SECRET.search(ended.out)
    secret = bus.folder / ".interlock" / "agents" / f"{ada}.env"
    assert SECRET.search(secret.read_text())
    if os.name != "nt":
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert (bus.folder / ".interlock" / ".gitignore").read_text() == "*\n"
    for file in written(place):
        assert not SECRET.search(file.read_text()), file
    kind = CLIENTS[client]
    for skill in ("interlock-worker", "interlock-planner"):
        assert (place / kind.skills / skill / "SKILL.md").is_file()
    assert "interlock" in (place / kind.notes).read_text().lower()


def test_twice_is_once(bus, place, ada):
    first = bus.json("agent", "connect", "claude", "--as", ada, "--write", "--skills")
    before = {file: file.read_text() for file in [*written(place), Path(first["written"][0])]}
    again = bus.json("agent", "connect", "claude", "--as", ada, "--write", "--skills")
    assert again == first
    assert {file: file.read_text() for file in before} == before
    assert len(bus.json("agent", "show", ada)["agent"]["tokens"]) == 1


def test_a_second_client_of_an_agent_shares_its_token_and_a_dead_one_is_replaced(bus, ada):
    first = bus.json("agent", "connect", "claude", "--as", ada, "--write")
    secret = first["written"][0]
    token = variables(secret)["INTERLOCK_TOKEN"]
    bus.json("agent", "connect", "opencode", "--as", ada, "--write")
    assert variables(secret)["INTERLOCK_TOKEN"] == token
    (made,) = bus.json("agent", "show", ada)["agent"]["tokens"]
    bus.json("agent", "revoke", ada, made["id"])
    bus.json("agent", "connect", "claude", "--as", ada, "--write")
    after = variables(secret)["INTERLOCK_TOKEN"]
    assert after != token
    assert Client(bus.url, after, modern=False).tool("whoami")["actor"]["label"] == ada


def test_without_write_nothing_is_written_and_the_token_is_shown_once(bus, place):
    kept = written(bus.folder / ".interlock" / "agents")
    ended = bus.il("agent", "connect", "cursor", "--as", "Ada L.", "--role", "qa")
    assert ended.code == 0, ended
    (secret,) = {found[0] for found in SECRET.finditer(ended.out)}
    assert f"export INTERLOCK_URL={bus.url} INTERLOCK_TOKEN={secret}" in ended.out
    assert "${env:INTERLOCK_TOKEN}" in ended.out
    assert written(place) == []
    assert written(bus.folder / ".interlock" / "agents") == kept
    assert Client(bus.url, secret, modern=True).tool("whoami")["roles"] == ["qa"]


def test_what_cannot_be_written_makes_no_agent(bus, place, ada):
    (place / ".mcp.json").write_text("// mine\n{}")
    refused = bus.il("agent", "connect", "claude", "--as", ada, "--write")
    assert refused.code == 1
    assert "left as it is" in refused.err
    assert ada not in {agent["label"] for agent in bus.json("agent", "list")["items"]}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("emacs", "--as", "x"), 2, "no client 'emacs'"),
        (("claude", "--as", "x", "--skills"), 2, "--skills writes"),
        (("claude", "--as", "x", "--role", "nobody"), 1, "nobody"),
        (("claude", "--as", "agt_0000", "--write"), 1, "no live agent agt_0000"),
        (("claude", "--as", "agent-1", "--role", "qa"), 2, "is enrolled with the roles"),
    ],
)
def test_what_is_refused(bus, place, arguments, code, said):
    ended = bus.il("agent", "connect", *arguments)
    assert (ended.code, said in ended.err) == (code, True), ended


def test_agents_whose_labels_are_no_names_of_files_do_not_share_one(bus, place):
    files = [
        bus.json("agent", "connect", "claude", "--as", label, "--write")["written"][0]
        for label in ("a/b", "a b", "../x")
    ]
    assert len(set(files)) == 3
    assert {Path(file).parent for file in files} == {bus.folder / ".interlock" / "agents"}
    tokens = {variables(file)["INTERLOCK_TOKEN"] for file in files}
    assert {Client(bus.url, token, modern=True).tool("whoami")["actor"]["label"] for token in tokens} == {
        "a/b",
        "a b",
        "../x",
    }


def test_an_agent_cannot_connect_another(bus, place, ada):
    environment = bus.agent(ada, "qa")
    ended = bus.il("agent", "connect", "claude", "--as", "ben", **environment)
    assert ended.code == 5, ended
