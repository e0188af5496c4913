"""Notices: what the caller should know now. Derived from what is true, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.app import attention, decisions, views
from interlock.app.call import Bus, Call, the_project
from interlock.domain import limits
from interlock.domain.decision import ANSWERED, OPEN
from interlock.domain.identity import Actor, Project
from interlock.domain.job import Job

QUOTED = 300
"""Characters of a prompt that a notice quotes."""

OF_OWNER = 20
LOOKED_AT = 100
"""Notices of an owner, and what is looked at for them: the beginning of what `GET P/attention` answers."""


def of_agent(call: Call, held: Sequence[Job]) -> list[dict[str, Any]]:
    """What owners tell the agent, pauses that bind its next claim, held jobs past their deadline, and what became of the
    decisions that it asked on them."""
    actor, project = call.actor, the_project(call)
    if actor.kind != "agent":
        return []
    found: list[dict[str, Any]] = []
    if actor.stopped is not None:
        detail = "an owner has stopped this agent: it claims nothing until it is resumed"
        found.append({"code": "stop_requested", "detail": detail, "reason": actor.stopped})
    found += [
        _broadcast(name, entry) for name, entry in project.told(call.now).items() if _concerns(entry, actor)
    ]
    found += [_paused(target, pause) for target, pause in project.pauses.items() if _binds(target, actor)]
    found += [
        {"code": "overdue", "job": job.id, "detail": "the job is past its deadline"}
        for job in held
        if job.overdue
    ]
    return found + _closed(call, held)


def _broadcast(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"code": "broadcast", "id": name, "at": views.moment(entry["at"]), "detail": entry["text"]}


def _concerns(entry: Mapping[str, Any], actor: Actor) -> bool:
    return not entry["roles"] or not set(entry["roles"]).isdisjoint(actor.roles)


def _paused(target: str, pause: Mapping[str, Any]) -> dict[str, Any]:
    detail = f"claims of {target.replace(':', ' ')} are paused"
    return {"code": "paused", "detail": detail, "reason": pause.get("reason")}


def _binds(target: str, actor: Actor) -> bool:
    kind, _, name = target.partition(":")
    return (
        kind == "project"
        or (kind == "role" and name in actor.roles)
        or (kind == "agent" and name == actor.id)
    )


def _closed(call: Call, held: Sequence[Job]) -> list[dict[str, Any]]:
    """Decisions on held jobs that were closed under the present claim, the latest of each job."""
    names = [name for job in held for name in job.answered][-limits.ANSWERS_TOLD :]
    found = decisions.read_many(call.bus, the_project(call).id, names) if names else []
    return [
        {
            "code": f"decision_{each.state}",
            "job": each.job,
            "decision": each.id,
            "detail": f"{each.prompt[:QUOTED]}",
            **(
                {"answer": each.answer, "reason": each.note}
                if each.state == ANSWERED
                else {"reason": each.note}
            ),
        }
        for each in found
        if each.state != OPEN
    ]


def waiting_for(call: Call) -> list[dict[str, Any]]:
    """Open decisions that the agent may answer, as one of its roles is named."""
    if call.actor.kind != "agent" or not call.actor.roles:
        return []
    found = decisions.open_for(call.bus, the_project(call), call.actor, LOOKED_AT)[: limits.ANSWERS_TOLD]
    return [
        {
            "code": "decision_waits",
            "job": each.job,
            "decision": each.id,
            "at": views.moment(each.asked_at),
            "detail": f"{each.asked_by['label']} asks ({each.kind}): {each.prompt[:QUOTED]}",
        }
        for each in found
    ]


def of_owner(bus: Bus, project: Project, now: int) -> list[dict[str, Any]]:
    """What asks for an owner first: the beginning of what needs a person."""
    found = attention.look(bus, project, now, OF_OWNER, rows=LOOKED_AT)
    return [{"code": need.kind, "job": job.id, "detail": need.detail} for job, need in found.needs]
