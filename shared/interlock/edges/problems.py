"""Every error as application/problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from interlock.domain import limits
from interlock.edges import jsonio
from interlock.errors import FieldError, InterlockError


def document(error: InterlockError, request_id: str) -> dict[str, Any]:
    """The problem document of an error."""
    return {
        "type": f"urn:interlock:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "hint": error.hint,
        "retryable": error.retryable,
        "errors": [{"path": item.path, "message": item.message} for item in error.errors],
        "request_id": request_id,
        **error.extra,
    }


def problem_response(error: InterlockError, request_id: str) -> dict[str, Any]:
    """The Lambda answer for an error."""
    headers = {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "x-request-id": request_id,
    }
    headers |= {name.lower(): value for name, value in error.headers.items()}
    return {"statusCode": error.status, "headers": headers, "body": jsonio.write(document(error, request_id))}


def from_validation(failed: ValidationError) -> InterlockError:
    """Field errors of a model: ``unknown_field`` when only unknown fields are wrong, else ``invalid``.

    The answer stays small whatever was sent: it names the first wrong fields and counts the others.
    """
    found = failed.errors(include_url=False, include_context=False, include_input=False)
    errors = []
    for item in found[: limits.ERRORS_NAMED]:
        message = (
            "is not a known field"
            if item["type"] == "extra_forbidden"
            else _message(item["type"], item["msg"])
        )
        errors.append(FieldError(jsonio.quoted(jsonio.pointer(item["loc"])), message))
    only_unknown = all(item["type"] == "extra_forbidden" for item in found)
    names = ", ".join(sorted({error.path or "the body" for error in errors})[:10])
    rest = len(found) - len(errors)
    return InterlockError(
        "unknown_field" if only_unknown else "invalid",
        f"not acceptable: {names}" + (f"; and {rest} more" if rest else ""),
        errors=errors,
    )


def _message(kind: str, text: str) -> str:
    if kind == "missing":
        return "is required"
    return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
