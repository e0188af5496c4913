"""`interlock audit verify`: recompute every hash chain, from the bus, or from exports and archives."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.app import records
from interlock.cli import screen
from interlock.cli.client import Client, RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import OK, REFUSED, RIGHT, usage
from interlock.domain.ledger import Chains, Finding

PAGE = 1_000
SETTLE = 1.5
"""Seconds before an entity that looked incomplete is read again: its rows may still be on their way."""
_EVENT = {"seq": int, "entity": str, "type": str, "prev": str, "digest": str}
_HEAD = {"id": str, "version": int, "digest": str}
_SHOWN = 50

Heads = dict[str, tuple[int, str]]
"""Entity → (version, digest)."""

app = typer.Typer(name="audit", help="Check the ledger.", no_args_is_help=True)


@command(
    app,
    "verify",
    text="Recompute every hash chain.\n\nOf the project, compared with its heads, or of exports and archives.",
)
def verify_(
    session: Session,
    file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="An export, an archive, or events, one a line; repeatable."),
    ] = None,
) -> int:
    report = of_files(file) if file else of_bus(session.client)
    session.show(report, _report)
    return OK if report["ok"] else REFUSED


def of_bus(client: Client) -> dict[str, Any]:
    """Verify a project's chains against its heads: {ok, entities, events, findings}."""
    heads = dict(_heads(client))
    checked = _Checked()
    with screen.counter("events") as step:
        for event in feed(client):
            checked.add(event)
            step(1)
    found = checked.findings(heads)
    doubtful = {finding.entity for finding in found if finding.kind in {"short", "hole"}}
    if doubtful:
        found = [finding for finding in found if finding.entity not in doubtful] + _again(
            client, doubtful, heads
        )
    return _summary(found, {*checked.chains.entities, *heads}, checked)


def of_files(paths: Sequence[Path]) -> dict[str, Any]:
    """Verify the chains in NDJSON files, taken together: exports, archives, plain events.

    Where a chain ends is known where its head is there too.
    """
    bad: list[Finding] = []
    heads: Heads = {}
    checked = _Checked()
    for path in paths:
        before = checked.chains.events
        try:
            with path.open(encoding="utf-8") as lines, screen.counter("records") as step:
                for record in _parsed(lines, bad, step):
                    _take(record, checked, heads)
        except (OSError, UnicodeDecodeError) as error:
            raise usage(f"cannot read {path}: {type(error).__name__}") from error
        if checked.chains.events == before:
            bad.append(Finding(str(path), 0, "hole", "there is no event in it"))
    found = bad + checked.findings(heads)
    return {**_summary(found, {*checked.chains.entities, *heads}, checked), "heads": bool(heads)}


class _Checked:
    """Chains, and which of them the ledger says to have gone to an archive."""

    def __init__(self) -> None:
        self.chains = Chains()
        self._archived: Heads = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take an event."""
        self.chains.add(event)
        if event["type"] == "project.archived":
            self._archived |= _archived(event)

    def findings(self, heads: Mapping[str, tuple[int, str]]) -> list[Finding]:
        """What is wrong. Where an archived job itself is not at hand its events may be gone, or some of them; those
        that are there must fit."""
        there = set(self.chains.entities)
        expected = {entity: head for entity, head in self._archived.items() if entity in there}
        found = self.chains.findings({**expected, **heads})
        elsewhere = self._archived.keys() - heads.keys()
        return [one for one in found if one.entity not in elsewhere or one.kind not in {"short", "hole"}]


def _archived(event: Mapping[str, Any]) -> Heads:
    """The jobs that an event says to have gone to an archive, as they were."""
    data = event.get("data")
    jobs = data.get("jobs") if isinstance(data, Mapping) else None
    sound = [job for job in jobs or () if isinstance(job, Mapping) and _fits(job, _HEAD)]
    return {f"job/{job['id']}": (job["version"], job["digest"]) for job in sound}


def _take(record: Mapping[str, Any], checked: _Checked, heads: Heads) -> None:
    kind = record.get("kind", "event")
    if kind == "event":
        checked.add({name: value for name, value in record.items() if name != "kind"})
    elif kind in records.HEADS:
        entity, head = f"{kind}/{record['id']}", (record["version"], record["digest"])
        heads[entity] = max(heads.get(entity, head), head)


def _heads(client: Client) -> Iterator[tuple[str, tuple[int, str]]]:
    """(entity, (version, digest)) of everything in the project. Read before the events, which only grow."""
    project = client.call("projects.get").value["project"]
    yield f"project/{project['id']}", (project["version"], project["digest"])
    for kind, operation in (("agent", "agents.list"), ("owner", "owners.list"), ("job", "jobs.list")):
        try:
            for item in client.items(operation, {"limit": 100}):
                yield f"{kind}/{item['id']}", (item["version"], item["digest"])
        except RefusedError as refused:
            if refused.code != RIGHT or kind == "job":
                raise  # an agent checks what it can see: the project and its jobs


def feed(client: Client) -> Iterator[dict[str, Any]]:
    """The project's events as they were written, page by page."""
    query: dict[str, Any] = {"limit": PAGE}
    while True:
        page = client.call("ledger.feed", query=query).value
        yield from page["items"]
        if not page["more"]:
            return
        query["after"] = page["next_cursor"]


def _parsed(lines: Iterable[str], bad: list[Finding], step: screen.Step) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        step(1)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and _is_sound(record):
            yield record
        else:
            bad.append(Finding(f"line {number}", 0, "broken", "it is not an event, nor any other record"))


def _is_sound(record: Mapping[str, Any]) -> bool:
    kind = record.get("kind", "event")
    if kind not in records.KINDS:
        return False
    wanted = _EVENT if kind == "event" else _HEAD if kind in records.HEADS else {}
    return _fits(record, wanted)


def _fits(record: Mapping[str, Any], wanted: Mapping[str, type]) -> bool:
    return all(isinstance(record.get(name), kind) for name, kind in wanted.items())


def _again(client: Client, doubtful: set[str], heads: Mapping[str, tuple[int, str]]) -> list[Finding]:
    """Judge incomplete chains once more, after a moment, by what is in the ledger then and by nothing else."""
    time.sleep(SETTLE)
    checked = _Checked()
    with screen.counter("events") as step:
        for event in feed(client):
            step(1)
            if event["entity"] in doubtful or event["type"] == "project.archived":
                checked.add(event)
    wanted = {entity: head for entity, head in heads.items() if entity in doubtful}
    return [finding for finding in checked.findings(wanted) if finding.entity in doubtful]


def _summary(found: list[Finding], entities: set[str], checked: _Checked) -> dict[str, Any]:
    return {
        "ok": not found,
        "entities": len(entities),
        "events": checked.chains.events,
        "findings": [asdict(finding) for finding in found],
    }


def _report(answer: Mapping[str, Any]) -> None:
    if answer["ok"]:
        ends = (
            ""
            if answer.get("heads", True)
            else " below each last event; where a chain ends only the bus knows"
        )
        screen.line(
            f"{answer['events']} events in {answer['entities']} chains: all digests fit, nothing is missing{ends}"
        )
        return
    for finding in answer["findings"][:_SHOWN]:
        screen.line(
            f"{screen.clean(finding['entity'])} #{finding['seq']} {finding['kind']}: {screen.clean(finding['detail'])}"
        )
    more = len(answer["findings"]) - _SHOWN
    screen.line(
        f"{len(answer['findings'])} findings in {answer['entities']} chains"
        + (f" ({more} not shown)" if more > 0 else "")
    )
