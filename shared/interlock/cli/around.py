"""What stands around a job, for people: what it waits for and holds back, where it comes from, and the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.cli import screen
from interlock.cli.screen import clean

Value = Mapping[str, Any]

MARKS = {
    "pending": "◌",
    "published": "○",
    "in_progress": "●",
    "blocked": "‖",
    "unblocked": "◐",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
}
"""A status at a glance; its name stands beside it."""
LINKS = {
    "blocks": "blocked by",
    "reopen_of": "reopen of",
    "routed_from": "routed from",
    "parent": "child of",
}
"""How a job speaks of a link that leads to it, by the link's type."""
NAMED = 20
"""Upstream and downstream jobs that `job show` lists for people; the rest is counted."""
DEEP = 8
"""Levels that are indented; what is deeper stands below each other."""


def lineage(job: Value) -> Iterator[tuple[str, object]]:
    """Where a job comes from and what has failed it, as named values."""
    cause = job.get("caused_by")
    yield "  parent", job.get("parent") if job.get("parent") != job.get("routed_from") else None
    yield "  routed from", job.get("routed_from")
    yield "  reopen of", job.get("reopen_of")
    yield "  retried by", job.get("retried_by")
    yield "  caused by", cause and f"{', '.join(cause['upstreams'])}, root {cause['root']}"
    yield "  independent", "yes" if job.get("independent") else None
    yield "  if upstream fails", "continue" if job.get("on_upstream_failure") == "continue" else None


def neighbours(job: Value) -> Iterator[str]:
    """A line for each job that this one waits for, or holds back, and for each rule."""
    ups: Sequence[Value] = job.get("upstream") or []
    for up in ups[:NAMED]:
        instead = f" by {clean(up['replaced_by'])}" if up.get("replaced_by") else ""
        yield f"  blocked by  {clean(up['id'])}  {clean(up['state'])}{instead}"
    yield from _rest("blocked by", len(ups) - NAMED)
    below: Sequence[str] = job.get("downstream") or []
    for name in below[:NAMED]:
        yield f"  blocks      {clean(name)}"
    yield from _rest("blocks    ", len(below) - NAMED, "at least " if job.get("downstream_more") else "")
    for rule in job.get("routing") or []:
        yield f"  when {clean(rule['on'])}{_guard(rule.get('when'))}, for {clean(rule['role'])}:  {clean(rule['summary'])}"


def _rest(what: str, count: int, least: str = "") -> Iterator[str]:
    if count > 0:
        yield f"  {what}  {least}{count:,} more"


def _guard(when: Value | None) -> str:
    if not when:
        return ""
    value = f" {json.dumps(when['value'])}" if "value" in when else ""
    return f" and {clean(when['field'])} {clean(when['op'])}{value}"


def graph(answer: Value, here: str, title: Callable[[Value], str] | None = None) -> list[str]:
    """A graph as text: the jobs in layers, numbered, each with the numbers of those that its links come from.

    ``here`` is the job that was asked about. With ``title``, which names a job, each job is one line; else its
    summary is followed by a line with its role, its id and its links.
    """
    placed = list(_placed(answer["nodes"], answer["edges"]))
    number = {node["id"]: place for place, (node, _) in enumerate(placed, 1)}
    incoming: dict[str, dict[str, list[int]]] = {name: {} for name in number}
    for edge in answer["edges"]:
        incoming[edge["to"]].setdefault(edge["type"], []).append(number[edge["from"]])
    width = len(str(len(placed)))
    lines = []
    for node, depth in placed:
        status = clean(node["status"])
        start = (
            f"{number[node['id']]:>{width}}  {'  ' * min(depth, DEEP)}{MARKS.get(status, '?')} {status:<11}"
        )
        links = " · ".join(
            f"{LINKS.get(kind, clean(kind))} {_ranges(numbers)}"
            for kind, numbers in incoming[node["id"]].items()
        )
        if title:
            lines.append(f"{start}  {clean(title(node))}" + (f"  ({links})" if links else ""))
            continue
        lines.append(f"{start}  {clean(node['summary'])}" + ("  (this job)" if node["id"] == here else ""))
        below = " " * (width + 4 + 2 * min(depth, DEEP))
        lines.append(f"{below}{clean(node['role'])}  {clean(node['id'])}" + (f"  {links}" if links else ""))
    return lines


def _placed(nodes: Sequence[Value], edges: Iterable[Value]) -> Iterator[tuple[Value, int]]:
    """The jobs in layers: (job, its layer), each after those that its links come from.

    Only links that hold work back never lead in a circle; where others do, these decide.
    """
    every: dict[str, set[str]] = {node["id"]: set() for node in nodes}
    holding: dict[str, set[str]] = {node["id"]: set() for node in nodes}
    for edge in edges:
        every[edge["to"]].add(edge["from"])
        if edge["type"] == "blocks":
            holding[edge["to"]].add(edge["from"])
    layer: dict[str, int] = {}
    left = list(every)
    while left:
        free = [name for name in left if every[name] <= layer.keys()]
        free = free or [name for name in left if holding[name] <= layer.keys()][:1] or left[:1]
        layer |= {
            name: 1 + max((layer[up] for up in every[name] if up in layer), default=-1) for name in free
        }
        left = [name for name in left if name not in layer]
    for node in sorted(nodes, key=lambda node: layer[node["id"]]):
        yield node, layer[node["id"]]


def _ranges(numbers: Iterable[int]) -> str:
    """1, 2, 3, 5 as "1–3, 5"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(
        f"{first}" if first == last else f"{first}, {last}" if last == first + 1 else f"{first}–{last}"
        for first, last in runs
    )


def show_graph(answer: Value, here: str) -> None:
    """A graph on the screen."""
    for line in graph(answer, here):
        screen.line(line)
    if answer["truncated"]:
        screen.note("there are more jobs: --depth goes further, up to a bound of jobs")


def show_reopening(answer: Value) -> None:
    """Why the work was sent back, every time."""
    screen.line(f"{clean(answer['retry'])}  {clean(answer['summary'])}")
    screen.facts(
        [
            ("  reopen of", answer["original"]),
            ("  role", answer["role"]),
            ("  retries", f"{answer['retry_count']} of {answer['max_retries']}"),
        ]
    )
    for constraint in answer["constraints"]:
        screen.line(f"  must  {clean(constraint)}")
    for told in answer["rejections"]:
        cut = " (cut)" if told["reason_truncated"] else ""
        screen.line(
            f"  rejected by {clean(told['rejected_by'].get('label'))} on {clean(told['reviewer'])}, "
            f"{clean(told['rejected_at'])}: {clean(told['reason'])}{cut}"
        )
