"""`interlock export`: a project's jobs, links, decisions and ledger as NDJSON, as far as the caller sees them."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from interlock import __version__
from interlock.app import records
from interlock.cli import audit, screen
from interlock.cli.client import Client, RefusedError
from interlock.cli.command import Session, command
from interlock.cli.exits import LATER, OK, RIGHT, usage
from interlock.cli.screen import Step
from interlock.domain.ledger import Chains

_GONE = 404
_BESIDE = ("downstream", "downstream_more")
"""What `GET job` says of a job's neighbours: the links say it, all of it."""


def register(root: typer.Typer) -> None:
    """Add the command to the top."""

    @command(
        root,
        "export",
        text="Write the project as NDJSON: jobs, links, decisions, ledger.\n\nOne record a line; `audit verify --file` checks it.",
    )
    def export(
        session: Session,
        out: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Where to (default: standard output).")
        ] = None,
    ) -> int:
        if out is None:
            report = to_stream(session.client, sys.stdout)
            _say(report)
        else:
            report = to_file(session.client, out)
            session.show({**report, "file": str(out)}, _say)
        return LATER if report["incomplete"] else OK


def to_file(client: Client, out: Path) -> dict[str, Any]:
    """Export into a file that is there whole or not at all; answers {records, incomplete}."""
    try:
        handle, partial = tempfile.mkstemp(dir=out.parent, prefix=".interlock-")
    except OSError as error:
        raise usage(f"cannot write in {out.parent}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as target:
            report = to_stream(client, target)
        os.replace(partial, out)
    except OSError as error:
        raise usage(f"cannot write {out}: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    return report


def to_stream(client: Client, target: IO[str]) -> dict[str, Any]:
    """Export; answers {records: how many of each kind, incomplete: chains of which events are missing}."""
    with screen.counter("records") as step:
        writing = _Export(client, target, step)
        writing.run()
    return {"records": dict(writing.counts), "incomplete": sorted(writing.behind())}


@dataclass
class _Export:
    """One run. Heads come before events, which only grow, so that a complete export reaches every head in it."""

    client: Client
    target: IO[str]
    step: Step
    counts: Counter[str] = field(default_factory=Counter)
    heads: dict[str, int] = field(default_factory=dict)
    chains: Chains = field(default_factory=Chains)

    def run(self) -> None:
        project = self.client.call("projects.get").value["project"]
        first = {"format": records.FORMAT, "project": project["id"], "interlock": __version__}
        self.write("export", first)
        self.write("project", project)
        for kind, operation in (("role", "roles.list"), ("agent", "agents.list"), ("owner", "owners.list")):
            for one in self.listed(operation):
                self.write(kind, one)
        for one in self.client.items("jobs.list", {"order": "oldest", "limit": 100}):
            self.job(one["id"])
        for one in self.client.items("decisions.list", {"state": "all", "limit": 100}):
            if f"job/{one['job']}" in self.heads:
                self.write("decision", records.decision(one))
        for event in audit.feed(self.client):
            self.event(event)
        self.catch_up()

    def write(self, kind: str, value: Mapping[str, Any]) -> None:
        self.target.write(records.line(kind, value))
        self.counts[kind] += 1
        self.step(1)
        if kind in records.HEADS:
            self.heads[f"{kind}/{value['id']}"] = value["version"]

    def listed(self, operation: str) -> Iterator[dict[str, Any]]:
        """All items of a list; none when the list is not for the caller."""
        try:
            yield from self.client.items(operation)
        except RefusedError as refused:
            if refused.code != RIGHT:
                raise

    def job(self, name: str) -> None:
        try:
            job = self.client.call("jobs.get", side="owner", path={"job": name}).value["job"]
        except RefusedError as refused:
            if refused.status != _GONE:
                raise
            return  # it went to the archive, or out of sight, since it was listed
        shown = {key: value for key, value in job.items() if key not in _BESIDE}
        self.write("job", shown)
        for link in records.links(shown):
            self.write("link", link)

    def event(self, event: Mapping[str, Any]) -> None:
        if not self.chains.has(event["entity"], event["seq"]):
            self.chains.add(event)
            self.write("event", event)

    def behind(self) -> list[str]:
        """Entities of which fewer events came than their heads have."""
        return [entity for entity, version in self.heads.items() if self.chains.reach(entity) < version]

    def catch_up(self) -> None:
        """Events that the feed did not show, as their rows were written late: a job's timeline waits for them, and
        the feed is read once more for the others."""
        for entity in self.behind():
            kind, _, name = entity.partition("/")
            if kind == "job":
                for page in self.client.pages(
                    "jobs.timeline", {"limit": 1_000}, path={"job": name}, side="owner"
                ):
                    for event in page["items"]:
                        self.event(event)
        left = set(self.behind())
        if left:
            time.sleep(audit.SETTLE)
            for event in audit.feed(self.client):
                if event["entity"] in left:
                    self.event(event)


def _say(report: Mapping[str, Any]) -> None:
    """What was written, for whoever waited, on standard error: standard output may be the export."""
    listed = ", ".join(f"{count:,} {kind}s" for kind, count in report["records"].items() if kind != "export")
    screen.note(f"exported {listed}")
    if report["incomplete"]:
        names = ", ".join(screen.clean(name) for name in report["incomplete"][:5])
        screen.note(
            f"the ledger lacks events of {len(report['incomplete'])} chains ({names}): it is catching up, or `interlock doctor` says more"
        )
