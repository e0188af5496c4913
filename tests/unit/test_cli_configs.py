"""Files of other programs: ours goes in, everything else stays, and what cannot be understood is left alone."""

import json
import os
import stat
import tomllib

import pytest

from interlock import guide
from interlock.cli import configs
from interlock.cli.clients import CLIENTS, NAME, TOKEN, URL
from interlock.cli.exits import CommandError

ADDRESS = "http://127.0.0.1:8787/mcp"
JSON_CLIENTS = sorted(CLIENTS.keys() - {"codex"})


def place(client, folder, entry=None):
    kind = CLIENTS[client]
    return kind.file(folder), kind.table, NAME, entry or kind.http(ADDRESS), kind.first or {}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))


def read(client, text):
    return tomllib.loads(text) if client == "codex" else json.loads(text)


EXPECTED = {
    "claude": (".mcp.json", {"mcpServers": {"interlock": {"type": "http", "url": ADDRESS, "headers": {"Authorization": "Bearer ${INTERLOCK_TOKEN}"}}}}),
    "codex": ("codex/config.toml", {"mcp_servers": {"interlock": {"url": ADDRESS, "bearer_token_env_var": "INTERLOCK_TOKEN"}}}),
    "cursor": (".cursor/mcp.json", {"mcpServers": {"interlock": {"url": ADDRESS, "headers": {"Authorization": "Bearer ${env:INTERLOCK_TOKEN}"}}}}),
    "vscode": (".vscode/mcp.json", {"servers": {"interlock": {"type": "http", "url": ADDRESS, "headers": {"Authorization": "Bearer ${env:INTERLOCK_TOKEN}"}}}}),
    "opencode": ("opencode.json", {"$schema": "https://opencode.ai/config.json", "mcp": {"interlock": {"type": "remote", "url": ADDRESS, "oauth": False, "headers": {"Authorization": "Bearer {env:INTERLOCK_TOKEN}"}}}}),
    "gemini": (".gemini/settings.json", {"mcpServers": {"interlock": {"httpUrl": ADDRESS, "headers": {"Authorization": "Bearer $INTERLOCK_TOKEN"}}}}),
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_gets_its_own_form(client, tmp_path):
    file, wanted = EXPECTED[client]
    assert place(client, tmp_path)[0] == tmp_path / file
    assert read(client, configs.merged(*place(client, tmp_path))) == wanted
    assert configs.shown(*place(client, tmp_path)) == configs.merged(*place(client, tmp_path))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_starts_its_server_hands_the_variables_on(client, tmp_path):
    entry = CLIENTS[client].stdio()
    found = read(client, configs.merged(*place(client, tmp_path, entry)))[CLIENTS[client].table][NAME]
    command = found["command"] if isinstance(found["command"], list) else [found["command"], *found["args"]]
    assert command == ["interlock", "mcp"]
    handed = found.get("env") or found.get("environment") or {name: name for name in found["env_vars"]}
    assert handed.keys() == {URL, TOKEN}
    assert all(name in value for name, value in handed.items())


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_what_else_is_in_a_json_file_stays(client, tmp_path):
    file, table, *_ = given = place(client, tmp_path)
    file.parent.mkdir(exist_ok=True)
    other = {"command": "x", "args": ["ü"]}
    before = {"theme": "dark", table: {"other": other, NAME: {"old": 1}}, "last": [1, {"deep": None}]}
    file.write_text(json.dumps(before, indent=4, ensure_ascii=False), encoding="utf-8")
    text = configs.merged(*given)
    after = json.loads(text)
    assert after == {**before, table: {"other": other, NAME: given[3]}}
    assert list(after) == list(before), "in its order"
    assert '\n    "theme"' in text, "in its indent"
    assert "ü" in text
    configs.write(file, text)
    assert configs.merged(*given) == text, "twice is once"


@pytest.mark.parametrize("text", ["{}", "{}\n", '{"mcpServers": {"a": {}}}\n', '\n{"b":\n\n1}\n'])
def test_a_json_file_without_an_indent_gets_one_of_two(text, tmp_path):
    given = place("claude", tmp_path)
    given[0].write_text(text, encoding="utf-8")
    before, after = json.loads(text), configs.merged(*given)
    assert json.loads(after) == {**before, "mcpServers": {**before.get("mcpServers", {}), NAME: given[3]}}
    assert '\n    "interlock": {\n' in after


CODEX = """# my settings
model = "x" # the good one

[mcp_servers.other]   # keep
command = "y"

[mcp_servers.interlock] # old
url = "http://elsewhere/mcp"

[profiles.a]
model = "z"
"""


def test_what_else_is_in_a_toml_file_stays_with_its_comments(tmp_path):
    given = place("codex", tmp_path)
    given[0].parent.mkdir()
    given[0].write_text(CODEX, encoding="utf-8")
    text = configs.merged(*given)
    before, after = tomllib.loads(CODEX), tomllib.loads(text)
    assert after == {**before, "mcp_servers": {**before["mcp_servers"], NAME: given[3]}}
    for line in ("# my settings", 'model = "x" # the good one', "[mcp_servers.other]   # keep"):
        assert line in text
    configs.write(given[0], text)
    assert configs.merged(*given) == text, "twice is once"


OURS = """[mcp_servers.interlock] # ours
url = "http://elsewhere/mcp"
# of the table\u2028itself
enabled = true

# of the next one
[profiles.a]
model = "z"
"""


def test_comments_in_and_after_a_table_that_is_replaced_stay(tmp_path):
    given = place("codex", tmp_path)
    given[0].parent.mkdir()
    given[0].write_text(OURS, encoding="utf-8")
    text = configs.merged(*given)
    assert tomllib.loads(text) == {**tomllib.loads(OURS), "mcp_servers": {NAME: given[3]}}
    kept = [line for line in OURS.split("\n") if "#" in line]
    assert [line for line in text.split("\n") if "#" in line] == kept
    assert text.endswith('\n\n# of the next one\n[profiles.a]\nmodel = "z"\n')


def test_a_table_is_replaced_whose_header_ends_the_file(tmp_path):
    given = place("codex", tmp_path)
    given[0].parent.mkdir()
    given[0].write_text("[mcp_servers.interlock] # ours", encoding="utf-8")
    text = configs.merged(*given)
    assert text.startswith("[mcp_servers.interlock] # ours\n")
    assert tomllib.loads(text) == {"mcp_servers": {NAME: given[3]}}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", '{\r\n  "a": 1\r\n}\r\n'),
        ("codex", "a = 1\r\n"),
        ("codex", '[mcp_servers.interlock]\r\nurl = "a"\r\n[b]\r\nc = 1\r\n'),
    ],
)
def test_a_file_keeps_its_ends_of_lines(client, text, tmp_path):
    given = place(client, tmp_path)
    given[0].parent.mkdir(exist_ok=True)
    given[0].write_bytes(text.encode())
    after = configs.merged(*given)
    assert after.count("\n") == after.count("\r\n") > text.count("\n")
    configs.write(given[0], after)
    assert configs.merged(*given) == after, "twice is once"


@pytest.mark.parametrize("text", ["model = 1", "model = 1\n", "[a]\nb = 1", "[[list]]\nx = 1\n"])
def test_a_table_is_added_where_there_is_none(text, tmp_path):
    given = place("codex", tmp_path)
    given[0].parent.mkdir()
    given[0].write_text(text, encoding="utf-8")
    after = configs.merged(*given)
    assert after.startswith(text)
    assert tomllib.loads(after) == {**tomllib.loads(text), "mcp_servers": {NAME: given[3]}}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", '{\n  // mine\n  "mcpServers": {}\n}'),
        ("vscode", '{"servers": {"a": 1,},}'),
        ("claude", "[]"),
        ("claude", '{"mcpServers": []}'),
        ("claude", '{"mcpServers": {}, "mcpServers": {"a": 1}}'),
        ("gemini", "not JSON"),
        ("gemini", '{"a": 1e999}'),
        ("gemini", '{"a": NaN}'),
        ("gemini", '{"a": "\\ud800"}'),
        ("codex", "= 1"),
        ("codex", "mcp_servers = 1"),
        ("codex", 'mcp_servers = {interlock = {url = "a"}}'),
        ("codex", 'mcp_servers.interlock.url = "a"'),
        ("codex", '[mcp_servers.interlock]\nurl = "a"\n[mcp_servers.interlock.tools]\nb = 1'),
        ("codex", '[mcp_servers.interlock]\nurl = """\n[x]\n"""'),
    ],
)
def test_what_cannot_be_understood_is_left_as_it_is(client, text, tmp_path):
    given = place(client, tmp_path)
    given[0].parent.mkdir(exist_ok=True)
    given[0].write_text(text, encoding="utf-8")
    with pytest.raises(CommandError) as refused:
        configs.merged(*given)
    assert refused.value.code == 1
    assert str(given[0]) in refused.value.detail
    assert "by hand" in refused.value.hint
    assert given[0].read_text(encoding="utf-8") == text


def test_a_file_that_is_no_text_is_left_as_it_is(tmp_path):
    given = place("claude", tmp_path)
    given[0].write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError):
        configs.merged(*given)
    assert given[0].read_bytes() == b"\xff\xfe"


@pytest.mark.skipif(os.name == "nt", reason="modes and links are POSIX")
def test_a_file_is_replaced_in_one_step_and_keeps_its_mode_and_its_link(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    real.chmod(0o640)
    link.symlink_to(real)
    configs.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    secret = tmp_path / "deep" / "secret"
    configs.write(secret, "a", mode=configs.PRIVATE)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "link.json", "real.json"]


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError) as refused:
        configs.write(tmp_path / "file" / "below", "x")
    assert "cannot be written" in refused.value.detail


def test_a_note_goes_to_the_end_and_later_to_its_place(tmp_path):
    file = tmp_path / "AGENTS.md"
    snippet = guide.snippet()

    def put():
        file.write_text(configs.between(file, snippet, guide.BEGIN, guide.END), encoding="utf-8")
        return file.read_text(encoding="utf-8")

    assert put() == snippet
    file.write_text("# Mine", encoding="utf-8")
    assert put() == f"# Mine\n\n{snippet}"
    file.write_text(f"# Mine\n\n{guide.BEGIN}\nold\n{guide.END}\n\nafter\n", encoding="utf-8")
    assert put() == f"# Mine\n\n{snippet.strip()}\n\nafter\n"
    assert put() == f"# Mine\n\n{snippet.strip()}\n\nafter\n", "twice is once"


@pytest.mark.parametrize("text", [f"{guide.BEGIN}\nno end", f"{guide.END}\nno begin"])
def test_a_note_with_one_mark_only_is_left_as_it_is(text, tmp_path):
    file = tmp_path / "AGENTS.md"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError):
        configs.between(file, guide.snippet(), guide.BEGIN, guide.END)
