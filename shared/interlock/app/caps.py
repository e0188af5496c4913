"""Caps on claims in the store: the slots that a claim may take, and what taking them adds to its transaction.

Without a cap nothing is read and nothing is written. Under one, a claim is one transaction of the job's head and one
slot a scope. The condition of a slot is what holds racers to the cap: of those who found it free only one gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.app import load, timers, write
from interlock.app.call import Bus
from interlock.domain import caps as rules
from interlock.domain import limits
from interlock.domain.caps import Scope, Slot
from interlock.domain.claim import Reason, refusal
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job
from interlock.store import conditions, keys
from interlock.store.ports import Item, Key, Put, Query

LOOK = 2
"""Slots whose jobs are looked at first; each further look takes twice as many, until one is found free."""


@dataclass(frozen=True, slots=True)
class Place:
    """A slot that a claim may take: who had it last (None: nobody yet), and the jobs whose leases must be ended first
    because they have lapsed."""

    key: Key
    last: Slot | None
    lapsed: tuple[Job, ...]


def find(bus: Bus, project: str, scope: Scope, now: int) -> Place | Reason:
    """A slot of the scope, chosen at random among those that are free, or the reason why none is. Writes nothing.

    Jobs are looked at a few at first and then more, in random order, and none where a slot was never taken. A lapsed
    lease counts as live while another slot is free: its holder may still renew it.
    """
    pk = keys.slots_partition(project, scope.kind, scope.id)
    slots = [_slot(row) for row in bus.store.table.query(Query(pk, limit=limits.CLAIM_CAP[1])).items]
    unseen = sorted(dict.fromkeys(slot.job for slot in slots), key=lambda _: bus.entropy(4))
    heads: dict[str, Job | None] = {}
    look = LOOK
    while not (numbers := rules.free(slots, heads, scope.cap)) and unseen:
        some, unseen, look = unseen[:look], unseen[look:], look * 2
        heads |= {**dict.fromkeys(some), **load.job_heads(bus, project, some)}
    lapsed: list[Job] = []
    if not numbers:
        held = [job for slot in slots if (job := heads[slot.job]) is not None and slot.live(job)]
        lapsed = [job for job in held if job.lapsed(now)]
        numbers = rules.free(slots, {**heads, **dict.fromkeys(job.id for job in lapsed)}, scope.cap)
        if not numbers:
            return rules.reached(scope, len(held))
    number = numbers[int.from_bytes(bus.entropy(2), "big") % len(numbers)]
    last = next((slot for slot in slots if slot.number == number), None)
    return Place(keys.slot(pk, number), last, tuple(lapsed))


def _slot(row: Item) -> Slot:
    return Slot(keys.slot_number(row["sk"]), row["job"], row["fence"])


def take(bus: Bus, found: Sequence[Place], job: Job, fence: int, now: int) -> list[Put]:
    """What the transaction that lets somebody hold ``job`` under ``fence`` adds: the slots that it takes.

    Lapsed leases that stand in the way are ended first, each by a write of its own; that of ``job`` is ended by the
    claim itself. Raises :class:`write.Lost` when one of them was renewed or ended meanwhile.
    """
    for late in {late.id: late for place in found for late in place.lapsed}.values():
        if late.id != job.id and timers.expire(bus, late, now) is None:
            raise write.Lost
    return [_put(place, job, fence) for place in found]


def _put(place: Place, job: Job, fence: int) -> Put:
    row = {"pk": place.key.pk, "sk": place.key.sk, "job": job.id, "fence": fence}
    last = place.last
    return Put(
        place.key, row, conditions.absent() if last is None else conditions.slot_left(last.job, last.fence)
    )


def require(bus: Bus, project: Project, actor: Actor, job: Job, now: int) -> list[Place]:
    """A place in each scope with a cap in which a claim of ``job`` by ``actor`` counts. Raises ``cap_reached``, or
    :class:`write.Lost` when the job has moved: it may be this very call, made twice, that took the last slot."""
    found, reasons = Room(bus, project, actor, now).of(job.role)
    if reasons:
        if write.reload(bus, job).version != job.version:
            raise write.Lost
        raise refusal(reasons[0], job, actor)
    return found


class Room:
    """Where one call may still claim. What was found is kept until a race for it was lost."""

    def __init__(self, bus: Bus, project: Project, actor: Actor, now: int) -> None:
        self._bus, self._project, self._actor, self._now = bus, project, actor, now
        self._found: dict[Scope, Place | Reason] = {}

    def of(self, role: str) -> tuple[list[Place], list[Reason]]:
        """For a claim of a job for the role: a place in each scope with a cap, and why there is none in some."""
        scopes = rules.scopes(self._project, self._actor, role)
        for scope in scopes:
            if scope not in self._found:
                self._found[scope] = find(self._bus, self._project.id, scope, self._now)
        found = [self._found[scope] for scope in scopes]
        return (
            [place for place in found if isinstance(place, Place)],
            [reason for reason in found if isinstance(reason, Reason)],
        )

    def full(self, role: str) -> bool:
        """Whether a cap leaves no room for a claim of a job for this role."""
        return bool(self.of(role)[1])

    def look_again(self) -> None:
        """Somebody else was faster: what was found no longer counts."""
        self._found.clear()
