"""What must be true of a bus, whatever happened to it: judged from its memory and from the record of its calls.

It reads the engine's tables directly and re-computes from the ledger what the heads should say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim import oracle_decisions, oracle_graph, oracle_routing, oracle_usage
from tests.sim.oracle_graph import Written

from interlock.app.consumers import CONSUMERS
from interlock.domain import ledger, limits
from interlock.domain.identity import Agent
from interlock.domain.job import Job
from interlock.domain.lifecycle import (
    BLOCKED,
    CANCELLED,
    CASCADED,
    ENDED,
    FAILED,
    FINAL,
    HELD,
    LEASED,
    OPEN,
    PENDING,
    TRANSITIONS,
    UNBLOCKED,
    Transition,
)
from interlock.domain.times import parse_rfc3339
from interlock.store import items, keys
from interlock.store.embedded.rows import decode
from interlock.store.items import Head
from interlock.store.ports import Item, Key

SETTLING = 200
"""Rounds of dispatching and consuming after which a bus must be at rest."""

_MOVES = defaultdict(list)
for _row in TRANSITIONS:
    _MOVES[_row.event].append(_row)
_HOLDERS = ("complete", "fail", "block", "ask", "resume", "release", "reject")


@dataclass
class Memory:
    """Everything a bus remembers."""

    items: dict[Key, Item]
    heads: dict[str, Head]
    events: dict[str, list[dict[str, Any]]]
    messages: list[tuple[str, int, dict[str, Any]]]

    @property
    def jobs(self) -> list[Job]:
        return [head for head in self.heads.values() if isinstance(head, Job)]


def memory(w: Any) -> Memory:
    """Read it all."""
    import json

    def read(connection: Any) -> tuple[list[Any], list[Any]]:
        rows = connection.execute("SELECT pk, sk, data, raw FROM items").fetchall()
        return rows, connection.execute("SELECT queue, visible_at, body FROM messages ORDER BY id").fetchall()

    rows, messages = w.engine.engine.read(read)
    found = {Key(pk, sk): decode(pk, sk, data, raw) for pk, sk, data, raw in rows}
    heads = {key.pk: items.read(item) for key, item in found.items() if key.sk == keys.HEAD}
    events: dict[str, list[dict[str, Any]]] = {pk: [] for pk in heads}
    for key in sorted(found):
        if key.sk.startswith(keys.LOG_PREFIX):
            events.setdefault(key.pk, []).extend(_events(found, key))
    return Memory(found, heads, events, [(queue, at, json.loads(body)) for queue, at, body in messages])


def _events(found: Mapping[Key, Item], key: Key) -> list[dict[str, Any]]:
    events = items.unpack(found[key]["events"])
    for event in events:
        if "large" in event:
            staged = found[keys.event_data(key.pk, event["seq"], event.pop("large"))]
            event["data"] = items.unpack(staged["data"])
    return list(events)


# ---- coming to rest


def settle(w: Any) -> None:
    """Dispatch and consume what is due, until nothing is."""
    for _ in range(SETTLING):
        if not w.dispatch() + w.consume():
            return
    raise AssertionError(f"the bus does not come to rest: {memory(w).messages}")


def drain(w: Any) -> None:
    """Let every lease and date pass, as nobody renews anything any more: nothing may hang."""
    jobs = memory(w).jobs
    ends = [job.lease_until or 0 for job in jobs if job.status in LEASED]
    ends += [entry.get("until", 0) for job in jobs for entry in (job.asked or {}).values()]
    longest = max(ends, default=0) - w.clock.now
    for hop in range(max(longest, 0) // (limits.TIMER_HOP_SECONDS * 1_000) + 2):
        w.clock.advance(limits.TIMER_HOP_SECONDS)
        settle(w)
        if hop:  # the first hop is where twins, if there were any, end
            _assert(_multiplied(memory(w)))
    state = memory(w)
    _assert(f"{job.id} still {job.status} after its lease" for job in state.jobs if job.status in LEASED)
    _assert(oracle_decisions.overdue(state, w.clock.now))
    agents = [head for head in state.heads.values() if isinstance(head, Agent)]
    ended = {agent.id for agent in agents if agent.retired_at or agent.stop is not None}
    _assert(
        f"{j.id} {j.status}, held by an agent that was retired or stopped"
        for j in state.jobs
        if j.status in HELD and j.assignee in ended
    )
    _assert(
        f"{job.id} is overdue and not marked"
        for job in state.jobs
        if job.deadline and job.deadline < w.clock.now and job.overdue is None and job.status not in ENDED
    )
    _assert(
        f"{job.id} waits beyond not_before"
        for job in state.jobs
        if job.status == PENDING and (job.not_before or 0) < w.clock.now and not _is_held(job, state)
    )


def _is_held(job: Job, state: Memory) -> bool:
    pk = keys.partition(job.project, "job", job.id)
    return any(key.pk == pk and key.sk.startswith(keys.HOLDS) for key in state.items)


def _multiplied(state: Memory) -> Iterable[str]:
    """After a hop without faults at most one chain of a timer lives: its messages carry the head's hop."""
    heads = {job.id: job for job in state.jobs}
    alive: Counter[tuple[str, str]] = Counter()
    for queue, _, body in state.messages:
        job = heads.get(body.get("job", ""))
        if queue != "lease" or job is None or body["kind"] == "close":
            continue
        if body["kind"] == "decision":
            row = state.items.get(keys.decision(job.project, body["decision"]))
            alive[body["decision"], "decision"] += row is not None and body.get("hop") == row["hop"]
            continue
        hop = getattr(job, f"{body['kind']}_hop")
        due = {"lease": job.fence, "deadline": job.deadline, "start": job.not_before}[body["kind"]]
        alive[job.id, body["kind"]] += (
            body["fence" if body["kind"] == "lease" else "at"] == due and body["hop"] == hop
        )
    return [f"{count} timers {kind} of {job}" for (job, kind), count in alive.items() if count > 1]


# ---- judging


def check(
    w: Any, record: Sequence[Any] = (), history: Sequence[Written] = (), *, complete: bool = True
) -> None:
    """Raise AssertionError naming everything that is wrong. The bus must be at rest.

    ``history`` are the writes of heads in their order; with ``complete`` no message was lost that is still missing.
    """
    state = memory(w)
    found: list[str] = []
    for pk, head in state.heads.items():
        item = state.items[Key(pk, keys.HEAD)]
        found += [f"{pk}: {wrong}" for wrong in _of_head(head, item, state.events[pk])]
        if isinstance(head, Job):
            found += [
                f"{head.id}: {wrong}"
                for wrong in [*_of_job(head, state), *_of_history(head, state.events[pk])]
            ]
    chain = [event for pk in state.events for event in state.events[pk]]
    by_scope: dict[str, list[str]] = defaultdict(list)
    for pk, head in state.heads.items():
        by_scope[items.entity(head)].append(pk)
    known = {items.entity(head): (head.version, head.digest) for head in state.heads.values()}
    found += [str(finding) for finding in ledger.verify(chain, known)]
    found += [f"{name} is two entities: {pks}" for name, pks in by_scope.items() if len(pks) > 1]
    found += [f"a dead letter: {body}" for queue, _, body in state.messages if queue not in CONSUMERS]
    found += _of_record(record, state)
    found += oracle_graph.at_rest(state) if complete else []
    found += oracle_graph.in_order(state, history) if history else []
    found += oracle_routing.of(state, complete=complete)
    found += oracle_usage.of(state)
    # the clock may have gone back: a message that was due at once may be due later
    closing = any(body["kind"] == "close" for queue, _, body in state.messages if queue == "lease")
    found += oracle_decisions.of(state, complete=complete and not closing)
    _assert(found)


def _assert(found: Iterable[str]) -> None:
    listed = list(found)
    if listed:
        raise AssertionError("; ".join(listed))


def _of_head(head: Head, item: Item, events: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if {name: item[name] for name in ("g1pk", "g1sk") if name in item} != items.index_keys(head):
        yield f"its index key is {item.get('g1pk')} {item.get('g1sk')}, not {items.index_keys(head)}"
    latest = items.unpack(item["events"])
    if latest[-1]["seq"] != head.version or latest[-1]["digest"] != head.digest:
        yield f"version {head.version} is not its last event's"
    if [event["seq"] for event in events] != list(range(1, head.version + 1)):
        yield f"its ledger has {[event['seq'] for event in events]}, its version is {head.version}"
    if len(head.ops) > limits.OPERATIONS_REMEMBERED:
        yield f"it remembers {len(head.ops)} operations"


def _of_job(job: Job, state: Memory) -> Iterable[str]:
    pk = keys.partition(job.project, "job", job.id)
    asks = job.status == BLOCKED and job.decision is not None  # its lease lapsed: an owner is asked
    if (job.status in HELD and not job.assignee and not asks) or (
        job.status in (*OPEN, CANCELLED) and job.assignee
    ):
        yield f"{job.status} with assignee {job.assignee}"
    if (job.lease_until is not None) != (job.status in LEASED) or (job.lease_hop is not None) != (
        job.status in LEASED
    ):
        yield f"{job.status} with lease until {job.lease_until}, hop {job.lease_hop}"
    if job.retry_count > job.max_retries:
        yield f"{job.retry_count} retries of {job.max_retries}"
    if job.rev > job.version:
        yield f"rev {job.rev} beyond version {job.version}"
    if (job.result is not None or job.result_ref is not None) and job.status != "completed":
        yield f"{job.status} with a result"
    wanted = [Key(pk, keys.BODY)]
    wanted += [keys.context(pk, job.context)] if job.context else []
    wanted += [keys.result(pk, job.result_ref)] if job.result_ref else []
    yield from (f"{key} is missing" for key in wanted if key not in state.items)
    artifacts = [key for key in state.items if key.pk == pk and key.sk.startswith(keys.ARTIFACT_PREFIX)]
    later = sum(1 for key in artifacts if not keys.is_verification(key))
    if later != job.later_artifacts or job.artifacts + later > limits.ARTIFACTS:
        yield f"{later} later artifacts, {job.later_artifacts} counted, {job.artifacts} at creation"
    if job.external_id is not None and job.status not in ENDED:
        slot = state.items.get(keys.external_live(job.project, job.external_id))
        if slot is None or slot["job"] != job.id:
            yield f"its external id belongs to {slot and slot['job']}"


def _of_history(job: Job, events: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Live the ledger again: every move is in the table, by who may, and leads to what the head says."""
    status, stage, fence, retries, holder = None, None, 0, 0, None
    for event in events:
        kind = event["type"]
        row = _row(event, stage)
        if event["from"] != status and not (event["from"] is None and kind not in _MOVES):
            yield f"{kind} at {event['seq']}: {event['from']} -> {event['to']}, the job was {status}"
        if row is None:
            if event["from"] != event["to"]:
                yield f"{kind} at {event['seq']} moves {event['from']} -> {event['to']}, the job was {stage}"
            continue
        who = event["actor"]["id"]
        if row.operation in _HOLDERS and (who != holder or event["data"].get("fence") != fence):
            yield f"{kind} at {event['seq']} by {who} under {event['data'].get('fence')}; {holder} held it under {fence}"
        if kind == "job.restarted" and who != holder:
            yield f"{kind} at {event['seq']} by {who}, {holder} held it last"
        fence += row.new_fence
        if kind in ("job.claimed", "job.restarted"):
            holder = who
            if event["data"]["fence"] != fence:
                yield f"{kind} at {event['seq']} answers fence {event['data']['fence']}, it is the {fence}th"
        elif (
            event["to"] in OPEN
            or kind in ("job.stopped", "job.cancelled")
            or (kind, event["to"]) == ("job.lease_expired", BLOCKED)
        ):
            holder = None
        retries += kind in ("job.restarted", "job.retried") or (
            kind == "job.lease_expired" and event["to"] != FAILED
        )
        if status in FINAL:
            yield f"{kind} at {event['seq']} after the end"
        status, stage = event["to"], CASCADED if _is_cascade(event) else event["to"]
    first = events[0]["data"].get("attempt", 1) - 1 if events else 0  # a retry goes on counting
    if (status, stage, fence, first + retries) != (job.status, job.stage, job.fence, job.retry_count):
        yield f"the ledger says {(stage, fence, first + retries)}, the head {(job.stage, job.fence, job.retry_count)}"
    if holder != job.assignee:
        yield f"the ledger says {holder} holds it, the head {job.assignee}"


def _row(event: Mapping[str, Any], stage: str | None) -> Transition | None:
    """The row of the table that the event is an instance of; None when it moves nothing."""
    to = CASCADED if _is_cascade(event) else event["to"]
    for row in _MOVES.get(event["type"], ()):
        by_cascade = row.operation.startswith("cascade")
        if (
            to in row.targets
            and (stage in row.sources or not row.sources)
            and by_cascade == ("caused_by" in event["data"])
        ):
            return row
    return None


def _is_cascade(event: Mapping[str, Any]) -> bool:
    return event["to"] == FAILED and "caused_by" in event["data"]


# ---- the record of calls


def _of_record(record: Sequence[Any], state: Memory) -> Iterable[str]:
    owners: dict[tuple[str, int], Any] = {}
    for sent in record:
        if sent.status == 0:
            continue  # its process died
        if sent.status >= 500 and sent.code == "internal":
            yield f"an internal error: {sent}"
        if 400 <= sent.status < 500 and not _lapse_only(sent):
            yield f"refused, and yet it wrote {[part.key for part in sent.heads]}: {sent}"
        if sent.replayed and _on_its_own(sent):
            yield f"a repeat, and yet it wrote: {sent}"
        if sent.status < 300 and isinstance(sent.reply.body, dict):
            yield from _of_answer(sent, state)
            yield from _of_claim(sent, owners)
            yield from _of_promises(sent, state)


def _on_its_own(sent: Any) -> bool:
    """Whether a call wrote what its repeat must not: a repeat may find the next job, go on with a plan, and the bus
    may act on what a job waits for."""
    if sent.path.endswith(("/claims", "/plans")):
        return False
    actors = [event["actor"]["kind"] for part in sent.heads for event in _written(part)]
    return any(kind != "system" for kind in actors)


def _written(part: Any) -> list[dict[str, Any]]:
    return list(items.unpack((part.item if hasattr(part, "item") else part.set)["events"]))


def _lapse_only(sent: Any) -> bool:
    """A refused claim may end, for the bus, leases that it found over: its job's, and those in its way under a cap."""
    return not sent.heads or (
        sent.path.endswith(("/claim", "/restart"))
        and sent.code in ("ended", "already_claimed", "not_yet", "cap_reached", "wrong_state")
        and all(
            event["type"]
            in ("job.lease_expired", "job.decision_withdrawn")  # with what was asked under the claim
            for part in sent.heads
            for event in items.unpack(part.set["events"])
        )
    )


def _of_answer(sent: Any, state: Memory) -> Iterable[str]:
    """What an answer says of a job is a link of its chain."""
    job = sent.reply.body.get("job")
    if not isinstance(job, dict) or "digest" not in job:
        return
    events = next((e for pk, e in state.events.items() if pk.endswith(f"#job#{job['id']}")), [])
    at = next((event for event in events if event["seq"] == job["version"]), None)
    if at is None or at["digest"] != job["digest"]:
        yield f"the ledger has no event {job['version']} with the digest that was answered: {sent}"


def _of_claim(sent: Any, owners: dict[tuple[str, int], Any]) -> Iterable[str]:
    """One claim, one owner: the same (job, fence) is only ever answered to one agent and one session or key."""
    claim = sent.reply.body.get("claim")
    if not claim or not sent.path.endswith(("/claim", "/claims")):
        return
    job = sent.reply.body["job"]
    who = (job["assignee"], claim.get("session"))
    first = owners.setdefault((job["id"], claim["fence"]), (who, sent))
    if first[1] is sent:
        return
    same_key = sent.key is not None and (sent.path, sent.token, sent.key) == (
        first[1].path,
        first[1].token,
        first[1].key,
    )
    if first[0] != who or not (same_key or claim.get("session")):
        yield f"two owners of {job['id']} under fence {claim['fence']}: {first[1]} and {sent}"


def _of_promises(sent: Any, state: Memory) -> Iterable[str]:
    """A lease lasts as long as its holder was told, unless a block or an unblock paused it afterwards."""
    body = sent.reply.body
    promises = []  # (job, fence, until, known version)
    if body.get("claim"):
        until = parse_rfc3339(body["claim"]["expires_at"]) if body["claim"]["expires_at"] else 0
        promises.append((body["job"]["id"], body["claim"]["fence"], until, body["job"]["version"]))
    elif sent.path.endswith("/heartbeat"):
        promises += [
            (c["job"], c["fence"], sent.now + (c["expires_in"] or 0) * 1_000, 0)
            for c in body["claims"]
            if "stop" not in c
        ]
    for job, fence, until, version in promises:
        events = next((e for pk, e in state.events.items() if pk.endswith(f"#job#{job}")), [])
        for event in events:
            if event["seq"] > version and _pauses(event):
                break
            if (
                event["type"] == "job.lease_expired"
                and event["data"]["fence"] == fence
                and parse_rfc3339(event["at"]) < until
            ):
                yield f"{job} was taken at {event['at']}, before {until} that was promised: {sent}"


def _pauses(event: Mapping[str, Any]) -> bool:
    """Whether the holder's lease stops or begins anew by the event."""
    moved = event["from"] != event["to"] and event["to"] in (BLOCKED, UNBLOCKED)
    return event["type"] == "job.resumed" or (moved and event["type"] != "job.lease_expired")
