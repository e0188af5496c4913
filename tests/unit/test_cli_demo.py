"""The demo's parts: which repository, which steps, and that nothing of either is left."""

import subprocess
import sys

import pytest

from interlock.cli.demo import repo, steps
from interlock.cli.exits import CommandError

QUIET = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")


def committed(path, files):
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    repo.git(path, "init", "--quiet")
    repo.git(path, "add", "--all")
    repo.git(path, *QUIET, "commit", "--quiet", "-m", "one")
    return path


def test_a_worktree_is_made_and_taken_away(tmp_path):
    origin = committed(tmp_path / "origin", {"a.py": "x = 1\n"})
    (tmp_path / "stage").mkdir()
    with repo.checkout(origin, tmp_path / "stage", lambda _: None) as found:
        assert (found.path / "a.py").read_text() == "x = 1\n"
        assert not found.made
        (found.path / "left").write_text("behind")
    assert not found.path.exists()
    assert len(repo.git(origin, "worktree", "list").splitlines()) == 1
    assert repo.git(origin, "status", "--porcelain") == ""


def test_it_is_taken_away_after_a_failure_too(tmp_path):
    origin = committed(tmp_path / "origin", {"a.py": "x = 1\n"})
    with pytest.raises(KeyboardInterrupt), repo.checkout(origin, tmp_path, lambda _: None):
        raise KeyboardInterrupt
    assert len(repo.git(origin, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("state", ["no repository", "no commit"])
def test_without_a_commit_it_makes_a_repository_of_its_own(state, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(here)
    if state == "no commit":
        repo.git(here, "init", "--quiet")
    said = []
    with repo.checkout(None, tmp_path, said.append) as found:
        assert found.made
        assert (found.path / "signalbox" / "box.py").exists()
    assert said


def test_a_named_path_that_is_no_repository_is_usage(tmp_path):
    with pytest.raises(CommandError) as refused, repo.checkout(tmp_path / "no", tmp_path, lambda _: None):
        pass
    assert refused.value.code == 2


def test_the_made_repositorys_own_tests_pass(tmp_path):
    origin = repo.make(tmp_path / "made")
    checkout = repo.Checkout(origin, origin, "c", True)
    step = steps.plan(checkout, tmp_path)[0]
    assert step.name == "tests"
    subprocess.run(step.command, cwd=origin, check=True, capture_output=True)


def names(checkout, output):
    return [step.name for step in steps.plan(checkout, output)]


def test_the_steps_follow_what_is_there(tmp_path):
    plain = repo.Checkout(tmp_path, tmp_path, "c", False)
    assert names(plain, tmp_path)[0] == "archive"
    assert "tests" not in names(plain, tmp_path)
    (tmp_path / "pyproject.toml").write_text('[build-system]\nbuild-backend = "hatchling.build"\n')
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for number in range(9):
        (tmp_path / "tests" / "unit" / f"test_{number}.py").write_text("x" * number)
    (tmp_path / "tests" / "unit" / "test_cli_small.py").touch()
    planned = steps.plan(plain, tmp_path)
    assert planned[0].name == "tests"
    assert planned[1].name == "wheel"
    assert [name for name in planned[0].command if name.startswith("tests/")] == [
        f"tests/unit/test_{n}.py" for n in range(steps.TESTS)
    ]


def test_a_step_that_makes_something_requires_it_as_evidence(tmp_path):
    plain = repo.Checkout(tmp_path, tmp_path, "c", False)
    bodies = {step.name: step.job(plain, tmp_path) for step in steps.plan(plain, tmp_path)}
    assert bodies["archive"]["requires"] == ["archive"]
    assert bodies["lint"]["requires"] == []
    assert bodies["lint"]["context"]["folder"] == str(tmp_path)


@pytest.mark.parametrize("look", ["statistics", "fingerprint", "links"])
def test_the_looks_say_what_they_found(look, tmp_path):
    origin = committed(
        tmp_path / "o",
        {"a.py": "1\n2\n", "b.md": "[a](a.py) [gone](gone.py) [out](https://example.invalid)", "ü.txt": ""},
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "interlock.cli.demo.look", look],
        cwd=origin,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    last = done.stdout.splitlines()[-1]
    expected = {"statistics": "2 lines in 3 text files", "links": "2 relative links, 1 lead nowhere"}
    assert last == expected.get(look, last)


def test_a_folder_with_read_only_files_is_removed(tmp_path):
    place = tmp_path / "x"
    place.mkdir()
    (place / "f").write_text("")
    (place / "f").chmod(0o400)
    place.chmod(0o500)
    repo.remove(place)
    assert not place.exists()
