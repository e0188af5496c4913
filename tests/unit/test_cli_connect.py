"""`interlock agent connect` against a bus that means no good: what a shell reads later holds no commands."""

import os

import pytest
from tests.unit.cli_stub import AGENT, Stub, cli, serving

EVIL = ["$(id)", "`id`", "a b", "a;id", "a&id", "a|id", "a'b", 'a"b', "a\nb", "a\\b", "a>b", "~", "é"]


def answering(agent="agt_1", label="ada", token=AGENT):
    """A bus that enrols anybody."""

    def answer(asked):
        if asked.method == "POST":
            return 201, {"agent": {"id": agent, "label": label, "roles": ["qa"]}, "token": token}
        items = [{"key": "qa", "independent": False}] if asked.path.endswith("/roles") else []
        return 200, {"items": items, "next_cursor": None}

    return Stub(answer)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    return place


def written(tmp_path):
    return [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]


def connect(stub, *more, **environment):
    return cli("agent", "connect", "claude", "--as", "ada", *more, url=stub.url, **environment)


def test_what_a_bus_answers_is_written(tmp_path):
    with serving(answering()) as stub:
        ended = connect(stub, "--write")
    assert ended.code == 0, ended
    text = (tmp_path / "a/b/.interlock/agents/ada.env").read_text()
    assert text == f"INTERLOCK_URL={stub.url}\nINTERLOCK_TOKEN={AGENT}\n"


@pytest.mark.parametrize("write", [(), ("--write",)])
@pytest.mark.parametrize("sign", EVIL)
def test_a_token_that_a_shell_would_run_is_refused(write, sign, tmp_path):
    with serving(answering(token=f"{AGENT}{sign}")) as stub:
        ended = connect(stub, *write)
    assert ended.code == 1, ended
    assert "is none" in ended.err
    assert sign not in ended.out
    assert written(tmp_path) == []


@pytest.mark.parametrize("write", [(), ("--write",)])
@pytest.mark.parametrize("sign", EVIL)
def test_an_address_that_a_shell_would_run_is_refused_before_anybody_is_enrolled(write, sign, tmp_path):
    with serving(answering()) as stub:
        ended = connect(stub, *write, INTERLOCK_URL=f"{stub.url}/{sign}")
    assert ended.code == 2, ended
    assert written(tmp_path) == []
    assert stub.asked == []


@pytest.mark.parametrize("agent", ["../../../evil", "a/b", "..", "", ".", "/etc/evil", "a\\b"])
def test_an_agent_whose_id_is_a_path_is_refused(agent, tmp_path):
    with serving(answering(agent=agent, label="a b")) as stub:
        ended = connect(stub, "--write")
    assert ended.code == 1, ended
    assert written(tmp_path) == []


def test_a_token_in_the_private_file_that_a_shell_would_run_is_not_kept(tmp_path):
    with serving(answering()) as stub:
        file = tmp_path / "a/b/.interlock/agents/ada.env"
        file.parent.mkdir(parents=True)
        file.write_text(f"INTERLOCK_URL={stub.url}\nINTERLOCK_TOKEN=$(id)\n")
        listed = {"id": "agt_1", "label": "ada", "roles": ["qa"], "retired_at": None}
        inner = stub.answer

        def answer(asked):
            if asked.path.endswith("/me"):
                return 200, {"actor": {"id": "agt_1"}}
            if asked.method == "GET":
                return 200, {"items": [listed], "next_cursor": None}
            return inner(asked)

        stub.answer = answer
        assert connect(stub, "--write").code == 0
        assert file.read_text() == f"INTERLOCK_URL={stub.url}\nINTERLOCK_TOKEN={AGENT}\n"
        assert stub.of("/me") == [], "and is sent nowhere"


@pytest.mark.skipif(os.name == "nt", reason="links are POSIX")
def test_a_link_in_the_place_of_the_private_file_leads_the_token_nowhere(tmp_path):
    file, other = tmp_path / "a/b/.interlock/agents/ada.env", tmp_path / "other"
    file.parent.mkdir(parents=True)
    other.write_text("mine")
    file.symlink_to(other)
    with serving(answering()) as stub:
        assert connect(stub, "--write").code == 0
    assert other.read_text() == "mine"
    assert not file.is_symlink()
    assert AGENT in file.read_text()
