"""Every condition of a write, by name, with one line that says when it holds.

A condition is a small tree of tests that each adapter evaluates or compiles; nothing else in the code writes
condition expressions. A condition names everything the decision relied on; losing one means read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Exists:
    """The attribute is there (``pk`` is there iff the item is)."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute is not there."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Compare:
    """The attribute is there, has the value's type and compares so: ``=``, ``<``, ``<=``, ``>``, ``>=``.

    ``<>`` is the opposite of ``=``, as in DynamoDB: it also holds where the attribute is missing or has another
    type. Numbers, booleans and strings are never equal to each other. Only strings (by their UTF-8 bytes),
    numbers and bytes have an order; asking for the order of another value is a ValueError.
    """

    attribute: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute is there and equals one of the values."""

    attribute: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every test holds."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one test holds."""

    tests: tuple[Test, ...]


Test = Exists | Absent | Compare | OneOf | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Condition:
    """A named test of the item that a write touches."""

    name: str
    test: Test

    def with_reports(self, reports: int) -> Condition:
        """Holds when this one does, and no usage was reported since: a report moves no version."""
        known = Compare("reports", "=", reports) if reports else Absent("reports")
        return Condition(self.name, AllOf((self.test, known)))


def absent() -> Condition:
    """Holds when the item does not exist."""
    return Condition("absent", Absent("pk"))


def unchanged(version: int) -> Condition:
    """Holds when the head still has the version that the decision was made on, and did not go to the archive."""
    return Condition("unchanged", AllOf((Compare("version", "=", version), Absent("archived"))))


def claimable(version: int, role: str) -> Condition:
    """Holds when the job is still published, for this role, in the version that was judged."""
    return Condition(
        "claimable",
        AllOf(
            (
                Compare("status", "=", "published"),
                Compare("version", "=", version),
                Compare("role", "=", role),
            )
        ),
    )


def held(agent: str, fence: int, version: int, statuses: Sequence[str]) -> Condition:
    """Holds when the agent holds the job under this fence, in one of the statuses, in the judged version."""
    return Condition(
        "held",
        AllOf((
            OneOf("status", tuple(statuses)),
            Compare("assignee", "=", agent),
            Compare("fence", "=", fence),
            Compare("version", "=", version),
        )),
    )  # fmt: skip


def lease_running(agent: str, fence: int, until: int) -> Condition:
    """Holds when the agent's lease on the job is still the one to be renewed, and ``until`` would not shorten it."""
    return Condition(
        "lease_running",
        AllOf((
            OneOf("status", ("in_progress", "unblocked")),
            Compare("assignee", "=", agent),
            Compare("fence", "=", fence),
            Compare("lease_until", "<=", until),
        )),
    )  # fmt: skip


def lease_unrenewed(fence: int, lease_until: int, version: int) -> Condition:
    """Holds when the lease that was found lapsed has neither been renewed nor ended since."""
    return Condition(
        "lease_unrenewed",
        AllOf((
            OneOf("status", ("in_progress", "unblocked")),
            Compare("fence", "=", fence),
            Compare("lease_until", "=", lease_until),
            Compare("version", "=", version),
        )),
    )  # fmt: skip


def timer_hop(attribute: str, hop: int, fence: int | None = None) -> Condition:
    """Holds when this timer chain is the one that counts: its hop is the next one (and the claim is the same)."""
    tests: tuple[Test, ...] = (Compare(attribute, "=", hop),)
    if fence is not None:
        tests += (Compare("fence", "=", fence),)
    return Condition("timer_hop", AllOf(tests))


def hold_seen(seen: int, state: str) -> Condition:
    """Holds when the hold is as it was read: nobody has looked at its upstream later."""
    return Condition("hold_seen", AllOf((Compare("seen", "=", seen), Compare("state", "=", state))))


def hold_is(state: str) -> Condition:
    """Holds when the hold is there in this state (open, failed)."""
    return Condition("hold_is", Compare("state", "=", state))


def report_next(agent: str, fence: int, version: int, reports: int) -> Condition:
    """Holds when the agent holds the job under this fence, in the judged version, and has reported nothing since."""
    holding = held(agent, fence, version, ("in_progress", "blocked", "unblocked"))
    return Condition("report_next", holding.with_reports(reports).test)


def counter_seen(turn: int | None) -> Condition:
    """Holds when nobody has counted further since the counter was read."""
    return Condition("counter_seen", Absent("turn") if turn is None else Compare("turn", "=", turn))


def decision_open() -> Condition:
    """Holds when the decision is there, and nobody has closed it."""
    return Condition("decision_open", Compare("state", "=", "open"))


def links_unchanged(count: int) -> Condition:
    """Holds when no link was added to an existing job since the search for a cycle began."""
    if count == 0:
        return Condition("links_unchanged", Absent("pk"))
    return Condition("links_unchanged", Compare("count", "=", count))


def enrolled() -> Condition:
    """Holds when the identity is there and was not retired."""
    return Condition("enrolled", AllOf((Exists("pk"), Absent("retired_at"))))


def archived() -> Condition:
    """Holds when the head is there and went to the archive."""
    return Condition("archived", Exists("archived"))


def names_job(job: str) -> Condition:
    """Holds when the row names this job."""
    return Condition("names_job", Compare("job", "=", job))


def slot_free(holder: str) -> Condition:
    """Holds when the unique name is free, was ours already, or belonged to the job that has ended (``holder``)."""
    return Condition("slot_free", AnyOf((Absent("pk"), Compare("job", "=", holder))))


def slot_left(job: str, fence: int) -> Condition:
    """Holds when the slot was taken by nobody since this claim, which was found ended."""
    return Condition("slot_left", AllOf((Compare("job", "=", job), Compare("fence", "=", fence))))
