"""The plugin for Claude Code: the skills, and the server with the token by reference to the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock import __version__

NAME = "interlock"
FOLDER = "claude-plugin"
"""Where the plugin stands below what is shipped; the marketplace that offers it stands beside it."""

_ABOUT = "Work on the jobs of an Interlock board, and publish jobs to it."
_AUTHOR = {"name": "Interlock contributors"}


def manifest() -> dict[str, Any]:
    """``.claude-plugin/plugin.json``."""
    return {
        "name": NAME,
        "version": __version__,
        "description": _ABOUT,
        "author": _AUTHOR,
        "license": "Apache-2.0",
        "keywords": ["agents", "coordination", "jobs", "mcp"],
    }


def servers() -> dict[str, Any]:
    """``.mcp.json``: the client fills in the references; no token is written anywhere."""
    return {
        "mcpServers": {
            NAME: {
                "type": "http",
                "url": "${INTERLOCK_URL:-http://127.0.0.1:8787}/mcp",
                "headers": {"Authorization": "Bearer ${INTERLOCK_TOKEN}"},
            }
        }
    }


def marketplace() -> dict[str, Any]:
    """``.claude-plugin/marketplace.json`` of the folder that holds the plugin's own."""
    return {
        "name": NAME,
        "owner": _AUTHOR,
        "metadata": {"description": "What agents need to work with Interlock."},
        "plugins": [{"name": NAME, "source": f"./{FOLDER}", "description": _ABOUT}],
    }


def files(skills: Mapping[str, str]) -> Mapping[str, str]:
    """The marketplace and the plugin in it, by path."""
    written = {
        ".claude-plugin/marketplace.json": marketplace(),
        f"{FOLDER}/.claude-plugin/plugin.json": manifest(),
        f"{FOLDER}/.mcp.json": servers(),
    }
    return {
        **{path: json.dumps(document, indent=2) + "\n" for path, document in written.items()},
        **{f"{FOLDER}/{path}": body for path, body in skills.items()},
    }
