"""Tools on decisions: asking, reading, answering. What a client can do changes how the wait looks, never what is true.

The question is on the bus before anything else happens. A client that declares the tasks extension then gets a task, one
that can ask its user gets `input_required` (MRTR); both read the same decision. Whatever a user says there proves nothing
to the bus: an owner answers with a credential of its own, so the agent's client is asked only to let its user know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from interlock.domain import limits
from interlock.edges import models
from interlock.edges.mcp import brief, rpc
from interlock.edges.mcp.offers import Context, Json, NeedsInput, Started
from interlock.edges.mcp.revisions import TASKS
from interlock.edges.mcp.schemas import TEXT, THING, THINGS
from interlock.edges.mcp.session import Session
from interlock.edges.mcp.tool import Found, Name, OnJob, Repeatable, Row, shown
from interlock.errors import FieldError, InterlockError

Rest = dict[str, Any]
POLL_MS = 5_000
"""How often a client that waits looks again."""
LISTED = 10
ASKED = "decision"
"""The name of the one request to a client's user."""


class AnswerDecision(Repeatable):
    """Which decision, and whether it is answered or taken back."""

    decision: Annotated[Name, Field(description="The decision's id.")]
    action: Annotated[
        Literal["answer", "withdraw"], Field(description="answer; or withdraw what you asked yourself.")
    ] = "answer"


class ListDecisions(models.DecisionQuery):
    """Which decisions; without arguments: the open ones that you may see."""

    decision: Annotated[Name | None, Field(description="One decision, whole.")] = None
    limit: Annotated[int, Field(ge=1, le=limits.PAGE[1])] = LISTED


def _ask(session: Session, own: OnJob, rest: Rest, context: Context) -> Found | NeedsInput | Started:
    if context.state is not None:
        return _asked(session, own.job, context.state)
    value = session.call("decisions.ask", {"job": own.job}, rest, key=own.idempotency_key).value
    found = value["decision"]
    if found["state"] == "open" and found["wait"]:
        if context.spoken.declares("extensions", TASKS):
            return Started({"resultType": "task", **_standing(found)})
        if context.spoken.declares("elicitation"):
            return NeedsInput({ASKED: _elicitation(found)}, found["id"])
    return _told(found)


def _asked(session: Session, job: str, decision: str) -> Found:
    """The same call again, after the client's user was told."""
    found = session.call("decisions.get", {"decision": decision}).value["decision"]
    if found["job"] != job:
        raise InterlockError("invalid", errors=[FieldError("requestState", "belongs to another call")])
    return _told(found)


def _told(found: Mapping[str, Any]) -> Found:
    steps = {
        "open": [
            "Go on with other work if you have some; heartbeat tells when it is answered.",
            "The job is blocked until then: do not decide it yourself."
            if found["wait"]
            else "You may go on meanwhile.",
        ],
        "answered": ["set_job_status resume if the job is unblocked, then act on the answer."],
        "expired": ["Nobody answered in time. The job stays blocked: an owner sees it."],
        "withdrawn": ["It was taken back: get_job shows how the job stands."],
    }
    return Found({"decision": brief.plain(found)}, steps[found["state"]])


def _elicitation(found: Mapping[str, Any]) -> Json:
    """What the client's user is told: the question, and how an owner answers it. It asks for no field."""
    options = ", ".join(found["options"] or ())
    lines = [
        f"Interlock waits for a decision of an owner on job {found['job']}:",
        found["prompt"],
        *([f"It blocks: {found['blocker']}"] if found["blocker"] else []),
        *([f"The risk: {found['risk']}"] if found["risk"] else []),
        *([f"Possible answers: {options}"] if options else []),
        f"An owner answers with: interlock decide {found['id']} ANSWER",
        "Accept when that is done, to look again.",
    ]
    schema = {"type": "object", "properties": {}}
    params = {"mode": "form", "message": "\n".join(lines), "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _list(session: Session, own: ListDecisions, _rest: Rest, _context: Context) -> Found:
    if own.decision is not None:
        return _told(session.call("decisions.get", {"decision": own.decision}).value["decision"])
    page = session.page("decisions.list", brief.plain, own.model_dump(exclude={"decision"}))
    more = {"next_cursor": page["next_cursor"]} if page["next_cursor"] else {}
    steps = ["There may be more: call again with cursor."] if more else []
    return Found(
        {"decisions": page["items"], **more},
        steps or ["answer_decision answers one whose roles name one of yours; never one that you asked."],
    )


def _answer(session: Session, own: AnswerDecision, rest: Rest, _context: Context) -> Found:
    operation = f"decisions.{own.action}"
    value = session.call(operation, {"decision": own.decision}, rest, key=own.idempotency_key).value
    parts = {"decision": brief.plain(value["decision"]), "job": brief.state(value["job"])}
    return Found(parts, ["Whoever asked is told; go on with your own work."])


def _standing(found: Mapping[str, Any]) -> Json:
    """A decision as a task."""
    status = {"open": "working", "answered": "completed", "expired": "completed", "withdrawn": "cancelled"}
    return {
        "taskId": found["id"],
        "status": status[found["state"]],
        "statusMessage": f"{found['state']}: {found['prompt'][:200]}",
        "createdAt": found["asked_at"],
        "lastUpdatedAt": found["closed_at"] or found["asked_at"],
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }


class DecisionTasks:
    """Decisions as tasks: the id of a task is the id of its decision, and nothing else is stored."""

    def get(self, task: str, context: Context) -> Json:
        """How the decision stands; its result is what `request_decision` would have answered."""
        session: Session = context.caller
        found = _read(session, task)
        standing = _standing(found)
        if standing["status"] == "completed":
            standing["result"] = shown(session, _told(found)).as_result()
        return standing

    def update(self, task: str, responses: Mapping[str, Any], context: Context) -> None:
        """Nothing is ever asked of the client's user here, so that there is nothing to take."""
        del responses
        _read(context.caller, task)

    def cancel(self, task: str, context: Context) -> None:
        """Withdraw the decision. One that is closed stays as it is."""
        session: Session = context.caller
        try:
            session.call("decisions.withdraw", {"decision": task}, {})
        except InterlockError as error:
            if error.code != "decision_closed":
                raise _as_rpc(error) from None


def _read(session: Session, task: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = session.call("decisions.get", {"decision": task}).value["decision"]
    except InterlockError as error:
        raise _as_rpc(error) from None
    return found


def _as_rpc(error: InterlockError) -> rpc.RpcError:
    code = rpc.INTERNAL_ERROR if error.retryable else rpc.INVALID_PARAMS
    return rpc.RpcError(code, error.detail, {"code": error.code, "hint": error.hint})


_DECISION = {
    "decision": {**THING, "description": "The decision: its state, and the answer when there is one."}
}

ROWS = (
    Row(
        "request_decision",
        "Ask a person",
        "Ask for a decision on a job that you hold: say the question (prompt), what it blocks (blocker) and the risk. "
        "options lists possible answers. An owner answers, or an agent of the roles that you name. wait (default) "
        "blocks the job until then.",
        ("decisions.ask", "decisions.get"),
        OnJob,
        _ask,
        passes=("DecisionAsk",),
        answer=_DECISION,
    ),
    Row(
        "list_decisions",
        "Read decisions",
        "Without arguments: the open decisions that you may see. decision reads one whole; job and state filter.",
        ("decisions.list", "decisions.get"),
        ListDecisions,
        _list,
        answer={**_DECISION, "decisions": THINGS, "next_cursor": TEXT},
        reads=True,
    ),
    Row(
        "answer_decision",
        "Answer a decision",
        "Answer a decision that names one of your roles (a review: approve or reject, with findings), or withdraw "
        "one that you asked. Exactly one answer counts.",
        ("decisions.answer", "decisions.withdraw"),
        AnswerDecision,
        _answer,
        passes=("DecisionReply", "DecisionWithdraw"),
        answer={**_DECISION, "job": THING},
    ),
)
