"""The guide: everything it names exists, and what is made of it is the guide's own text, within its bounds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import yaml

from interlock import __version__, guide
from interlock.cli import main
from interlock.edges import models, openapi
from interlock.edges.mcp import tools
from interlock.edges.operations import JOB, OPERATIONS, P
from interlock.errors import CODES
from interlock.guide import plugin, text

TEXT = guide.guide()
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
QUOTED = re.findall(r"`([^`\n]+)`", PROSE)
JOB_PROMPTS = ("close", "handoff", "review", "reopen")
TRANSPORT = {
    "malformed_json",
    "duplicate_key",
    "bad_cursor",
    "method_not_allowed",
    "unsupported_media_type",
    "headers_too_large",
    "unknown_agent",
    "in_use",
}
"""Codes that no tool's caller has to act upon otherwise than by the hint: of HTTP itself, of pages, of owners' operations."""


def rows(heading: str) -> list[list[list[str]]]:
    """A section's table without its head: for each cell what is quoted in it."""
    lines = [line for line in text.section(heading).splitlines() if line.startswith("|")]
    cells = [line.strip("|").split("|") for line in lines[2:]]
    return [[re.findall(r"`([^`]+)`", cell) for cell in line] for line in cells]


DOORS = rows("The same without MCP")


def shipped(name: str) -> Any:
    return json.loads(guide.files()[name])


# ---- everything named exists


def test_every_tool_is_in_the_table_of_doors() -> None:
    assert {tool for (tool, *_), _, _ in DOORS} == set(tools.ROWS)


def test_a_row_leads_to_the_same_operations_by_each_door() -> None:
    by_route = {(row.method, row.path): row.name for row in OPERATIONS.values()}
    reached: dict[str, set[str]] = {name: set() for name in tools.ROWS}
    for (tool, *_), _, routes in DOORS:
        for route in routes:
            if " " not in route:
                continue  # a header
            method, path = route.split(" ")
            full = re.sub(r"^(P|J)\b", lambda found: {"P": P, "J": JOB}[found[1]], path)
            reached[tool].add(by_route[method, full])
    carried_out = {name: set(row.operations) for name, row in tools.ROWS.items()}
    assert all(reached[name] <= carried_out[name] for name in tools.ROWS)
    assert set().union(*reached.values()) == set().union(*carried_out.values())


def _command(words: list[str]) -> Any:
    found: Any = typer.main.get_command(main.build())
    for word in words:
        found = found.commands[word] if hasattr(found, "commands") else found
    return found


@pytest.mark.parametrize(
    "line", sorted({each for each in QUOTED if each.startswith("interlock ")}), ids=lambda line: line
)
def test_every_command_exists(line: str) -> None:
    words, _, rest = line.removeprefix("interlock ").partition(" --")
    command = _command([word for word in words.split() if word[0].isalpha()])
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--"}
    assert not hasattr(command, "commands") or line == "interlock --help"
    assert set(re.findall(r"(?<=\s)--[a-z-]*", f" --{rest}" if rest else "")) <= known


def test_every_code_has_its_row_and_no_other_is_named() -> None:
    named = [code for codes, *_ in rows("Refusals") for code in codes]
    assert len(named) == len(set(named))
    assert set(named) == CODES.keys() - TRANSPORT


def _words(value: Any) -> Iterator[str]:
    """Names of properties and values of enumerations, anywhere in a JSON schema."""
    if isinstance(value, dict):
        yield from value.get("properties", {})
        yield from (each for each in value.get("enum", ()) if isinstance(each, str))
        yield from (value["const"],) if isinstance(value.get("const"), str) else ()
        for part in value.values():
            yield from _words(part)
    elif isinstance(value, list):
        for part in value:
            yield from _words(part)


def test_every_word_of_the_bus_is_one() -> None:
    known = {*_words(openapi.document()), *CODES, *tools.ROWS}
    for row in tools.ROWS.values():
        tool = row.tool()
        known |= set(_words(tool.input_schema)) | set(_words(tool.output_schema))
    known |= {"approve", "reject", "job_status"}  # answers, and a member of a refusal: no schema lists them
    examples = {"diff", "log", "report", "legacy_id", "P", "J"}
    words = {word for word in QUOTED if re.fullmatch(r"[A-Za-z_]+", word)}
    assert words - known - examples - {"INTERLOCK_URL", "INTERLOCK_TOKEN"} == set()


def test_arguments_that_are_written_out_are_accepted() -> None:
    schemas = [row.tool().input_schema["properties"] for row in tools.ROWS.values()]
    for name, value in re.findall(r"`([a-z_]+): ([^`]+)`", PROSE):
        if name == "job":  # of an answer
            continue
        assert any(name in schema for schema in schemas), name
        json.loads(value)


def test_the_plan_is_one() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    plan = models.Plan.model_validate(json.loads(example))
    refs = [job.ref for job in plan.jobs]
    assert plan.dry_run
    assert all(set(job.blocked_by) <= set(refs) for job in plan.jobs)


def test_a_good_context_holds_seven_things() -> None:
    assert len(re.findall(r"^\d\. \*\*", text.section("A good context"), re.MULTILINE)) == 7


# ---- what is made is the guide's text


def test_headings_are_unique_and_stand_for_all_of_the_text() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert headings == list(text.sections())
    assert all(text.sections().values())


def test_instructions_fit_and_are_of_the_guide() -> None:
    assert len(guide.instructions().encode()) <= 2_048
    assert guide.instructions() in TEXT


def test_the_snippet_stands_between_its_marks() -> None:
    lines = guide.snippet().splitlines()
    assert (lines[0], lines[-1]) == (guide.BEGIN, guide.END)
    assert len(lines) <= 21
    assert set(lines[3:-1]) <= set(TEXT.splitlines())


@pytest.mark.parametrize("name", ["interlock-worker", "interlock-planner"])
def test_a_skill_is_one(name: str) -> None:
    _, front, body = guide.skills()[name].split("---\n", 2)
    meta = yaml.safe_load(front)
    assert meta.keys() == {"name", "description"}
    assert meta["name"] == name
    assert len(meta["description"]) <= 1_024
    assert re.match(r"[A-Z][a-z]+s ", meta["description"]), "third person"
    assert "Use when" in meta["description"]
    assert not re.search(r"[<>]", meta["description"])
    assert len(body.split()) < 2_000
    pointers = set(re.findall(r"\]\(([^)#]+)\)", body))
    assert pointers == {"reference.md"}
    assert f"skills/{name}/reference.md" in guide.files()
    title, pointer = body.strip().splitlines()[0], body.strip().splitlines()[-1]
    assert set(body.splitlines()) - set(TEXT.splitlines()) == {title, pointer}


def test_there_are_two_skills() -> None:
    assert guide.skills().keys() == {"interlock-worker", "interlock-planner"}


def test_prompts_are_listed_with_their_arguments() -> None:
    listed = {
        name: [(a["name"], a["required"]) for a in row.arguments] for name, row in guide.PROMPTS.items()
    }
    assert listed == {
        "board": [("role", False)],
        "claim": [("role", False)],
        **{name: [("job", True)] for name in JOB_PROMPTS},
    }
    assert all(row.name == name and row.title and row.description for name, row in guide.PROMPTS.items())


@pytest.mark.parametrize("name", JOB_PROMPTS)
def test_a_prompt_about_a_job(name: str) -> None:
    opening, _, rest = guide.prompt(name, {"job": "job_0ecyr9wcraskgbht4wt5w5jvqg"}).partition("\n\n")
    assert "`job_0ecyr9wcraskgbht4wt5w5jvqg`" in opening
    assert set(rest.splitlines()) <= set(TEXT.splitlines())
    assert rest.endswith(text.section(text.OTHERS))
    with pytest.raises(KeyError):
        guide.prompt(name, {})


@pytest.mark.parametrize("name", ["board", "claim"])
def test_a_prompt_about_roles(name: str) -> None:
    assert "all of your roles" in guide.prompt(name, {}).partition("\n")[0]
    assert "`qa`" in guide.prompt(name, {"role": "qa"}).partition("\n")[0]


def test_there_is_no_other_prompt() -> None:
    with pytest.raises(KeyError):
        guide.prompt("merge", {})


def test_an_argument_cannot_look_like_a_part_of_the_text() -> None:
    made = guide.prompt("close", {"job": "`\n\n## In short\u2028{job}" + "x" * 5_000})
    assert len(made) < len(guide.prompt("close", {"job": "j"})) + 100
    assert made.splitlines()[1:] == guide.prompt("close", {"job": "j"}).splitlines()[1:]
    assert made.splitlines()[0].count("`") == 2


# ---- files


def test_files_are_relative_and_end_with_one_line_break() -> None:
    for path, body in guide.files().items():
        assert re.fullmatch(r"(?:[.\w-]+/)*[.\w-]+", path)
        assert ".." not in path
        assert body.endswith("\n")
        assert not body.endswith("\n\n")
        assert "\r" not in body


def test_the_plugin_is_offered_by_its_marketplace() -> None:
    offered = shipped(".claude-plugin/marketplace.json")
    (entry,) = offered["plugins"]
    folder = entry["source"].removeprefix("./")
    manifest = shipped(f"{folder}/.claude-plugin/plugin.json")
    assert folder == plugin.FOLDER
    assert manifest["name"] == entry["name"] == "interlock"
    assert manifest["version"] == __version__


def test_the_plugin_has_the_same_skills() -> None:
    files = guide.files()
    loose = {path: body for path, body in files.items() if path.startswith("skills/")}
    inside = f"{plugin.FOLDER}/"
    packed = {
        path.removeprefix(inside): body for path, body in files.items() if path.startswith(f"{inside}skills/")
    }
    assert loose == packed
    assert loose.keys() == {
        f"skills/{name}/{file}" for name in guide.skills() for file in ("SKILL.md", "reference.md")
    }


def test_the_server_is_named_without_a_token() -> None:
    (server,) = shipped(f"{plugin.FOLDER}/.mcp.json")["mcpServers"].values()
    assert server == {
        "type": "http",
        "url": "${INTERLOCK_URL:-http://127.0.0.1:8787}/mcp",
        "headers": {"Authorization": "Bearer ${INTERLOCK_TOKEN}"},
    }
    assert not any(re.search(r"il_(agt|own)_\w", body) for body in guide.files().values())


def test_the_guide_needs_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import interlock.guide as g; loaded = set(sys.modules) - before; g.files();"
        "print(*sorted(name.partition('.')[0] for name in loaded), *(n for n in loaded if n.startswith('interlock.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name.partition(".")[0] for name in loaded} <= sys.stdlib_module_names | {"interlock"}
    assert {
        name for name in loaded if name.startswith("interlock.") and not name.startswith("interlock.guide")
    } == set()
