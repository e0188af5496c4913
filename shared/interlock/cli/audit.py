"""`interlock audit verify`: recompute every hash chain, from the bus or from an export."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli import screen
from interlock.cli.client import Client, RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import OK, REFUSED, RIGHT, usage
from interlock.domain.ledger import Finding, verify

PAGE = 1_000
SETTLE = 1.5
"""Seconds before an entity that looked incomplete is read again: its rows may still be on their way."""
_FIELDS = {"seq": int, "entity": str, "type": str, "prev": str, "digest": str}
_SHOWN = 50

app = typer.Typer(name="audit", help="Check the ledger.", no_args_is_help=True)


@command(
    app,
    "verify",
    text="Recompute every hash chain.\n\nOf the project, compared with its heads, or of an NDJSON file of events.",
)
def verify_(
    session: Session,
    file: Annotated[
        Path | None, typer.Option(metavar="EXPORT", help="Events, one JSON object a line.")
    ] = None,
) -> int:
    report = of_file(file) if file else of_bus(session.client)
    session.show(report, _report)
    return OK if report["ok"] else REFUSED


def of_bus(client: Client) -> dict[str, Any]:
    """Verify a project's chains against its heads: {ok, entities, events, findings}."""
    heads = dict(_heads(client))
    with screen.counter("events") as step:
        found, entities, events = _checked(_feed(client, step), heads)
    doubtful = {finding.entity for finding in found if finding.kind in {"short", "hole"}}
    if doubtful:
        found = [finding for finding in found if finding.entity not in doubtful] + _again(
            client, doubtful, heads
        )
    return _summary(found, entities, events)


def of_file(path: Path) -> dict[str, Any]:
    """Verify the chains in an NDJSON file. Where a chain ends is not known without the bus."""
    bad: list[Finding] = []
    try:
        with path.open(encoding="utf-8") as lines, screen.counter("events") as step:
            found, entities, events = _checked(_parsed(lines, bad, step), {})
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"cannot read {path}: {type(error).__name__}") from error
    if not events:
        bad.append(Finding(str(path), 0, "hole", "there is no event in it"))
    return {**_summary(bad + found, entities, events), "heads": False}


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


def _feed(client: Client, step: screen.Step) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {"limit": PAGE}
    while True:
        page = client.call("ledger.feed", query=query).value
        step(len(page["items"]))
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
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and all(
            isinstance(event.get(name), kind) for name, kind in _FIELDS.items()
        ):
            yield event
        else:
            bad.append(Finding(f"line {number}", 0, "broken", "it is not an event"))


def _checked(
    events: Iterable[Mapping[str, Any]], heads: Mapping[str, tuple[int, str]]
) -> tuple[list[Finding], int, int]:
    """(findings, how many entities, how many events)."""
    entities, count = set(heads), 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal count
        for event in events:
            entities.add(str(event["entity"]))
            count += 1
            yield event

    found = verify(counted(), heads)
    return found, len(entities), count


def _again(client: Client, doubtful: set[str], heads: Mapping[str, tuple[int, str]]) -> list[Finding]:
    """Judge incomplete chains once more, after a moment, by what is in the ledger then and by nothing else."""
    time.sleep(SETTLE)
    wanted = {entity: head for entity, head in heads.items() if entity in doubtful}
    with screen.counter("events") as step:
        return verify((event for event in _feed(client, step) if event["entity"] in doubtful), wanted)


def _summary(found: list[Finding], entities: int, events: int) -> dict[str, Any]:
    return {
        "ok": not found,
        "entities": entities,
        "events": events,
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
