"""A small pure oracle of one job: what each operation does to it and when it is refused, from lifecycle.TRANSITIONS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from interlock.domain import limits
from interlock.domain.lifecycle import (
    BY_OPERATION,
    ENDED,
    HELD,
    LEASED,
    OPEN,
    PENDING,
    PUBLISHED,
    permits,
)

SURE = limits.TIMER_SLACK + limits.SECOND
"""How far a date must be past until its timer has surely fired (it fires late, and delays are whole seconds)."""


@dataclass(frozen=True)
class Model:
    """What matters of a job. Times in ms."""

    id: str
    status: str
    role: str
    lease: int
    budget: int
    on_expire: str
    priority: int
    published_at: int
    not_before: int | None = None
    deadline: int | None = None
    external_id: str | None = None
    overdue: bool = False
    fence: int = 0
    retries: int = 0
    version: int = 1
    holder: str | None = None
    session: str | None = None
    claim_lease: int | None = None
    until: int | None = None
    stopped: int | None = None
    asked: tuple[tuple[str, int | None], ...] = ()
    """Open decisions, and until when each may be answered."""
    waits: str | None = None
    """The decision that blocks it, or did until it expired."""
    ops: tuple[str, ...] = field(default=())

    # ---- effects

    def move(self, operation: str, target: str, now: int, *, key: str | None = None, keys: int = 1) -> Model:
        """The row of the table: status, fence, one event; what holding means follows from the status."""
        row = BY_OPERATION[operation]
        assert self.status in row.sources, f"{operation} from {self.status}"
        assert target in row.targets, f"{operation} to {target}"
        after = replace(self, status=target, fence=self.fence + row.new_fence, version=self.version + 1)
        if self.status in HELD and (target not in HELD or row.new_fence) and self.asked:
            after = replace(after, asked=(), version=after.version + 1)  # nobody has to answer any more
        if target != "blocked":
            after = replace(after, waits=None)
        if target not in LEASED:
            after = replace(after, until=None)
        left = operation in ("stop", "cancel", "expire_deadline") or (operation, target) == (
            "lapse",
            "blocked",
        )
        if target in OPEN or left:
            after = replace(after, holder=None, session=None, claim_lease=None)
        if target == PUBLISHED:
            after = replace(after, published_at=now)
        return after.remember(key, keys)

    def remember(self, key: str | None, keys: int = 1) -> Model:
        """The call is among the last that the head answered; some leave two digests."""
        if key is None:
            return self if keys == 1 else replace(self, ops=(*self.ops, "")[-limits.OPERATIONS_REMEMBERED :])
        return replace(self, ops=(*self.ops, key, *[""] * (keys - 1))[-limits.OPERATIONS_REMEMBERED :])

    def noted(self, key: str | None = None) -> Model:
        """One event more; nothing moves."""
        return replace(self, version=self.version + 1).remember(key)

    def leased(self, now: int, seconds: int) -> Model:
        """A lease starts."""
        return replace(self, until=now + seconds * 1_000)

    def running(self) -> int:
        """Seconds that a renewal grants."""
        return self.claim_lease if self.status == "in_progress" and self.claim_lease else self.lease

    def renewed(self, now: int, *, always: bool = False) -> Model:
        """What the holder's calls do to the lease: when a third is used up, and never a shorter one."""
        if self.status not in LEASED or self.until is None:
            return self
        due = always or self.until - now < self.running() * 1_000 * 2 // 3
        return replace(self, until=max(self.until, now + self.running() * 1_000)) if due else self

    # ---- the bus's own moves

    def lapsed(self, now: int, grace: int = limits.SKEW) -> bool:
        """Whether the lease is over."""
        return self.status in LEASED and self.until is not None and self.until + grace < now

    def fails_by_lapse(self) -> bool:
        """Whether its next lapse is its end."""
        return self.on_expire == "fail" or self.retries >= self.budget

    def asks_by_lapse(self) -> bool:
        """Whether an owner decides about its next lapse."""
        return self.on_expire == "ask" and not self.fails_by_lapse()

    def blocked_by(self, decision: str) -> bool:
        """Whether it is blocked until this decision is closed."""
        return self.status == "blocked" and self.waits == decision

    def undecided(self) -> bool:
        """Whether an open decision blocks it."""
        return any(self.blocked_by(name) for name, _ in self.asked)

    def without(self, decision: str) -> Model:
        """The decision is closed."""
        return replace(self, asked=tuple(pair for pair in self.asked if pair[0] != decision))

    def lapse(self, now: int) -> Model:
        """The lease is over."""
        if self.fails_by_lapse():
            return self.move("lapse", "failed", now)
        if self.asks_by_lapse():
            made = f"dec_{self.id.removeprefix('job_')}_{self.version + 1}"
            blocked = replace(self.move("lapse", "blocked", now), retries=self.retries + 1)
            return replace(blocked, asked=((made, None),), waits=made)
        return replace(self.move("lapse", PUBLISHED, now), retries=self.retries + 1)

    def activate(self, now: int) -> Model:
        """Its time has come."""
        return self.move("activate", PUBLISHED, now)

    def pass_deadline(self, now: int, *, cancels: bool) -> Model:
        """Marked once, and ended where the project says so."""
        after = replace(self.noted(), overdue=True)
        if not cancels or not permits("expire_deadline", self.status):
            return after
        stopped = self.fence if self.status in HELD else self.stopped
        return replace(after.move("expire_deadline", "cancelled", now), stopped=stopped)

    def reachable(self, now: int, *, cancels: bool) -> Iterator[Model]:
        """Every state that timers may have led to by now, in whatever order they came."""
        yield self
        for after in self._steps(now, cancels=cancels):
            yield from after.reachable(now, cancels=cancels)

    def _steps(self, now: int, *, cancels: bool) -> Iterator[Model]:
        if self.lapsed(now):
            yield self.lapse(now)
        if self.status == PENDING and self.not_before is not None and self.not_before <= now:
            yield self.activate(now)
        for name, until in self.asked:
            if until is not None and until <= now:
                yield self.noted().without(name)
        if (
            self.deadline is not None
            and self.deadline <= now
            and not self.overdue
            and self.status not in ENDED
        ):
            yield self.pass_deadline(now, cancels=cancels)

    def waits_in_vain(self, now: int) -> bool:
        """Whether a timer must have fired by now."""
        if any(until is not None and until + SURE < now for _, until in self.asked):
            return True
        late = (self.deadline or now) + SURE < now and not self.overdue and self.status not in ENDED
        return (
            self.lapsed(now, SURE) or late or (self.status == PENDING and (self.not_before or 0) + SURE < now)
        )

    # ---- refusals

    def claim_refused(self, now: int, *, paused: bool, roles: tuple[str, ...]) -> str | None:
        """Why somebody may not claim it, or None."""
        if self.role not in roles:
            return "wrong_role"
        if self.status in ENDED:
            return "ended"
        if self.status == PENDING:
            return "not_yet"
        if self.status == "blocked" and self.holder is None:
            return "not_yet"
        if self.status in HELD and not self.lapsed(now):
            return "already_claimed"
        if self.status in HELD and self.asks_by_lapse():
            return "not_yet"
        if self.status in HELD and self.fails_by_lapse():
            return "ended"
        return "paused" if paused else None

    def holder_refused(self, operation: str, agent: str, fence: int) -> str | None:
        """Why the bearer of a fence may not do something under it: the fence first, then the status."""
        if fence != self.fence or self.holder is None:
            return "stop_requested" if fence == self.stopped else "lease_lost"
        if self.holder != agent:
            return "not_holder"
        goes_round = operation in ("resume", "unblock") and self.undecided()
        return None if permits(operation, self.status) and not goes_round else "wrong_state"

    def seen(self) -> tuple[object, ...]:
        """What the head must show."""
        return (
            (self.status, self.role, self.priority, self.fence, self.retries, self.budget, self.version),
            (self.holder, self.session, self.until, self.stopped, self.overdue),
            (frozenset(name for name, _ in self.asked), self.waits),
        )
