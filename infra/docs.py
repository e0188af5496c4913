"""Makes the documents that follow from the tables and texts in the code.

``uv run python -m infra.docs`` (or ``--check``) says which are not current (exit code 1 when one is not);
``--write`` brings them up to date. They are docs/openapi.json, docs/errors.md, docs/limits.md, docs/lifecycle.md, and
what agents' tools read from disk, made of the guide: shared/agents/.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from infra import tools_page
from infra.limits_text import INTERNAL, SECTIONS, Row

from interlock import guide
from interlock.domain import access, limits
from interlock.domain.lifecycle import CASCADED, STATUSES, TRANSITIONS, Transition
from interlock.edges import openapi
from interlock.edges.operations import OPERATIONS
from interlock.errors import CODES

ROOT = Path(__file__).parent.parent
AGENTS = "shared/agents"
MADE = "<!-- Made by `uv run python -m infra.docs --write`; do not edit. -->"

_FAMILIES: Mapping[int, str] = {
    400: "the request cannot be read",
    401: "who is calling",
    403: "the caller may not",
    404: "there is nothing here",
    405: "the method is wrong",
    409: "the state says no",
    412: "the object has moved on",
    413: "too large",
    415: "the body is of another kind",
    422: "read, but not acceptable",
    428: "a header is missing",
    429: "too many requests",
    431: "the headers are too large",
    500: "a defect",
    503: "the store does not answer",
}

_MEANING_OF_STATUS: Mapping[str, str] = {
    "pending": "waits for jobs that it is blocked by, or for `not_before`",
    "published": "on the board, free to claim",
    "in_progress": "an agent holds it, its lease runs",
    "blocked": "an agent holds it but something is in the way; the lease is paused",
    "unblocked": "the obstacle is gone; the holder has one lease's time to resume",
    "completed": "done; never changes again",
    "failed": "given up; may be restarted or retried",
    CASCADED: "its status is `failed`, because a job that it waits for failed (`caused_by` names it and the root); comes back with it",
    "cancelled": "not wanted any more; never changes again",
}

_STAGES = (*STATUSES, CASCADED)

_RELATIONS: Mapping[str, str] = {
    "anyone": "no credential is needed",
    "enrolled": "any agent of the project, with or without a live role",
    "agent": "an agent of the project that has at least one live role",
    "viewer": "an owner with viewer rights (owners with owner rights are viewers too)",
    "owner": "an owner of the project, or of the installation, with owner rights",
    "installation": "an owner of the installation with owner rights",
    "source": "whoever created the job",
    "holder": "the agent that holds the job; it proves it with the claim's fence",
    "last_holder": "the agent that held the job when it failed",
    "self": "the agent that the object is",
    "system": "the bus itself",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def errors() -> str:
    """docs/errors.md."""
    parts = [
        "# Errors",
        MADE,
        "Every error is `application/problem+json` (RFC 9457), whatever went wrong and wherever. `code` is stable: "
        "programs decide by it. `title` says what the code means, `detail` what is the matter in this case, `hint` what "
        "to do next. `errors` names single fields, each with a `path` (a JSON Pointer without its leading slash) and a "
        "`message`. `retryable` says whether the very same call may succeed later; such answers carry `Retry-After`, and "
        "with an `Idempotency-Key` the repeat is safe. Give `request_id` to whoever runs the bus when something looks "
        "like a defect. Further members give facts of the case, for example `job_status` and `allowed` after `wrong_state`.",
        "```json\n" + json.dumps(_EXAMPLE, indent=2, ensure_ascii=False) + "\n```",
        "The checks run in this order, so that a refusal never says more than the caller may know: size and syntax "
        "(400, 413, 415), credential (401), project and object (404; what the caller may not see is answered like what does "
        "not exist), right (403), fields (413, 422), repeats by key, fence and status (409), the rules of the operation.",
    ]
    for status in sorted({code.status for code in CODES.values()}):
        rows = [
            (f"`{name}`", code.title, code.hint + (" *Retryable.*" if code.retryable else ""))
            for name, code in CODES.items()
            if code.status == status
        ]
        parts += [f"## {status}: {_FAMILIES[status]}", table(("Code", "Meaning", "What to do"), rows)]
    return _page(parts)


_EXAMPLE = {
    "type": "urn:interlock:error:wrong_state",
    "title": CODES["wrong_state"].title,
    "status": 409,
    "code": "wrong_state",
    "detail": "complete is not possible: the job is blocked; allowed now: release, fail, unblock, resume, stop, cancel",
    "hint": CODES["wrong_state"].hint,
    "retryable": False,
    "errors": [],
    "request_id": "JKJaXmPLvHcESHA=",
    "job_status": "blocked",
    "allowed": ["release", "fail", "unblock", "resume", "stop", "cancel"],
}


_FROM_MILLISECONDS = {"whole seconds": limits.SECOND, "whole days": limits.DAY}


def _value(name: str, unit: str) -> str:
    value = getattr(limits, name)
    if isinstance(value, tuple):
        return f"{value[0]:,} to {value[1]:,} {unit}".rstrip()
    if unit == "bytes" and value % 1024**3 == 0:
        return f"{value // 1024**3:,} GiB"
    if unit == "bytes" and value % 1024 == 0:
        return f"{value // 1024:,} KiB"
    if unit in _FROM_MILLISECONDS:
        return f"{value // _FROM_MILLISECONDS[unit]:,} {unit.removeprefix('whole ')}"
    return f"{value:,} {unit}".rstrip()


def limits_page() -> str:
    """docs/limits.md."""
    parts = [
        "# Limits",
        MADE,
        "What is beyond a limit is refused and named; nothing is cut silently (the reason of a rejection is cut, and the "
        "answer says so). Sizes are those of the value as compact "
        "UTF-8 JSON; characters are Unicode code points; KiB are 1,024 bytes, GiB 1,024³. Codes are explained in [errors.md](errors.md).",
    ]
    for title, rows in SECTIONS:
        shown = [(row.what, _value(row.name, row.unit), _code(row)) for row in rows]
        parts += [f"## {title}", table(("What", "Limit", "Beyond it"), shown)]
    inside = [(text, _value(name, unit)) for name, (text, unit) in INTERNAL.items()]
    parts += [
        "## How the bus itself is tuned",
        "No caller is refused by these; they explain what can be observed.",
        table(("What", "Value"), inside),
    ]
    return _page(parts)


def _code(row: Row) -> str:
    if row.code is None:
        return row.instead or "–"
    return f"{CODES[row.code].status} `{row.code}`" + (f"; {row.instead}" if row.instead else "")


def lifecycle() -> str:
    """docs/lifecycle.md."""
    parts = [
        "# Life of a job, and who may do what",
        MADE,
        "Each row below is one way in which a job moves. An operation whose row does not start at the job's status is "
        "refused with `wrong_state`, and the answer names what is possible now. *Fence* says whether the holding changes: "
        "then the fence number grows and every older one is refused (`lease_lost`, or `stop_requested` when an owner took "
        "the job away).",
        "## Statuses",
        table(("Status", "Meaning"), [(_stage(stage), _MEANING_OF_STATUS[stage]) for stage in _STAGES]),
        "## Transitions",
        table(("Operation", "From", "To", "By", "Event", "Fence", "Notes"), map(_transition, TRANSITIONS)),
        "## What is possible from each status",
        table(("Status", *(row.operation for row in TRANSITIONS if row.sources)), map(_possible, _STAGES)),
        "## Rights",
        "An operation is open to whoever stands in one of the relations of its row. Objects of another project, unknown "
        "ones and ones that the caller may not see are all answered 404, before rights are looked at. An agent without a "
        "live role sees no jobs.",
        table(("Relation", "Who"), [(_relation(name), text) for name, text in _RELATIONS.items()]),
    ]
    for area in dict.fromkeys(row.area for row in OPERATIONS.values()):
        rows = [
            (
                f"`{row.name}`",
                f"`{row.method} {row.path}`",
                row.summary,
                ", ".join(map(_relation, access.RIGHTS[row.name])),
            )
            for row in OPERATIONS.values()
            if row.area == area
        ]
        parts += [f"### {area.capitalize()}", table(("Operation", "Route", "What it does", "Open to"), rows)]
    return _page(parts)


def _transition(row: Transition) -> tuple[str, ...]:
    return (
        row.operation.replace("_", " "),
        ", ".join(row.sources) or "–",
        ", ".join(row.targets),
        ", ".join(map(_relation, row.by)),
        f"`{row.event}`",
        "new" if row.new_fence else "",
        row.note,
    )


def _possible(stage: str) -> tuple[str, ...]:
    return (_stage(stage), *("✓" if stage in row.sources else "" for row in TRANSITIONS if row.sources))


def _stage(stage: str) -> str:
    return f"`{stage}`" if stage in STATUSES else stage


def _relation(name: str) -> str:
    return name.replace("_", " ")


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def openapi_page() -> str:
    """docs/openapi.json."""
    return json.dumps(openapi.document(), indent=1, ensure_ascii=False) + "\n"


def _of_guide(path: str) -> Callable[[], str]:
    return lambda: guide.files()[path]


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/openapi.json": openapi_page,
    "docs/errors.md": errors,
    "docs/limits.md": limits_page,
    "docs/lifecycle.md": lifecycle,
    "docs/tools.md": lambda: f"{MADE}\n\n{tools_page.page()}",
    **{f"{AGENTS}/{path}": _of_guide(path) for path in guide.files()},
}


def stale() -> list[str]:
    """Paths of the documents that are not what the code says."""
    return [
        name
        for name, made in PAGES.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != made()
    ]


def main() -> int:
    """Compare or write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.docs", description=(__doc__ or "").splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="compare only (the default)")
    choice.add_argument("--write", action="store_true", help="write what is not current")
    arguments = parser.parse_args()
    found = stale()
    for name in found:
        if arguments.write:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8", newline="\n")
            print(f"{name} written")
        else:
            print(f"{name} is not current: run `uv run python -m infra.docs --write`")
    return 0 if arguments.write or not found else 1


if __name__ == "__main__":
    raise SystemExit(main())
