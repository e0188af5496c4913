"""Caps on claims: in which scopes a claim counts, and which of a scope's slots it may take.

Every live claim under a cap has one slot of the scope. A slot names the claim that took it last, and it is free again
as soon as that claim has ended: nothing is written then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interlock.domain.claim import Reason
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.domain.lifecycle import HELD


@dataclass(frozen=True, slots=True)
class Scope:
    """What claims are counted of (``kind``: agent, role, project), and how many of them may live at once."""

    kind: str
    id: str
    label: str
    cap: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that was taken before, and the claim that took it last."""

    number: int
    job: str
    fence: int

    def live(self, job: Job | None) -> bool:
        """Whether that claim still lives; ``job`` is the job's head, None when it is gone.

        Blocked and unblocked jobs are held too. Once it has ended it never comes back: every way to hold the job again
        moves the fence.
        """
        return job is not None and job.fence == self.fence and job.status in HELD


def scopes(project: Project, actor: Actor, role: str) -> list[Scope]:
    """The scopes with a cap in which a claim of a job for ``role`` by ``actor`` counts."""
    found = []
    person, wanted, cap = actor.person, project.roles.get(role), project.settings.get("max_claims")
    if person is not None and person.max_claims is not None:
        found.append(Scope("agent", person.id, person.label, person.max_claims))
    if wanted is not None and wanted.max_claims is not None:
        found.append(Scope("role", role, role, wanted.max_claims))
    if cap is not None:
        found.append(Scope("project", project.id, project.id, cap))
    return found


def free(slots: Iterable[Slot], heads: Mapping[str, Job | None], cap: int) -> list[int]:
    """The numbers of the slots that a claim may take, as far as ``heads`` are known.

    A slot whose job's head is not known counts as live. Slots beyond the cap were taken under a higher one. While they
    live, a claim takes only slots below k, the largest number with k + (live slots from k on) <= cap: with all of the
    k taken the cap would just be reached, so that racers, who keep to the same k, cannot exceed it.
    """
    live = {slot.number for slot in slots if slot.job not in heads or slot.live(heads[slot.job])}
    for bound in range(cap, 0, -1):
        if bound + sum(number >= bound for number in live) <= cap:
            return [number for number in range(bound) if number not in live]
    return []


def reached(scope: Scope, live: int) -> Reason:
    """Why nothing may be claimed in a scope of which no slot is free."""
    who = f"{scope.kind} {scope.label}"
    return Reason(
        "cap_reached",
        f"{live} claims of {who} live; its `max_claims` is {scope.cap}, and an owner may raise it",
    )
