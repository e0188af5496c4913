"""Routing: which jobs follow from a job that has ended, by its rules."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.domain import guard

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a rule (``number`` counts from 0): a job, or the reason why not."""

    number: int
    rule: Rule
    skipped: str | None = None


def judge(rules: Sequence[Rule], ended: str, result: Any, roles: Container[str]) -> list[Verdict]:
    """The verdicts on the rules for this ending; those for others have none.

    ``result`` is what guards look at (None where a job did not complete), ``roles`` are those that are live.
    """
    return [
        Verdict(number, rule, _reason(rule, result, roles))
        for number, rule in enumerate(rules)
        if rule["on"] == ended
    ]


def _reason(rule: Rule, result: Any, roles: Container[str]) -> str | None:
    if rule["when"] is not None and not guard.holds(rule["when"], result):
        return "guard"
    return None if rule["role"] in roles else "unknown_role"
