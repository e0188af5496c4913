"""Which bus, which project, which credential: flag > environment > credentials.json > profile.

A credential belongs to the bus that its file names: when a flag or the environment names another bus, the
file's tokens are not sent there.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from interlock.cli.exits import RIGHT, CommandError, usage

CREDENTIALS = Path(".interlock") / "credentials.json"
DEFAULT_PROJECT = "default"
_KEYS = ("url", "project", "token", "owner_token", "agent_token")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a call needs. Tokens are never shown: not by ``repr``, not in messages."""

    url: str
    project: str
    owner_token: str = field(default="", repr=False)
    agent_token: str = field(default="", repr=False)

    def token(self, side: str) -> str:
        """The credential of a side (``agent`` or ``owner``), or the only one there is."""
        if side == "agent":
            return self.agent_token or self.owner_token
        return self.owner_token or self.agent_token


def load(
    *,
    url: str | None = None,
    project: str | None = None,
    profile: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    side: str | None = None,
) -> Settings:
    """The settings of this invocation.

    ``token`` is one read from standard input; ``folder`` is where the search for credentials.json starts;
    ``side`` asks for the credential of one side only. INTERLOCK_OWNER_TOKEN beside INTERLOCK_TOKEN is the owner's
    (`interlock up -- CMD` sets both). CommandError (usage) when no bus is known.
    """
    named = {
        "url": url or environment.get("INTERLOCK_URL"),
        "project": project or environment.get("INTERLOCK_PROJECT"),
        "token": token or environment.get("INTERLOCK_TOKEN"),
    }
    chosen = profile or environment.get("INTERLOCK_PROFILE")
    files = [_profile(chosen)] if chosen else [_credentials(folder or Path(os.path.curdir)), _profile(None)]
    address = _address(named["url"] or _first(files, "url"))
    beside = [source for source in files if not source.get("url") or _address(source["url"]) == address]
    given = {
        "token": named["token"] or "",
        "owner_token": "" if token else environment.get("INTERLOCK_OWNER_TOKEN", ""),
    }
    pair = next((source for source in (given, *beside) if any(source.get(key) for key in _KEYS[2:])), {})
    owner = pair.get("owner_token") or pair.get("token") or ""
    agent = pair.get("agent_token") or pair.get("token") or ""
    if side == "agent":
        owner = agent
    elif side == "owner":
        agent = owner
    where = named["project"] or _first(beside, "project") or _scope(owner) or _scope(agent)
    return Settings(address, where or DEFAULT_PROJECT, owner, agent)


def _first(sources: list[dict[str, str]], key: str) -> str | None:
    return next((source[key] for source in sources if source.get(key)), None)


def _scope(token: str) -> str | None:
    """The project that a credential names in its own text."""
    scope = token[7:].partition(".")[0] if token.startswith(("il_agt_", "il_own_")) else ""
    return scope if scope and scope != "installation" else None


def _address(url: str | None) -> str:
    if not url:
        raise usage(
            "no bus is known here",
            "Start one with `interlock up`, or name it with --url or INTERLOCK_URL.",
        )
    parts = urlsplit(url)
    if (
        parts.scheme not in {"http", "https"}
        or not parts.netloc
        or parts.username
        or parts.query
        or parts.fragment
    ):
        raise usage(f"not the address of a bus: {url}", "Write it as https://HOST or http://127.0.0.1:8787.")
    return url.rstrip("/")


def _credentials(folder: Path) -> dict[str, str]:
    """The nearest credentials.json, from ``folder`` upwards."""
    try:
        start = folder.resolve()
    except OSError:  # the working directory was removed
        return {}
    for place in (start, *start.parents):
        path = place / CREDENTIALS
        if path.is_file():
            return _read(path)
    return {}


def profiles_folder() -> Path:
    """Where profiles stand: one file each, NAME.toml or NAME.json."""
    from platformdirs import user_config_path

    return user_config_path("interlock", appauthor=False) / "profiles"


def _profile(name: str | None) -> dict[str, str]:
    if name and not all(letter.isalnum() or letter in "._-" for letter in name):
        raise usage(f"not the name of a profile: {name}")
    for suffix in (".toml", ".json"):
        path = profiles_folder() / f"{name or 'default'}{suffix}"
        if path.is_file():
            if sys.platform != "win32" and stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise CommandError(
                    RIGHT, f"others may read the profile {path}", f"It holds a token: chmod 600 {path}"
                )
            return _read(path)
    if name:
        raise usage(
            f"there is no profile {name!r}",
            f"Profiles are files in {profiles_folder()}: NAME.toml, mode 0600.",
        )
    return {}


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
        document: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise usage(f"cannot read {path}: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise usage(f"{path} does not hold an object")
    return {key: document[key] for key in _KEYS if isinstance(document.get(key), str)}
