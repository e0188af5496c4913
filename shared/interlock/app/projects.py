"""Projects: make, list, change, pause and resume. The project's head is its control item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from interlock.app import load, repeats, views, write
from interlock.app.call import Answer, Bus, Call, the_project
from interlock.app.references import require_role, the_named_agent
from interlock.app.settle import settle
from interlock.domain import limits
from interlock.domain.identity import DEFAULT_SETTINGS, INSTALLATION, Project
from interlock.domain.job import Change
from interlock.domain.ledger import Fact
from interlock.errors import FieldError, InterlockError
from interlock.store import items, keys
from interlock.store.ports import Key, Query, TransactionPart, Update


def amend(
    call: Call,
    decision: Callable[[Project], Change | None],
    *,
    parts: Sequence[TransactionPart] | None = None,
) -> tuple[Project, bool]:
    """Change the call's project by a decision, within what its one item can carry; ``parts``, which the decision may
    fill, join its write."""

    def bounded(project: Project) -> Change | None:
        change = decision(project)
        if change is not None:
            _require_room(change)
        return change

    return settle(call, the_project(call), bounded, parts=lambda _: parts or (), reads_on=parts is not None)


def _require_room(change: Change) -> None:
    """Raise ``limit_reached`` when the roles or the pauses would outgrow the control item."""
    changed, _ = items.encode(
        {name: change.set[name] for name in ("roles", "pauses", "broadcasts") if name in change.set}
    )
    for name, packed in changed.items():
        if len(packed) > limits.CONTROL_BYTES:
            raise InterlockError(
                "limit_reached",
                f"a project's {name} take at most {limits.CONTROL_BYTES:,} bytes together, compressed",
            )


def create(call: Call) -> Answer:
    """Make a project, without roles."""
    body = call.body
    project = Project(
        id=body["id"],
        title=body["title"],
        created_at=call.now,
        settings={**DEFAULT_SETTINGS, **(body["settings"] or {})},
        ops=repeats.to_remember(call),
    )
    try:
        made = write.create(
            call.bus, project, call.actor, [Fact("project.created", data={"title": body["title"]})]
        )
    except write.Lost:
        item = call.bus.store.table.get(keys.project_head(body["id"]))
        known = items.project(item) if item else project
        if repeats.is_repeat(call, known.ops):
            return Answer({"project": views.project(known, call.now)}, replayed=True, version=known.version)
        raise InterlockError(
            "already_exists", f"there is a project {body['id']!r}", errors=[FieldError("id", "taken")]
        ) from None
    return Answer({"project": views.project(made, call.now)}, created=True, version=made.version)


def list_all(call: Call) -> Answer:
    """All projects of the installation."""
    found, cursor = load.members(call, INSTALLATION, "project")
    return Answer(
        {"items": [views.project(items.project(item), call.now) for item in found], "next_cursor": cursor}
    )


def every_project(bus: Bus) -> Iterator[Project]:
    """All projects' heads."""
    after: str | None = None
    while True:
        page = bus.store.table.query(
            Query(keys.members_partition(INSTALLATION, "project"), index=1, after=after)
        )
        wanted = [Key(row["pk"], keys.HEAD) for row in page.items]
        for item in bus.store.table.batch_get(wanted).values():
            yield items.project(item)
        if not page.more or not page.items:
            return
        after = page.items[-1]["g1sk"]


def get(call: Call) -> Answer:
    """Read a project."""
    project = the_project(call)
    return Answer({"project": views.project(project, call.now)}, version=project.version)


def update(call: Call) -> Answer:
    """Change title and settings; settings that are not sent stay."""
    given = {name: call.body[name] for name in call.sent}

    def decision(project: Project) -> Change | None:
        attributes: dict[str, Any] = {}
        changes: dict[str, Any] = {}
        if "title" in given and given["title"] != project.title:
            attributes["title"] = given["title"]
            changes["title"] = [project.title, given["title"]]
        new = {
            name: value
            for name, value in (given.get("settings") or {}).items()
            if project.settings.get(name) != value
        }
        if new:
            attributes["settings"] = {**project.settings, **new}
            changes |= {
                f"settings.{name}": [project.settings.get(name), value] for name, value in new.items()
            }
        return Change(attributes, (Fact("project.updated", data={"changes": changes}),)) if changes else None

    project, _ = amend(call, decision)
    return Answer({"project": views.project(project, call.now)}, version=project.version)


def _target(call: Call) -> str:
    """What a pause names: ``project``, ``role:<key>`` or ``agent:<id>``."""
    body, project = call.body, the_project(call)
    if body["project"]:
        return "project"
    target = f"role:{body['role']}" if body["role"] else f"agent:{body['agent']}"
    if target in project.pauses:
        return target  # what is gone meanwhile can still be resumed
    if body["role"]:
        require_role(project, body["role"])
    else:
        the_named_agent(call.bus, project, body["agent"])
    return target


def pause(call: Call) -> Answer:
    """Pause claims; binds every claim that starts after the answer. Running work goes on."""
    target = _target(call)

    def decision(project: Project) -> Change | None:
        if target in project.pauses:
            return None
        if len(project.pauses) >= limits.PROJECT_PAUSES:
            raise InterlockError("limit_reached", f"a project has at most {limits.PROJECT_PAUSES} pauses")
        entry = {"since": call.now, "by": call.actor.id, "reason": call.body["reason"]}
        fact = Fact("project.paused", data={"target": target, "reason": call.body["reason"]})
        return Change({"pauses": {**project.pauses, target: entry}}, (fact,))

    project, repeated = amend(call, decision)
    return Answer({"paused": views.pauses(project)}, replayed=repeated, version=project.version)


def resume(call: Call) -> Answer:
    """Let claims go on: of an agent also when it was stopped, in one transaction of both heads."""
    target = _target(call)
    lifted: list[Update] = []

    def decision(project: Project) -> Change | None:
        lifted[:] = _started_again(call) if call.body["agent"] else []
        if target not in project.pauses and not lifted:
            return None
        left = {name: entry for name, entry in project.pauses.items() if name != target}
        fact = Fact("project.resumed", data={"target": target, "reason": call.body["reason"]})
        return Change({"pauses": left}, (fact,))

    project, repeated = amend(call, decision, parts=lifted)
    return Answer({"paused": views.pauses(project)}, replayed=repeated, version=project.version)


def _started_again(call: Call) -> list[Update]:
    """The write that lets an agent claim again which an owner has stopped."""
    agent = the_named_agent(call.bus, the_project(call), call.body["agent"])
    if agent.stop is None:
        return []
    fact = Fact("agent.resumed", data={"reason": call.body["reason"]})
    return [write.changing(call.bus, agent, call.actor, call.now, Change({"stop": None}, (fact,)))[0]]
