"""`interlock doctor`: what might be wrong with a bus, one line each; --repair mends what can be mended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from interlock.cli import audit, screen, shapes
from interlock.cli.client import Client, RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import OK, REFUSED, RIGHT, CommandError
from interlock.domain.lifecycle import CANCELLED, ENDED, FAILED
from interlock.domain.times import parse_rfc3339, rfc3339

CLOCK_SECONDS = 5
"""How far this machine's clock may be from the bus's before it is worth a word."""
LONG_PAST = 60
"""Seconds after its end by which a lease must have been ended."""
LOOKED_AT = 1_000
"""Held jobs, and waiting ones, that are looked at, at most."""
_MARKS = {"ok": "ok    ", "note": "note  ", "wrong": "WRONG "}


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found: ``state`` is ok, note or wrong; ``entities`` are what repair can mend."""

    name: str
    state: str
    detail: str
    entities: tuple[str, ...] = ()


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(
        root,
        "doctor",
        text="Check the bus, line by line.\n\nIts store, the credential, the clock, dead letters, late leases, jobs that wait in vain, the ledger.",
    )
    def doctor(
        session: Session,
        repair: Annotated[bool, typer.Option("--repair", help="Send again what is missing.")] = False,
    ) -> int:
        checks = list(examine(session.client))
        mended = (
            [_mend(session.client, entity) for check in checks for entity in check.entities] if repair else []
        )
        if mended:
            time.sleep(audit.SETTLE)
            checks = list(examine(session.client))  # what could be mended is only known now
        wrong = [check for check in checks if check.state == "wrong"]
        failed = [one for one in mended if not one["repaired"]]
        report = {
            "ok": not wrong and not failed,
            "checks": [asdict(check) for check in checks],
            "repairs": mended,
        }
        session.show(report, _report)
        return OK if report["ok"] else REFUSED


def examine(client: Client) -> Iterator[Check]:
    """Every check in turn; the ones that need the bus are left out when it cannot be reached."""
    reached, health = _health(client)
    yield from reached
    if health is None:
        return
    yield health
    credential = _guarded("credential", lambda: _credential(client))
    yield credential
    if credential.state == "wrong":
        return
    yield _guarded("ready jobs", lambda: _ready(client))
    yield _guarded("dead letters", lambda: _dead_letters(client))
    yield _guarded("late leases", lambda: _late(client))
    yield _guarded("waiting jobs", lambda: _waiting(client))
    yield _guarded("ledger", lambda: _ledger(client))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A check that is refused is a finding, not the end of the examination."""
    try:
        return check()
    except CommandError as error:
        return Check(name, "note" if error.code == RIGHT and name != "credential" else "wrong", error.detail)


def _health(client: Client) -> tuple[list[Check], Check | None]:
    before = time.time()
    try:
        reply = client.call("system.health")
    except RefusedError as sick:
        return [Check("bus", "ok", client.settings.url)], Check("store", "wrong", sick.detail)
    except CommandError as silence:
        return [Check("bus", "wrong", silence.detail)], None
    checks = [Check("bus", "ok", f"{client.settings.url} answers in {(time.time() - before) * 1_000:.0f} ms")]
    if reply.date is not None:
        # The header counts whole seconds: half of one is added, and only more than that is a difference.
        apart = abs((reply.date / 1_000 + 0.5) - (before + time.time()) / 2)
        far = apart > CLOCK_SECONDS
        checks.append(
            Check("clock", "note" if far else "ok", f"{apart:.0f} s from the bus's; only the bus's counts")
        )
    return checks, Check(
        "store", "ok", f"health: {reply.value.get('status')}, version {reply.value.get('version')}"
    )


def _credential(client: Client) -> Check:
    actor = client.call("system.me", side="owner").value["actor"]
    return Check("credential", "ok", f"{actor['kind']} {actor['label']} in project {client.settings.project}")


def _ready(client: Client) -> Check:
    ready = client.call("system.stats").value["stats"]["published"]
    count = sum(found["count"] for found in ready.values())
    oldest = max((found["oldest_age_seconds"] or 0 for found in ready.values()), default=0)
    more = "+" if any(found["more"] for found in ready.values()) else ""
    return Check(
        "ready jobs", "ok", f"{count}{more}, the oldest for {shapes.span(oldest)}" if count else "none"
    )


def _dead_letters(client: Client) -> Check:
    total = client.call("system.dead_letters").value["total"]
    hint = ": `interlock dead-letters redrive` handles them again" if total else ""
    return Check("dead letters", "wrong" if total else "ok", f"{total}{hint}")


def _late(client: Client) -> Check:
    """Held jobs whose lease ended long ago: a timer is missing. Nobody is harmed, claims judge it themselves."""
    late, seen = [], 0
    for job in client.items("jobs.list", {"status": ["in_progress", "unblocked"], "limit": 100}):
        if seen == LOOKED_AT:
            break
        seen += 1
        reply = client.call("jobs.get", side="owner", path={"job": job["id"]})
        until = reply.value["job"].get("lease_expires_at")
        now = reply.date or int(time.time() * 1_000)
        if until and parse_rfc3339(until) + LONG_PAST * 1_000 < now:
            late.append(f"job/{job['id']}")
    detail = (
        f"{len(late)} of {seen} held jobs: {', '.join(late[:5])}" if late else f"none of {seen} held jobs"
    )
    return Check("late leases", "wrong" if late else "ok", detail, tuple(late))


def _waiting(client: Client) -> Check:
    """Jobs that wait although nothing holds them back any more: a message was lost."""
    seen, vain = 0, []
    for job in client.items("jobs.list", {"status": ["pending"], "limit": 100}):
        if seen == LOOKED_AT:
            break
        seen += 1
        if _waits_in_vain(client, job["id"]):
            vain.append(job["id"])
    if vain:
        time.sleep(audit.SETTLE)  # what was on its way has arrived by then
        vain = [f"job/{job}" for job in vain if _waits_in_vain(client, job)]
    detail = f"{len(vain)} of {seen} in vain: {', '.join(vain[:5])}" if vain else f"none of {seen} in vain"
    return Check("waiting jobs", "wrong" if vain else "ok", detail, tuple(vain))


def _waits_in_vain(client: Client, job: str) -> bool:
    reply = client.call("jobs.get", side="owner", path={"job": job})
    shown, now = reply.value["job"], reply.date or int(time.time() * 1_000)
    if shown["status"] != "pending":
        return False
    graph = client.call("jobs.graph", side="owner", path={"job": job}, query={"depth": 1}).value
    if graph["truncated"]:
        return False
    status = {node["id"]: node["status"] for node in graph["nodes"]}
    ups = {status[e["from"]] for e in graph["edges"] if e["to"] == job and e["type"] == "blocks"}
    if shown["on_upstream_failure"] == "match" and ups & {FAILED, CANCELLED}:
        return True
    later = shown["not_before"] and parse_rfc3339(shown["not_before"]) + LONG_PAST * 1_000 > now
    return ups <= set(ENDED) and not later


def _ledger(client: Client) -> Check:
    report = audit.of_bus(client)
    if report["ok"]:
        return Check("ledger", "ok", f"{report['events']} events in {report['entities']} chains verify")
    incomplete = tuple(one["entity"] for one in report["findings"] if one["kind"] in {"short", "hole"})
    first = report["findings"][0]
    detail = f"{len(report['findings'])} chains, first {first['entity']} #{first['seq']}: {first['kind']}, {first['detail']}"
    mendable = len(incomplete) == len(report["findings"])
    # A chain that is broken is no matter of lost messages: repair could not mend it and must not hide it.
    return Check("ledger", "wrong", detail, incomplete if mendable else ())


def _mend(client: Client, entity: str) -> dict[str, Any]:
    try:
        client.call("system.repair", {"entity": entity}, key=f"{client.key}-{entity}")
    except CommandError as error:
        return {"entity": entity, "repaired": False, "detail": error.detail}
    return {
        "entity": entity,
        "repaired": True,
        "detail": f"sent again at {rfc3339(int(time.time() * 1_000))}",
    }


def _report(answer: Mapping[str, Any]) -> None:
    for check in answer["checks"]:
        screen.line(f"{_MARKS[check['state']]} {check['name']:<13} {screen.clean(check['detail'])}")
    for one in answer["repairs"]:
        screen.line(
            f"{'mended' if one['repaired'] else 'failed'}  {screen.clean(one['entity'])}: {screen.clean(one['detail'])}"
        )
