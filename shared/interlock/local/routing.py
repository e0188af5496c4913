"""Which route takes a request: by segments, as API Gateway does it.

The most specific path wins, a literal segment before a parameter, a parameter before ``{name+}``; then the exact
method before ANY; what nothing takes goes to ``$default``. Cost does not grow with the number of routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import unquote

from interlock.local.template import DEFAULT_ROUTE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Match(Generic[T]):
    """The target that takes a request, its route key (``GET /health``), the decoded path parameters."""

    target: T
    key: str
    parameters: dict[str, str]


@dataclass(slots=True)
class _Node(Generic[T]):
    literals: dict[str, _Node[T]] = field(default_factory=dict)
    parameter: _Node[T] | None = None
    rest: _Node[T] | None = None
    methods: dict[str, tuple[str, tuple[str, ...], T]] = field(default_factory=dict)


class Router(Generic[T]):
    """Routes by (method, path) to targets."""

    def __init__(self, routes: Iterable[tuple[str, str, T]]) -> None:
        self._root: _Node[T] = _Node()
        self._default: Match[T] | None = None
        for method, path, target in routes:
            if path == DEFAULT_ROUTE:
                self._default = Match(target, DEFAULT_ROUTE, {})
            else:
                self._add(method, path, target)

    def _add(self, method: str, path: str, target: T) -> None:
        node, names = self._root, []
        for segment in path.split("/")[1:]:
            if segment.startswith("{") and segment.endswith("+}"):
                names.append(segment[1:-2])
                node.rest = node.rest or _Node()
                node = node.rest
            elif segment.startswith("{") and segment.endswith("}"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        if method in node.methods:
            raise ValueError(f"two routes for {method} {path}")
        node.methods[method] = (f"{method} {path}", tuple(names), target)

    def match(self, method: str, path: str) -> Match[T] | None:
        """The route for a request's method and undecoded path; None when nothing takes it."""
        values: list[str] = []
        found = self._walk(self._root, path.split("/"), 1, method, values)
        if found is None:
            return self._default
        key, names, target = found
        if not names:
            return Match(target, key, {})
        decoded = (unquote(value) if "%" in value else value for value in values)
        return Match(target, key, dict(zip(names, decoded, strict=True)))

    def _walk(
        self, node: _Node[T], segments: list[str], at: int, method: str, values: list[str]
    ) -> tuple[str, tuple[str, ...], T] | None:
        if at == len(segments):
            return node.methods.get(method) or node.methods.get("ANY")
        segment = segments[at]
        child = node.literals.get(segment)
        if child is not None:
            found = self._walk(child, segments, at + 1, method, values)
            if found is not None:
                return found
        mark = len(values)
        if node.parameter is not None and segment:
            values.append(segment)
            found = self._walk(node.parameter, segments, at + 1, method, values)
            if found is not None:
                return found
            del values[mark:]
        if node.rest is not None and segment:
            values.append("/".join(segments[at:]))
            found = node.rest.methods.get(method) or node.rest.methods.get("ANY")
            if found is not None:
                return found
            del values[mark:]
        return None
