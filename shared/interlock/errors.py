"""The one error root, and the table of every code the bus can answer.

Problem+json, CLI exit codes and docs/errors.md are made from :data:`CODES`; nothing else decides what a
code means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Code:
    """One stable error code: its HTTP status, title, whether the same call may succeed later, default hint."""

    status: int
    title: str
    hint: str
    retryable: bool = False


CODES: Mapping[str, Code] = {
    # 400: the request cannot be read
    "malformed_json": Code(
        400, "The body is not valid JSON", "Send one JSON object, UTF-8, depth ≤ 64, no NaN or Infinity."
    ),
    "duplicate_key": Code(400, "A JSON object names a key twice", "Send each key once."),
    "malformed_request": Code(
        400, "The request cannot be read", "Check parameters, headers and the content encoding."
    ),
    "bad_cursor": Code(
        400,
        "The cursor does not belong to this list",
        "Start again without a cursor and keep the same filters while paging.",
    ),
    # 401: who is calling
    "token_missing": Code(
        401,
        "No credential was sent",
        "Send `Authorization: Bearer il_…`; an owner makes tokens with `interlock agent token`.",
    ),
    "token_invalid": Code(
        401,
        "The credential is not known",
        "Check that the whole token was copied; ask an owner for a new one.",
    ),
    "token_expired": Code(401, "The credential has expired", "Ask an owner to rotate the token."),
    "token_revoked": Code(401, "The credential was revoked", "Ask an owner for a new token."),
    # 403: the caller may not
    "forbidden": Code(403, "The caller has no right to this operation", "Ask an owner of the project."),
    "wrong_role": Code(
        403, "The caller does not hold the job's role", "Claim jobs of your own roles; `GET P/me` lists them."
    ),
    "missing_capability": Code(
        403, "The caller lacks a capability the job asks for", "Leave the job to an agent that has it."
    ),
    "not_holder": Code(
        403,
        "The caller does not hold the job",
        "Only the agent that claimed the job may do this; stop working on it.",
    ),
    "self_answer": Code(
        403,
        "Nobody answers their own question",
        "Whoever asked, or holds the job, leaves the answer to an owner or to another agent that the decision names.",
    ),
    # 404, 405, 415
    "not_found": Code(
        404,
        "There is no such thing here",
        "Check the id and the project; what you may not see is answered the same way.",
    ),
    "method_not_allowed": Code(405, "The path does not know this method", "See the Allow header."),
    "unsupported_media_type": Code(415, "The body is not JSON", "Send Content-Type: application/json."),
    # 409: the state says no
    "wrong_state": Code(
        409,
        "The job's status does not allow this",
        "Read the job and choose among the operations that `detail` names.",
    ),
    "already_claimed": Code(409, "Somebody holds the job", "Go back to the board and claim another job."),
    "lease_lost": Code(
        409,
        "The claim has ended",
        "Stop working on the job; `detail` says where it is now. Claim again if it is offered.",
    ),
    "stop_requested": Code(
        409, "An owner has stopped the job", "Stop working on it at once and throw unfinished work away."
    ),
    "excluded": Code(
        409,
        "The job wants somebody else",
        "It is independent: whoever worked on what it depends on may not take it. Leave it to another agent.",
    ),
    "waiting_upstream": Code(
        409, "The job waits for other jobs", "It is published by itself when they are completed."
    ),
    "cycle": Code(
        409,
        "The link would make jobs wait for each other",
        "`detail` names the way round; link the other way.",
    ),
    "paused": Code(409, "Claims are paused", "Wait; running work may go on."),
    "not_yet": Code(409, "The job may not be claimed yet", "Try again after `not_before`."),
    "cap_reached": Code(
        409,
        "A cap on claims is reached",
        "Finish or release a job that is held under this cap; `detail` names it.",
    ),
    "budget_spent": Code(
        409,
        "A budget is spent",
        "`detail` names it. A day's budget starts anew at midnight UTC; a job's own budget is raised by an owner.",
    ),
    "subject_changed": Code(
        409,
        "The subject has changed since the decision was asked",
        "Look at the job again. Whoever asked withdraws the decision and asks anew; an owner may withdraw it too.",
    ),
    "decision_closed": Code(
        409, "The decision is not open any more", "Read it: its state says what became of it."
    ),
    "ended": Code(409, "The job has ended", "Nothing is left to claim."),
    "retries_spent": Code(
        409, "The retry budget is spent", "An owner may retry with a larger `max_retries`."
    ),
    "already_exists": Code(409, "This already exists", "Use the one that is there, or choose another name."),
    "in_use": Code(409, "Something still depends on this", "Remove what uses it first."),
    # 412, 428
    "version_mismatch": Code(
        412, "The object has changed since it was read", "Read it again, merge, and send the new ETag."
    ),
    "if_match_required": Code(428, "An edit needs If-Match", "Send the ETag of the version you read."),
    # 413, 431
    "too_large": Code(
        413,
        "A part of the request is too large",
        "Make it smaller, or store it elsewhere and attach it as an artifact.",
    ),
    "headers_too_large": Code(431, "The request's headers are too large", "Send fewer or shorter headers."),
    # 422: read, but not acceptable
    "invalid": Code(422, "A field is not acceptable", "`errors` names each field and what is wrong with it."),
    "unknown_field": Code(
        422, "A field is not known", "`errors` names the fields; read-only fields cannot be sent."
    ),
    "unknown_role": Code(
        422, "There is no such role", "Use one of the roles that `detail` names, or ask an owner to make it."
    ),
    "unknown_job": Code(422, "There is no such job in this project", "Check the id."),
    "unknown_agent": Code(422, "There is no such agent in this project", "Check the id."),
    "evidence_missing": Code(
        422, "Completion needs evidence", "Attach the artifacts that `errors` names, then complete again."
    ),
    "not_reviewable": Code(
        422,
        "The job cannot be sent back",
        "Reject a completed job that the review waits for by a `blocks` link.",
    ),
    "idempotency_mismatch": Code(
        422, "The Idempotency-Key was used with another body", "Send the same body, or a new key."
    ),
    "limit_reached": Code(422, "A limit is reached", "`detail` names it; remove something first."),
    # 429, 503: later
    "throttled": Code(
        429,
        "Too many requests",
        "Wait for Retry-After and send the same call again; it is safe.",
        retryable=True,
    ),
    "store_unavailable": Code(
        503,
        "The store did not answer",
        "Wait for Retry-After and send the same call again; it is safe.",
        retryable=True,
    ),
    # 500
    "internal": Code(
        500,
        "The bus failed",
        "Send `request_id` to whoever runs the bus; the same call may be repeated safely.",
        retryable=True,
    ),
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field: ``path`` as a JSON Pointer without the leading slash, and a message."""

    path: str
    message: str


class InterlockError(Exception):
    """The bus refuses, and says why: a code of :data:`CODES`, a detail for this case, perhaps field errors."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        hint: str | None = None,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        spec = CODES[code]
        self.code = code
        self.status = spec.status
        self.title = spec.title
        self.detail = detail or spec.title
        self.hint = spec.hint if hint is None else hint
        self.retryable = spec.retryable
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        super().__init__(f"{code}: {self.detail}")


class StoreError(InterlockError):
    """The store could not carry out a call; whether a write took effect is not known."""

    def __init__(self, code: str = "store_unavailable", detail: str = "", *, retry_after: int = 1) -> None:
        super().__init__(code, detail, headers={"Retry-After": str(retry_after)})
