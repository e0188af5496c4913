"""The clients that `interlock agent connect` knows: where each keeps its servers, and how it names an environment variable.

A token never stands in a configuration: each client has a way of its own to take it from the environment when it starts.
docs/connect.md says how each row was checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "interlock"
"""The server's name in every configuration; tools are called after it (`mcp__interlock__claim_next`)."""
TOKEN, URL = "INTERLOCK_TOKEN", "INTERLOCK_URL"
COMMAND = ("interlock", "mcp")

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A client.

    ``file`` is where it keeps its servers, below the project's folder, or absolute for the user; ``table`` is the path of
    the servers in it. ``http`` makes the entry of a server by its address, ``stdio`` that of one which the client starts.
    ``skills`` is the folder that it looks for skills in, ``notes`` the file that it reads at every start.
    """

    title: str
    file: Callable[[Path], Path]
    table: str
    http: Callable[[str], Entry]
    stdio: Callable[[], Entry]
    start: str
    skills: str = ".agents/skills"
    notes: str = "AGENTS.md"
    first: Mapping[str, Any] | None = None
    """What a new file begins with."""


def _in_project(*parts: str) -> Callable[[Path], Path]:
    return lambda folder: folder.joinpath(*parts)


def _of_codex(_: Path) -> Path:
    """For the user: Codex reads a project's own file only after the user has trusted the project."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


def _headers(variable: str) -> Entry:
    return {"headers": {"Authorization": f"Bearer {variable}"}}


def _started(variable: Callable[[str], str], **more: Any) -> Entry:
    """A server that the client starts, with what it needs from the client's own environment."""
    program, *arguments = COMMAND
    environment = {name: variable(name) for name in (URL, TOKEN)}
    return {**more, "command": program, "args": arguments, "env": environment}


CLIENTS: Mapping[str, Kind] = {
    "claude": Kind(
        "Claude Code",
        _in_project(".mcp.json"),
        "mcpServers",
        lambda url: {"type": "http", "url": url, **_headers(f"${{{TOKEN}}}")},
        lambda: _started(lambda name: f"${{{name}}}", type="stdio"),
        "claude",
        skills=".claude/skills",
        notes="CLAUDE.md",
    ),
    "codex": Kind(
        "Codex",
        _of_codex,
        "mcp_servers",
        lambda url: {"url": url, "bearer_token_env_var": TOKEN},
        lambda: {"command": COMMAND[0], "args": list(COMMAND[1:]), "env_vars": [URL, TOKEN]},
        "codex",
    ),
    "cursor": Kind(
        "Cursor",
        _in_project(".cursor", "mcp.json"),
        "mcpServers",
        lambda url: {"url": url, **_headers(f"${{env:{TOKEN}}}")},
        lambda: _started(lambda name: f"${{env:{name}}}"),
        "cursor .",
    ),
    "vscode": Kind(
        "VS Code",
        _in_project(".vscode", "mcp.json"),
        "servers",
        lambda url: {"type": "http", "url": url, **_headers(f"${{env:{TOKEN}}}")},
        lambda: _started(lambda name: f"${{env:{name}}}", type="stdio"),
        "code .",
    ),
    "opencode": Kind(
        "OpenCode",
        _in_project("opencode.json"),
        "mcp",
        lambda url: {"type": "remote", "url": url, "oauth": False, **_headers(f"{{env:{TOKEN}}}")},
        lambda: {
            "type": "local",
            "command": list(COMMAND),
            "environment": {name: f"{{env:{name}}}" for name in (URL, TOKEN)},
        },
        "opencode",
        first={"$schema": "https://opencode.ai/config.json"},
    ),
    "gemini": Kind(
        "Gemini CLI",
        _in_project(".gemini", "settings.json"),
        "mcpServers",
        lambda url: {"httpUrl": url, **_headers(f"${TOKEN}")},
        lambda: _started(lambda name: f"${name}"),
        "gemini",
        notes="GEMINI.md",
    ),
}
