"""The demo's parts: which repository, which steps, what they say, and that nothing of either is left."""

import hashlib
import io
import json
import subprocess
import sys
from unittest import mock

import pytest

from interlock.cli.demo import desk, repo, show, steps, telling
from interlock.cli.demo.scenes.question import ANSWER
from interlock.cli.demo.scenes.stop import HANGS
from interlock.cli.exits import CommandError
from interlock.edges.models import DecisionAsk
from interlock.edges.models.plans import Plan

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


def test_what_is_asked_for_is_a_plan_that_the_bus_takes(tmp_path):
    checkout = repo.Checkout(tmp_path, tmp_path, "c", True)
    jobs = [step.job(checkout, tmp_path) for step in steps.plan(checkout, tmp_path)]
    *checks, notes, review = Plan.model_validate({"jobs": jobs}).jobs
    assert not any(job.blocked_by for job in checks)
    assert notes.blocked_by == [job.ref for job in checks]
    assert (review.blocked_by, review.independent) == (["notes"], True)
    (rule,) = review.routing
    assert (rule.on, rule.when.field, rule.context["step"]) == ("completed", "data.verdict", "release")
    question = DecisionAsk.model_validate({"fence": 1, "kind": "question", **rule.context["asks"]})
    assert ANSWER in question.options
    assert [job.ref for job in checks if job.context.get("hangs")] == [HANGS]


def at_the_desk(what, job, built, code=0):
    """What a step prints last: a JSON object, or why it ended with ``code``."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "interlock.cli.demo.desk", what, str(built)],
        cwd=built,
        input=json.dumps(job),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if code == 0 else (done.stdout + done.stderr).strip()


def test_the_release_goes_from_failure_through_review_to_the_shelf(tmp_path):
    built = committed(tmp_path / "built", {"product.zip": "a product"})
    digest = hashlib.sha256(b"a product").hexdigest()
    none = {"upstream_results": [], "reopen_context": None, "context": {"commit": "c"}}
    assert "no owner has named the version" in at_the_desk("version", none, built, code=1)
    (tmp_path / desk.ORDER).write_text('{"version": "3"}')
    version = at_the_desk("version", none, built)
    came_to = [{"id": "j", "result": {"data": {"step": "version", **version}}}]
    assert "1 results" in at_the_desk("notes", {**none, "upstream_results": came_to}, built)["says"]
    page = built / desk.NOTES
    assert page.read_text().startswith("# Release 3\n")
    assert digest not in page.read_text()

    def reviewed():
        delivered = {"sha256": hashlib.sha256(page.read_bytes()).hexdigest()}
        return {**none, "upstream_results": [{"id": "n", "result": {"data": delivered}}]}

    reason = at_the_desk("review", reviewed(), built, code=desk.SENDS_BACK)
    assert reason == "the notes do not name the checksum of product.zip"
    at_the_desk("notes", {**none, "reopen_context": {"reason": reason}}, built)
    assert page.read_text().startswith("# Release 3\n")
    assert digest in page.read_text()
    accepted = at_the_desk("review", reviewed(), built)
    assert (accepted["verdict"], accepted["says"]) == ("accepted", "1 checksum compared")
    late = reviewed()
    page.write_text(page.read_text() + " ")
    assert "not those that were delivered" in at_the_desk("review", late, built, code=1)
    decided = {**none, "answer": "preview"}
    assert at_the_desk("release", decided, built)["says"] == "2 files released to preview, the checksums fit"
    (built / "product.zip").write_text("another product")
    assert "is not that of the notes" in at_the_desk("release", decided, built, code=1)


def event(actor="ada", **data):
    return {"actor": {"label": actor}, "to": "published", "data": data}


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("lease_expired", {}, "the lease has lapsed: published again"),
        ("stopped", {"reason": "r"}, "taken from its holder by ada: published again"),
        ("decision_requested", {"kind": "question"}, "ada asks, and waits"),
        ("decision_answered", {"answer": "x" * 200}, f"ada decides: {'x' * 120}…"),
        ("resumed", {}, "ada goes on"),
        ("claimed", {"fence": 3, "attempt": 2}, "claimed by ada, fence 3, attempt 2"),
        ("failed", {"failure_reason": "exit code 1: a\nno luck"}, "failed by ada: exit code 1: no luck"),
        ("failed", {"failure_reason": "r", "caused_by": {"root": "j"}}, "failed by cascade; it began with <j>"),
        ("cancelled", {"cancel_reason": "why"}, "cancelled by ada: why"),
        ("cancelled", {"cancel_reason": "r", "caused_by": {"root": "j"}}, "cancelled by cascade; it began with <j>"),
        ("revived", {"root": "j"}, "revived, waits for <j> again"),
        ("rejected", {"target": "t", "retry": "r", "reason": "x" * 200}, f"ada sends <t> back, now <r>: {'x' * 120}…"),
        ("routed", {"created": ["a"], "skipped": []}, "its rule holds of the result: <a> follows"),
        ("routed", {"created": [], "skipped": [{"rule": 0, "reason": "guard"}]}, "none of its rules holds"),
        ("artifact_added", {"artifacts": [{"type": "log"}, {"type": "wheel", "state": "verified"}]}, "ada uploaded evidence, verified: wheel"),
        ("artifact_added", {"artifacts": [{"type": "log", "state": "referenced"}]}, ""),
        ("updated", {}, ""),
    ],
)  # fmt: skip
def test_events_become_sentences(kind, data, words):
    assert telling.words(kind, event(**data), lambda job: f"<{job}>") == words


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_and_the_lines_fit_a_terminal(width):
    stream = Terminal()
    rows = [("fingerprint", "developer", "in_progress", "cleo", 2, "10.0", "a long result " * 20)]
    with mock.patch.dict("os.environ", {"COLUMNS": str(width), "LINES": "40", "TERM": "dumb"}):
        shown = show.Show(stream)
        shown.say("words " * 60, indent=22)
        shown.summary(rows)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[1].startswith(" " * 22 + "words")
    (row,) = [line for line in lines if line.startswith("fingerprint")]
    for cell in rows[0][:-1]:
        assert str(cell) in row
    assert row.rstrip().endswith("…")


def test_lines_stay_whole_in_a_pipe():
    stream = io.StringIO()
    show.Show(stream).say("words " * 60)
    assert stream.getvalue().count("\n") == 1
