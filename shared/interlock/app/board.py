"""claim-next: walk the board until a claim succeeds or nothing is left that the caller may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from interlock.app import caps, claims, load, notices, presence, spending, timers, write
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.references import require_role
from interlock.domain import claim as rules
from interlock.domain import ids, limits, moves
from interlock.domain.identity import Project
from interlock.domain.job import Job
from interlock.errors import InterlockError
from interlock.store import conditions, keys
from interlock.store.ports import Item, Put, Query

FIRST_PAGE = 8
"""Small, so that the common case (the best job is free) reads half a unit."""
NEXT_PAGE = 50
AMONG = 8
"""After a lost race: choose at random among so many of equal priority, so that racers spread."""
WALK_MS = 3_000
ROWS = 2_000
LATE_ROWS = 50
LATE_JOBS = 25
POLL_MS = 1_000
PAUSED_POLL_MS = 5_000


def claim_next(call: Call) -> Answer:
    """Claim the best job of the roles. Losing every race is no error: there is nothing now, and when to ask again."""
    roles = _roles(call)
    moves.require_not_stopped(call.actor)
    if call.key:
        known = _repeat(call)
        if known:
            return known
    skipped: Counter[str] = Counter()
    project = the_project(call)
    room = caps.Room(call.bus, project, call.actor, call.now)
    open_roles = []
    spent = spending.spent_today(call.bus, project, roles, call.now)
    for role in roles:
        if role in spent:
            skipped["budget_spent"] += 1
        elif project.pause_of((role,), call.actor.id):
            skipped["paused"] += 1
        elif room.full(role):
            skipped["cap_reached"] += 1
        else:
            open_roles.append(role)
    taken = None
    if open_roles:
        taken = _walk(call, open_roles, room, skipped)
        if taken is None and _free_what_is_late(call.bus, project, open_roles, call.now):
            taken = _walk(call, open_roles, room, skipped)
            presence.seen(call, 0)  # what was late may have been its own, and it is not gone
    if taken is None and call.key and (open_roles or skipped["cap_reached"]):
        taken = _repeat(call)  # a twin may have been faster
    if taken:
        return taken
    presence.seen(call, limits.SEEN_IDLE)
    jitter = int.from_bytes(call.bus.entropy(2), "big") % POLL_MS
    poll = (POLL_MS if open_roles else PAUSED_POLL_MS) + jitter
    shown = notices.of_agent(call, [])
    return Answer(
        {"job": None, "claim": None, "poll_after_ms": poll, "skipped": dict(skipped), "notices": shown}
    )


def _roles(call: Call) -> list[str]:
    """The roles to look at: those asked for, which must exist and be the caller's, else all of the caller's."""
    project, asked = the_project(call), call.body["roles"]
    for role in asked:
        require_role(project, role, "roles")
        if role not in call.actor.roles:
            raise InterlockError("wrong_role", f"the caller does not hold role {role!r}")
    return list(dict.fromkeys(asked)) or list(call.actor.roles)


def _repeat(call: Call) -> Answer | None:
    """The answer of a call that took a job before, as that job is now."""
    item = call.bus.store.table.get(keys.claim_call(the_project(call).id, claims.call_hash(call)))
    if item is None:
        return None
    if item["request"] != call.body_hash[:16]:
        raise InterlockError("idempotency_mismatch")
    job = load.job_head(call.bus, the_project(call).id, item["job"])
    return claims.claim_answer(call, job, replayed=True) if job else None


def _walk(call: Call, roles: Sequence[str], room: caps.Room, skipped: Counter[str]) -> Answer | None:
    bus, started = call.bus, call.bus.clock()
    rows = _candidates(bus, the_project(call).id, roles)
    near: list[Item] = []
    lost = False
    while bus.clock() - started < WALK_MS:
        while len(near) < (AMONG if lost else 1) and (row := next(rows, None)) is not None:
            near.append(row)
        if not near:
            return None
        row = near.pop(_choice(bus, near) if lost else 0)
        missing = [name for name in row.get("capabilities", ()) if name not in call.actor.capabilities]
        if missing:
            skipped["missing_capability"] += 1
            continue
        job = load.job_head(bus, the_project(call).id, keys.entity_of(row["pk"])[2])
        if job is None:
            continue
        refused = rules.reasons(job, call.actor, the_project(call), call.now)
        if refused:
            skipped[refused[0].code] += 1
            lost = lost or refused[0].code == "already_claimed"
            continue
        answer = _take(call, job, room)
        if answer:
            return answer
        if not room.full(job.role):
            skipped["already_claimed"] += 1
            lost = True
            continue
        skipped["cap_reached"] += 1  # there was room when the walk began
        if all(room.full(role) for role in roles):
            return None
    return None


def _choice(bus: Bus, near: Sequence[Item]) -> int:
    """A random position among the candidates that are as urgent as the first."""
    priority = near[0]["g1sk"][:2]
    equal = sum(1 for row in near if row["g1sk"][:2] == priority)
    return int.from_bytes(bus.entropy(2), "big") % equal


def _candidates(bus: Bus, project: str, roles: Sequence[str]) -> Iterator[Item]:
    """Board rows of the roles, best first: a merge of their partitions, read page by page."""
    pages: dict[str, list[Item]] = {}
    after: dict[str, str | None] = dict.fromkeys(roles)
    seen = 0
    while seen < ROWS:
        for role in [role for role in after if not pages.get(role)]:
            limit = FIRST_PAGE if after[role] is None else NEXT_PAGE
            page = bus.store.table.query(
                Query(keys.ready_partition(project, role), index=1, after=after[role], limit=limit)
            )
            pages[role] = page.items
            if page.items:
                after[role] = page.items[-1]["g1sk"]
            if not page.items or not page.more:
                # what was read is still to be given; the partition is not asked again
                del after[role]
        best = min(
            (role for role, rows in pages.items() if rows),
            key=lambda role: pages[role][0]["g1sk"],
            default=None,
        )
        if best is None:
            return
        seen += 1
        yield pages[best].pop(0)


def _take(call: Call, job: Job, room: caps.Room) -> Answer | None:
    """Claim the candidate; None when somebody else was faster, or when a cap leaves no room.

    Who lost nothing but a slot tries again with another one.
    """
    parts = []
    if call.key:
        key = keys.claim_call(job.project, claims.call_hash(call))
        memory = {
            "pk": key.pk,
            "sk": key.sk,
            "job": job.id,
            "request": call.body_hash[:16],
            "expires": (call.now + limits.MEMORY_OF_CALLS) // limits.SECOND,
        }
        parts.append(Put(key, memory, conditions.absent()))
    for _ in range(write.TRIES):
        places, full = room.of(job.role)
        if full:
            break
        try:
            return claims.claim_answer(call, claims.take(call, job, places=places, parts=parts))
        except write.Lost:
            # with a key, a twin of this very call may have taken a job meanwhile
            if call.key and (known := _repeat(call)):
                return known
        if not places or _moved(call.bus, job):
            break
        room.look_again()
    return None


def _moved(bus: Bus, job: Job) -> bool:
    now = load.job_head(bus, job.project, job.id)
    return now is None or now.version != job.version


def _free_what_is_late(bus: Bus, project: Project, roles: Sequence[str], now: int) -> bool:
    """Nothing is free: end leases of these roles that are late, and open what is due, so that no job hangs on one
    lost message. Answers whether anything was published."""
    return _end_late_leases(bus, project.id, roles, now) + _open_due(bus, project.id, roles, now) > 0


def _end_late_leases(bus: Bus, project: str, roles: Sequence[str], now: int) -> int:
    rows = _live_rows(bus, project)
    late = [r for r in rows if r.get("role") in roles and 0 < r.get("lease_first", 0) < now - limits.LATE]
    heads = load.job_heads(bus, project, [keys.entity_of(row["pk"])[2] for row in late[:LATE_JOBS]])
    freed = 0
    for job in heads.values():
        if job.lapsed(now, limits.LATE):
            after = timers.expire(bus, job, now)
            freed += after is not None and after.status == "published"
    return freed


def _live_rows(bus: Bus, project: str) -> list[Item]:
    """A page of held jobs; on a busy board it begins at a random one, so that in time all are looked at."""
    page = bus.store.table.query(Query(keys.live_partition(project), index=1, limit=LATE_ROWS))
    if not page.more:
        return page.items
    last = bus.store.table.query(Query(keys.live_partition(project), index=1, limit=1, forward=False)).items
    start = _between(page.items[0]["g1sk"], last[-1]["g1sk"], bus.entropy(4)) if last else ""
    query = Query(keys.live_partition(project), index=1, lower=start, limit=LATE_ROWS)
    return bus.store.table.query(query).items or page.items


def _between(first: str, last: str, entropy: bytes) -> str:
    """A random position from ``first`` to ``last``: what both begin with, then a character between theirs.

    Ids begin with the time they were made at, so that positions which share nothing with them lie beyond all.
    """
    for at, (low, high) in enumerate(zip(first, last, strict=False)):
        if low != high:
            chosen = chr(ord(low) + entropy[0] % (ord(high) - ord(low) + 1))
            rest = "".join(ids.ALPHABET[byte % len(ids.ALPHABET)] for byte in entropy[1:])
            return first[:at] + chosen + rest
    return first


def _open_due(bus: Bus, project: str, roles: Sequence[str], now: int) -> int:
    due = Query(
        keys.waiting_partition(project),
        index=1,
        lower=keys.time_sort(1, ""),
        upper=keys.time_sort(now, "~"),
        limit=LATE_JOBS,
    )
    opened = 0
    for row in bus.store.table.query(due).items:
        if row.get("role") in roles:
            opened += timers.open_if_due(bus, project, keys.entity_of(row["pk"])[2], now)
    return opened
