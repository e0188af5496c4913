"""What a head implies for the bus itself: the timers that must run for it.

The dispatcher sends them when a change arms one; repair sends whatever the present head implies. Messages carry
no facts: their reader looks at the head again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from interlock.domain import limits
from interlock.domain.identity import Agent
from interlock.domain.job import Job
from interlock.domain.lifecycle import ENDED, LEASED, PENDING


@dataclass(frozen=True, slots=True)
class Timer:
    """A message for the ``lease`` queue and when it is due (ms)."""

    body: dict[str, Any]
    due: int

    def delay(self, now: int) -> int:
        """Seconds to delay it by: never more than one hop, never less than what is left, rounded up."""
        return min(limits.TIMER_HOP_SECONDS, max(0, -((now - self.due) // limits.SECOND)))


_ARMS = {
    "lease": frozenset({"job.claimed", "job.restarted", "job.resumed", "job.unblocked"}),
    # a chain ends when it finds the job failed, so what brings it back arms another
    "deadline": frozenset({"job.created", "job.updated", "job.retried", "job.restarted"}),
    "start": frozenset({"job.created"}),
    "retire": frozenset({"agent.retired"}),
}


def timers(head: object, types: Iterable[str] | None = None) -> list[Timer]:
    """The timers that must run for a head; with ``types``, only those that these events arm."""
    if isinstance(head, Job):
        found = _of_job(head)
    elif isinstance(head, Agent) and head.retired_at:
        # late enough for a claim of the last moment to be caught too
        due = head.retired_at + limits.LAST_CALL
        found = [Timer({"kind": "retire", "project": head.project, "agent": head.id}, due)]
    else:
        return []
    if types is None:
        return found
    happened = frozenset(types)
    return [timer for timer in found if not happened.isdisjoint(_ARMS[timer.body["kind"]])]


def _of_job(job: Job) -> list[Timer]:
    found = []
    base = {"project": job.project, "job": job.id}
    if job.status in LEASED and job.lease_until is not None:
        due = job.lease_until + limits.TIMER_SLACK
        found.append(Timer({"kind": "lease", **base, "fence": job.fence, "hop": job.lease_hop or 1}, due))
    if job.deadline is not None and job.overdue is None and job.status not in ENDED:
        found.append(
            Timer(
                {"kind": "deadline", **base, "at": job.deadline, "hop": job.deadline_hop or 1}, job.deadline
            )
        )
    if job.status == PENDING and job.not_before is not None:
        found.append(
            Timer({"kind": "start", **base, "at": job.not_before, "hop": job.start_hop or 1}, job.not_before)
        )
    return found
