"""Tools on jobs: publishing, finding, reading, editing, evidence, events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from interlock.domain import limits
from interlock.edges import models
from interlock.edges.mcp import brief, hints
from interlock.edges.mcp.offers import Context
from interlock.edges.mcp.schemas import NUMBER, TEXT, THING, THINGS
from interlock.edges.mcp.session import Session
from interlock.edges.mcp.tool import Found, JobId, Name, OnJob, Repeatable, Row
from interlock.edges.models.fields import Cursor, Key, Model, Status
from interlock.errors import FieldError, InterlockError

Rest = dict[str, Any]
LISTED = 12
"""Jobs of a page, when nothing else is asked for: as many as fit, so that nothing is read twice."""
EVENTS = 10
"""Events beside a job."""

_Include = Literal["events", "explain", "graph", "reopen", "decisions"]


class ListJobs(models.JobQuery):
    """Which jobs; without arguments: what is published for the caller's roles."""

    status: Annotated[list[Status], Field(description="Statuses; [] means any.")] = ["published"]
    role: Annotated[list[Key], Field(description="Roles; mine means all of yours, [] any.")] = ["mine"]
    limit: Annotated[int, Field(ge=1, le=limits.PAGE[1])] = LISTED


class GetJob(Model):
    """Which job, and what of it."""

    job: JobId
    include: Annotated[list[_Include], Field(description="What to show beside the job.")] = []
    part: Annotated[
        str | None,
        Field(
            max_length=40,
            description="One part of the job as JSON text, window by window: context, result, …",
        ),
    ] = None
    offset: Annotated[int, Field(ge=0, description="Where the window of the part begins.")] = 0
    artifact: Annotated[
        Name | None, Field(description="One artifact, with an address to download it from.")
    ] = None
    cursor: Annotated[Cursor | None, Field(description="Where the events go on.")] = None


class EditJob(OnJob):
    """Which job, and the version that the change is for."""

    version: Annotated[
        int | None,
        Field(ge=1, description="The version that get_job showed; needed for every field but upstream."),
    ] = None
    upstream: Annotated[
        Name | None, Field(description="Alone: a job that this one is to wait for, from now on.")
    ] = None


class AttachArtifact(OnJob):
    """On which job."""

    verify: Annotated[
        Name | None,
        Field(description="Alone (with fence): the artifact whose upload is done and is to be checked."),
    ] = None


def _publish(session: Session, own: Repeatable, rest: Rest, _context: Context) -> Found:
    job = session.call("jobs.create", body=rest, key=own.idempotency_key).value["job"]
    return Found({"job": brief.state(job)}, hints.after_publish(job))


def _publish_plan(session: Session, own: Repeatable, rest: Rest, _context: Context) -> Found:
    value = session.call("plans.create", body=rest, key=own.idempotency_key).value
    if "jobs" not in value:
        return Found(value, ["Nothing was published. Send the plan without dry_run to publish it."])
    return Found(
        value, ['list_jobs {"source": "me", "status": [], "role": [], "order": "newest"} shows how they go.']
    )


def _list(session: Session, own: ListJobs, _rest: Rest, _context: Context) -> Found:
    query = own.model_dump()
    if session.caller.actor.kind != "agent" and "role" not in own.model_fields_set:
        query["role"] = []
    page = session.page("jobs.list", brief.row, query)
    steps = []
    if page["next_cursor"]:
        steps.append("There may be more: call again with cursor.")
    if not page["items"]:
        steps.append("Nothing is free." if own.status == ["published"] else "Nothing is like that.")
    elif own.status == ["published"]:
        steps.append("claim_job takes one of these; claim_next takes the best one.")
    else:
        steps.append("get_job reads one of these.")
    return Found({"jobs": page["items"], **_cursor(page)}, steps)


def _cursor(page: Mapping[str, Any]) -> dict[str, Any]:
    return {"next_cursor": page["next_cursor"]} if page.get("next_cursor") else {}


def _get(session: Session, own: GetJob, _rest: Rest, _context: Context) -> Found:
    on = {"job": own.job}
    whole = session.call("jobs.get", on).value["job"]
    if own.artifact is not None:
        found = session.call("jobs.artifact", {**on, "artifact": own.artifact}).value
        return Found(
            {"job": _named(whole), **brief.plain(found)}, ["Compare what you download with its checksum."]
        )
    if own.part is not None:
        return _window(whole, own.part, own.offset)
    if own.cursor is not None:
        page = _events(session, on, own.cursor)
        more = "Go on with next_cursor." if "next_cursor" in page else "These are the latest."
        return Found({"job": _named(whole), **page}, [more])
    parts: dict[str, Any] = {"job": brief.job(whole)}
    for name in dict.fromkeys(own.include):
        parts |= _BESIDE[name](session, on)
    mine = whole["assignee"] == session.caller.actor.id
    return Found(parts, hints.on_job(whole, mine=mine))


def _named(job: Mapping[str, Any]) -> dict[str, Any]:
    return {name: job[name] for name in ("id", "summary", "status")}


def _window(whole: Mapping[str, Any], part: str, offset: int) -> Found:
    if part not in whole:
        raise InterlockError("invalid", errors=[FieldError("part", f"is one of {', '.join(sorted(whole))}")])
    shown = brief.window(whole[part], offset)
    more = shown["to"] < shown["of"]
    step = f"Go on with offset {shown['to']}." if more else "This is the end of it."
    return Found({"job": _named(whole), "window": {"part": part, **shown}}, [step])


def _events(session: Session, on: Mapping[str, str], cursor: str | None = None) -> dict[str, Any]:
    query = {"limit": EVENTS, **({"cursor": cursor} if cursor else {})}
    page = session.page("jobs.timeline", event, query, on)
    return {"events": page["items"], **_cursor(page)}


def event(row: Mapping[str, Any]) -> dict[str, Any]:
    """An event, by whom as a word."""
    shown: dict[str, Any] = brief.plain(row)
    return {**shown, "actor": row["actor"]["label"]} if "actor" in shown else shown


def _reopen(session: Session, on: Mapping[str, str]) -> dict[str, Any]:
    return {"reopen": session.call("jobs.reopen_context", on).value}


def _decisions(session: Session, on: Mapping[str, str]) -> dict[str, Any]:
    query = {"limit": EVENTS, "job": on["job"], "state": "all"}
    return {"decisions": session.page("decisions.list", brief.plain, query)["items"]}


def _explain(session: Session, on: Mapping[str, str]) -> dict[str, Any]:
    return {"explain": session.call("jobs.explain", on).value}


def _graph(session: Session, on: Mapping[str, str]) -> dict[str, Any]:
    return {"graph": session.call("jobs.graph", on).value}


_BESIDE: Mapping[str, Callable[[Session, Mapping[str, str]], dict[str, Any]]] = {
    "events": _events,
    "explain": _explain,
    "graph": _graph,
    "reopen": _reopen,
    "decisions": _decisions,
}


def _edit(session: Session, own: EditJob, rest: Rest, _context: Context) -> Found:
    on = {"job": own.job}
    if own.upstream is not None:
        if rest or own.version is not None:
            raise InterlockError(
                "invalid", errors=[FieldError("upstream", "is sent alone, without other fields")]
            )
        body = {"type": "blocks", "upstream": own.upstream}
        job = session.call("jobs.link", on, body, key=own.idempotency_key).value["job"]
    else:
        job = session.call("jobs.edit", on, rest, if_match=own.version, key=own.idempotency_key).value["job"]
    return Found({"job": brief.state(job)}, hints.after_publish(job))


def _attach(session: Session, own: AttachArtifact, rest: Rest, _context: Context) -> Found:
    on, key = {"job": own.job}, own.idempotency_key
    if own.verify is not None:
        found = session.call("jobs.verify", {**on, "artifact": own.verify}, rest, key=key).value
        return Found(brief.plain(found), ["It counts as evidence now."])
    found = session.call("jobs.attach", on, rest, key=key).value
    steps = ["complete_job may name it in result.artifacts."]
    if "upload" in found:
        artifact = found["artifact"]["id"]
        steps = [
            f'Send the file as upload says, then attach_artifact {{"job": "{own.job}", "verify": "{artifact}"}} with your fence.'
        ]
    return Found(brief.plain(found), steps)


def _record(session: Session, own: OnJob, rest: Rest, _context: Context) -> Found:
    value = session.call("jobs.record", {"job": own.job}, rest, key=own.idempotency_key).value
    return Found(brief.plain(value), ["Go on; whoever comes after you reads it in the job's events."])


_JOB = {"job": {**THING, "description": "The job."}}

ROWS = (
    Row(
        "publish_job",
        "Publish a job",
        "Publish a job for a role. Whoever claims it sees only what you write here: put all it needs into summary, "
        "constraints and context. blocked_by holds it back until other jobs are completed.",
        ("jobs.create",),
        Repeatable,
        _publish,
        passes=("JobCreate",),
        answer=_JOB,
    ),
    Row(
        "publish_plan",
        "Publish a plan",
        "Publish many jobs that wait for each other, all or none. Each has a ref; blocked_by names refs, or ids of jobs "
        "that exist. dry_run only says which would be claimable first.",
        ("plans.create",),
        Repeatable,
        _publish_plan,
        passes=("Plan",),
        answer={"plan": TEXT, "jobs": {**THING, "description": "Ids by ref."}},
    ),
    Row(
        "list_jobs",
        "List jobs",
        "List jobs, best first. Without arguments: what is published for your roles. source or assignee take me.",
        ("jobs.list",),
        ListJobs,
        _list,
        answer={"jobs": THINGS, "next_cursor": TEXT},
        reads=True,
    ),
    Row(
        "get_job",
        "Read a job",
        "Read a job. include adds its events, explain (why it is or is not claimable by you), its graph, reopen (why it "
        "was sent back), its decisions. part and offset read a long body window by window.",
        ("jobs.get", "jobs.timeline", "jobs.explain", "jobs.graph", "jobs.reopen_context", "jobs.artifact", "decisions.list"),
        GetJob,
        _get,
        answer={
            **_JOB, "window": THING, "events": THINGS, "explain": THING, "graph": THING, "reopen": THING,
            "decisions": THINGS, "artifact": THING, "download": THING, "next_cursor": TEXT,
        },
        reads=True,
    ),
    Row(
        "edit_job",
        "Edit a job",
        "Change a job of yours that nobody has started; what you do not send stays. Or let it wait for another job: "
        "upstream, alone.",
        ("jobs.edit", "jobs.link"),
        EditJob,
        _edit,
        passes=("JobEdit",),
        answer=_JOB,
        idempotent=True,
    ),
    Row(
        "attach_artifact",
        "Attach evidence",
        "Attach evidence to a job: a reference (type, uri, checksum) to something that exists, or an upload (type, name, "
        "size, sha256), which is answered with where to send the file; then call again with verify.",
        ("jobs.attach", "jobs.verify"),
        AttachArtifact,
        _attach,
        passes=("ArtifactAttach",),
        answer={"artifact": THING, "upload": THING},
    ),
    Row(
        "record_event",
        "Record an event",
        "Write something that happened into a job's history: a type of your own and perhaps data.",
        ("jobs.record",),
        OnJob,
        _record,
        passes=("CustomEvent",),
        answer={"event": THING, "job": {**THING, "properties": {"version": NUMBER}}},
    ),
)  # fmt: skip
