"""The guide for everybody who works on the bus, and what is made of it: one text, guide.md, and no sentence twice.

Nothing here needs more than the standard library; the text is read on first use.
"""

from collections.abc import Mapping

from interlock.guide import plugin
from interlock.guide.prompts import PROMPTS, Prompt, prompt
from interlock.guide.short import BEGIN, END, instructions, snippet
from interlock.guide.skill import folders, skills
from interlock.guide.text import guide

__all__ = [
    "BEGIN",
    "END",
    "PROMPTS",
    "Prompt",
    "files",
    "guide",
    "instructions",
    "prompt",
    "skills",
    "snippet",
]


def files() -> Mapping[str, str]:
    """All that agents' tools read from disk: texts by path, relative, with ``/`` between folders.

    ``AGENTS.md`` is the snippet, ``skills/NAME/…`` are the skills, ``.claude-plugin/marketplace.json`` and
    ``claude-plugin/…`` the plugin for Claude Code.
    """
    loaded = {f"skills/{path}": body for path, body in folders().items()}
    return {"AGENTS.md": snippet(), **loaded, **plugin.files(loaded)}
