"""What a bus came to, without what differs between two runs of the same story: ids, times, digests."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.sim import oracle

from interlock.domain.decision import Decision
from interlock.domain.identity import Agent, Owner, Project
from interlock.domain.job import Job
from interlock.domain.plan import Plan
from interlock.domain.presence import Presence
from interlock.store import decisions, keys
from interlock.store.items import Head

_LINKS = (keys.OPEN_HOLD, keys.BAD_HOLD, keys.UPSTREAM, keys.WAITING, keys.DESCENDING)
"""Rows that say how jobs hang together."""


def outcome(w: Any) -> list[tuple[Any, ...]]:
    """Every entity as it ended, and what its ledger tells."""
    state = oracle.memory(w)
    rows = defaultdict(list)
    for key in state.items:
        rows[key.pk] += [kind for kind in _LINKS if key.sk.startswith(kind)]
        if key.sk.startswith(keys.DECISION_PREFIX):
            rows[key.pk].append(_decision(decisions.read(state.items[key])))
    found = []
    for pk, head in state.heads.items():
        events = [(e["type"], _by(e), e["from"], e["to"]) for e in state.events[pk]]
        linked = tuple(sorted(rows[pk]))
        found.append((type(head).__name__, *_shown(head, w.clock.now), linked, tuple(events)))
    return sorted(found, key=repr)


def _decision(found: Decision) -> str:
    by = found.closed_by and found.closed_by["label"]
    what = (
        found.kind,
        found.cause,
        found.rev,
        found.state,
        found.answer,
        found.note,
        by,
        len(found.findings),
    )
    return f"decision {what}"


def _by(event: dict[str, Any]) -> str:
    """Who did it. Whoever meets a lease that is over may end it: a timer, or the next claim."""
    return "" if event["type"] == "job.lease_expired" else str(event["actor"]["label"])


def _shown(head: Head, now: int) -> tuple[Any, ...]:
    if isinstance(head, Job):
        return (
            (head.summary, head.stage, head.role, head.priority, head.assignee_label, head.external_id),
            (head.fence, head.retry_count, head.max_retries, head.version, head.rev, head.stopped_fence),
            (
                head.artifacts,
                head.later_artifacts,
                head.context,
                head.overdue is not None,
                head.parent is not None,
            ),
            (head.upstreams, head.links, head.routing, len(head.excluded), len(head.past)),
            (head.reopen_of is not None, head.retry is not None),
            (head.decision is not None, len(head.asked or ()), len(head.answered), len(head.moot)),
            (head.approved is not None and head.approved["rev"],),
        )
    if isinstance(head, Project):
        return (
            head.id,
            head.title,
            tuple(sorted(head.settings.items())),
            tuple(head.roles),
            tuple(head.pauses),
        )
    if isinstance(head, Plan):
        return tuple(head.jobs), head.made, head.source_label
    if isinstance(head, Presence):
        return (head.stale_at is not None,)
    assert isinstance(head, Agent | Owner)
    live = [token.name for token in head.tokens if token.live(now)]
    return head.label, len(head.tokens), tuple(live), head.retired_at > 0
