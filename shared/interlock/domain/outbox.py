"""What a head implies for the bus itself: timers that must run for it, and messages to the consumers.

The dispatcher sends them when a change arms one; repair sends whatever the present head implies. Messages carry
no facts: their reader looks at the heads again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.domain import limits
from interlock.domain.identity import Agent
from interlock.domain.job import Job
from interlock.domain.lifecycle import ENDED, FAILED, LEASED, PENDING
from interlock.domain.plan import Plan

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """A message for a queue and when it is due (ms; 0 = at once).

    ``if_waited_for``: it is of use only where another job waits for this one, which the sender looks up.
    """

    queue: str
    body: dict[str, Any]
    due: int = 0
    if_waited_for: bool = False

    def delay(self, now: int) -> int:
        """Seconds to delay it by: never more than one hop, never less than what is left, rounded up."""
        return min(limits.TIMER_HOP_SECONDS, max(0, -((now - self.due) // limits.SECOND)))


_ARMS = {
    "lease": frozenset(
        {
            "job.claimed",
            "job.restarted",
            "job.resumed",
            "job.unblocked",
            "job.decision_answered",
            "job.decision_withdrawn",
        }
    ),
    # a chain ends when it finds the job failed, so what brings it back arms another
    "deadline": frozenset({"job.created", "job.updated", "job.retried", "job.restarted", "job.revived"}),
    "start": frozenset({"job.created", "job.revived", "job.linked", "job.rejected"}),
}


def messages(head: object, events: Sequence[Event] | None = None) -> list[Message]:
    """What must be sent for a head; with ``events``, only what these call for."""
    if isinstance(head, Job):
        return [
            *_timers(head, events),
            *_of_holder(head, events),
            *_of_decisions(head, events),
            *_of_barrier(head, events),
            *_of_routing(head, events),
        ]
    if isinstance(head, Plan):
        return (
            []
            if head.made
            else [Message("barrier", {"kind": "plan", "project": head.project, "plan": head.id})]
        )
    if isinstance(head, Agent):
        return _of_agent(head, events)
    return []


def _of_agent(agent: Agent, events: Sequence[Event] | None) -> list[Message]:
    """``retire``: the hands of a retired or stopped agent are emptied, late enough to catch a claim of the last moment."""
    since = agent.retired_at or (agent.stop["at"] if agent.stop else 0)
    if not since or not _happened(events, {"agent.retired", "agent.stopped"}):
        return []
    body = {"kind": "retire", "project": agent.project, "agent": agent.id}
    return [Message("lease", body, since + limits.LAST_CALL)]


def _happened(events: Sequence[Event] | None, types: set[str] | frozenset[str]) -> bool:
    return events is None or any(event["type"] in types for event in events)


def _timers(job: Job, events: Sequence[Event] | None) -> list[Message]:
    found = []
    base = {"project": job.project, "job": job.id}

    def arm(kind: str, due: int, **more: Any) -> None:
        if _happened(events, _ARMS[kind]):
            found.append(Message("lease", {"kind": kind, **base, **more}, due))

    if job.status in LEASED and job.lease_until is not None:
        arm("lease", job.lease_until + limits.TIMER_SLACK, fence=job.fence, hop=job.lease_hop or 1)
    if job.deadline is not None and job.overdue is None and job.status not in ENDED:
        arm("deadline", job.deadline, at=job.deadline, hop=job.deadline_hop or 1)
    if job.status == PENDING and job.not_before is not None:
        arm("start", job.not_before, at=job.not_before, hop=job.start_hop or 1)
    return found


def _of_holder(job: Job, events: Sequence[Event] | None) -> list[Message]:
    """``stale``: a lease has lapsed; it is to be seen whether its holder is still there."""
    lapsed = [
        event
        for event in events or ()
        if event["type"] == "job.lease_expired"
        # whoever claims its own lapsed job anew is not gone
        and event["data"].get("holder") not in (None, event["actor"]["id"])
    ]
    base = {"kind": "stale", "project": job.project, "job": job.id, "at": job.updated_at}
    return [Message("lease", {**base, "agent": event["data"]["holder"]}) for event in lapsed]


def _of_decisions(job: Job, events: Sequence[Event] | None) -> list[Message]:
    """``decision``: the time to answer one is over. ``close``: nobody has to answer what was open any more."""
    found = []
    base = {"project": job.project, "job": job.id}
    new = {
        event["data"].get("decision") for event in events or () if event["type"] == "job.decision_requested"
    }
    for name, entry in (job.asked or {}).items():
        if "until" in entry and (events is None or name in new):
            body = {"kind": "decision", **base, "decision": name, "at": entry["until"]}
            found.append(Message("lease", body, entry["until"]))
    if job.moot and _happened(events, {"job.decision_withdrawn"}):
        found.append(Message("lease", {"kind": "close", **base}))
    return found


def standing(status: str | None) -> str:
    """What a job's status means for those who wait for it: completed, failed, cancelled, or open."""
    return status if status in ENDED else "open"


def _of_barrier(job: Job, events: Sequence[Event] | None) -> list[Message]:
    """``spread``: those who wait for the job look again. ``gather``: the job looks at those it waits for."""
    found = []
    body = {"project": job.project, "job": job.id}
    if events is None or any(_means_something_else(job, event) for event in _moves(events)):
        found.append(Message("barrier", {"kind": "spread", **body}, if_waited_for=True))
    waits = job.waits and (job.upstreams or job.links)
    if waits and (events is None or any(_enters_barrier(event) for event in _moves(events))):
        found.append(Message("barrier", {"kind": "gather", **body}))
    return found


def _moves(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event["to"] is not None]


def _means_something_else(job: Job, event: Event) -> bool:
    """Whether those who wait for the job take something else from it now: its standing, or what it failed by."""
    blamed = job.cascade is not None and event["type"] == "job.updated"
    return blamed or standing(event["from"]) != standing(event["to"])


def _enters_barrier(event: Event) -> bool:
    return event["to"] == PENDING or (event["from"], event["to"]) == (PENDING, FAILED)


def _of_routing(job: Job, events: Sequence[Event] | None) -> list[Message]:
    """``route``: the job has ended so that jobs follow."""
    new = job.unrouted and (events is None or any(str(event["seq"]) in job.unrouted for event in events))
    return [Message("routing", {"kind": "route", "project": job.project, "job": job.id})] if new else []
