"""Documents from files: YAML or JSON, read as the JSON that the bus will get.

YAML as its version 1.2 has it, less what JSON does not know: `on`, `yes`, dates and 12:30 are text, because a
rule's key `on` must not become a boolean. A key that is named twice is refused, as the bus refuses it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from interlock.cli import inputs
from interlock.cli.exits import CommandError, usage

_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
)
"""The core schema of YAML 1.2: (tag, what is written, characters that it can begin with)."""
_VALUES = 1_000_000
"""A document that its aliases make larger than this is refused; the bus takes a megabyte."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as its parent has it

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping as it was written, whose keys must be text, each named once."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                raise yaml.MarkedYAMLError(problem="a key is text: quote it", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is named twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return node


def _number(kind: type[int] | type[float]) -> Callable[[yaml.SafeLoader, yaml.Node], Any]:
    def make(_: yaml.SafeLoader, node: yaml.Node) -> Any:
        return kind(node.value)

    return make


_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.removeprefix(_TAG) in ("null", "bool", "str", "seq", "map")
}
_Loader.add_constructor(f"{_TAG}int", _number(int))
_Loader.add_constructor(f"{_TAG}float", _number(float))
for _name, _written, _first in _SCALARS:
    _Loader.add_implicit_resolver(
        f"{_TAG}{_name}", re.compile(f"^(?:{_written})$"), [*_first, *([""] if _name == "null" else [])]
    )


def of_file(name: str) -> dict[str, Any]:
    """The object that a file, or standard input for ``-``, holds. A usage error says where it is wrong."""
    shown = "standard input" if name == "-" else name
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise usage(f"cannot read {shown}: {type(error).__name__}") from error
    try:
        value = _parsed(text, only_json=name.endswith(".json"))
    except yaml.MarkedYAMLError as error:
        raise _wrong(shown, error) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise usage(f"{shown}: {error}") from error
    if not isinstance(value, dict):
        raise usage(f"{shown} does not hold an object")
    if sum(1 for _ in _values(value)) > _VALUES:
        raise usage(f"{shown}: its aliases make it larger than anything the bus takes")
    return value


def _parsed(text: str, *, only_json: bool) -> Any:
    try:
        return json.loads(text, object_pairs_hook=inputs.once)
    except json.JSONDecodeError:
        if only_json:
            raise
    return yaml.load(text, _Loader)  # noqa: S506  a subclass of SafeLoader that makes less than it


def _wrong(shown: str, error: yaml.MarkedYAMLError) -> CommandError:
    mark = error.problem_mark
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return usage(f"{shown}{where}: {error.problem or error.context}")


def _values(value: Any) -> Iterator[Any]:
    """Every value inside, at most one more than there may be: aliases can lead in circles."""
    todo = [value]
    for _ in range(_VALUES + 1):
        if not todo:
            return
        one = todo.pop()
        yield one
        todo.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
