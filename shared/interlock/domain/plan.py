"""A plan: jobs that become real together, and the order of jobs that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The head of a plan. Once it is there, its jobs become real, whatever happens to the process that made it.

    ``jobs`` are the job ids by ref; ``parts`` counts the items that hold what was asked for, which expire. ``made``
    says that every job is there.
    """

    id: str
    project: str
    created_at: int
    jobs: Mapping[str, str]
    parts: int
    source: str
    source_label: str
    made: bool = False
    request: bytes = b""
    version: int = 0
    digest: str = ""
    ops: tuple[bytes, ...] = ()


def order(waits_for: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """(names so that each comes after those it waits for, the names of one cycle). One of the two is empty.

    Names that ``waits_for`` does not have as keys are taken as given.
    """
    left = {name: [up for up in ups if up in waits_for] for name, ups in waits_for.items()}
    waiting: dict[str, list[str]] = {name: [] for name in left}
    count = {name: len(ups) for name, ups in left.items()}
    for name, ups in left.items():
        for up in ups:
            waiting[up].append(name)
    ready = [name for name, number in count.items() if number == 0]
    done: list[str] = []
    while ready:
        name = ready.pop()
        done.append(name)
        for next_name in waiting[name]:
            count[next_name] -= 1
            if count[next_name] == 0:
                ready.append(next_name)
    if len(done) == len(left):
        return done, []
    return [], _cycle(left, {name for name in left if count[name]})


def _cycle(waits_for: Mapping[str, Sequence[str]], among: set[str]) -> list[str]:
    """Walk upstream among names that all wait for one of them, until one comes again."""
    name = min(among)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(up for up in waits_for[name] if up in among)
    return path[path.index(name) :]
