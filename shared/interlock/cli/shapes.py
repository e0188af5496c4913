"""How answers look to a person: compact, one screen, text shown as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.cli import amounts, around, screen
from interlock.cli.screen import clean

Value = Mapping[str, Any]

_REASONS = ("blocked_reason", "unblock_reason", "failure_reason", "cancel_reason")


def job(answer: Value) -> None:
    """One job: what it is, where it stands, who holds it."""
    found = answer["job"]
    screen.line(f"{clean(found['id'])}  {clean(found['status'])}  {clean(found['summary'])}")
    holder = found.get("assignee_label") or found.get("assignee")
    screen.facts(
        [
            ("  role", found.get("role")),
            ("  priority", found.get("priority")),
            ("  external id", found.get("external_id")),
            ("  held by", holder and f"{holder}, fence {found.get('fence')}"),
            ("  from", found.get("source_label") or found.get("source")),
            (
                "  attempt",
                f"{found['attempt']} of {found['max_retries'] + 1}" if "attempt" in found else None,
            ),
            ("  version", found.get("version")),
            *((f"  {name.replace('_', ' ')}", found.get(name)) for name in _REASONS),
            ("  not before", found.get("not_before")),
            ("  deadline", found.get("deadline")),
            ("  decision", found.get("decision")),
            ("  open decisions", _joined(_others(found))),
            ("  approved by", found.get("approved_by")),
            ("  budget", amounts.shown(found.get("budget"))),
            ("  used", amounts.spent(found.get("usage"))),
            ("  requires", _joined(found.get("requires"))),
            ("  capabilities", _joined(found.get("capabilities"))),
            *around.lineage(found),
            ("  context", found.get("context")),
            ("  result", found.get("result")),
        ]
    )
    for constraint in found.get("constraints") or []:
        screen.line(f"  must  {clean(constraint)}")
    for one in found.get("artifacts") or []:
        state = "" if one.get("state", "referenced") == "referenced" else f"  {clean(one['state'])}"
        screen.line(f"  {clean(one['type'])}  {clean(one.get('name') or one['uri'])}{state}")
    for line in around.neighbours(found):
        screen.line(line)


def _others(found: Value) -> list[Any]:
    return [name for name in found.get("open_decisions") or [] if name != found.get("decision")]


def claim(answer: Value) -> None:
    """A claim, or that there is nothing."""
    if answer.get("job") is None:
        skipped = ", ".join(
            f"{clean(reason)} {count}" for reason, count in (answer.get("skipped") or {}).items()
        )
        screen.line("nothing to claim now" + (f" (skipped: {skipped})" if skipped else ""))
        return
    job(answer)
    for up in answer.get("upstream_results") or []:
        screen.line(f"  result of  {clean(up['id'])}  {clean(up['status'])}{_came_to(up)}")
    held = answer["claim"]
    screen.line(f"  claimed  fence {held['fence']}, {span(held.get('expires_in'))} left")


def _came_to(up: Value) -> str:
    """What an upstream job came to, in short."""
    if up.get("omitted"):
        return "  (left out here: `interlock job show` has it)"
    result = up.get("result") or {}
    said = [result.get("summary"), result.get("data")]
    return "".join(f"  {clean(part)}" for part in said if part is not None)


def rejection(answer: Value) -> None:
    """The retry that a review asked for, and the review, which waits for it."""
    job({"job": answer["retry"]})
    review = answer["reviewer"]
    screen.line(f"{clean(review['id'])}  {clean(review['status'])}  {clean(review['summary'])}")


def jobs(answer: Value) -> None:
    """A page of jobs."""
    screen.table(
        ("ID", "STATUS", "ROLE", "PRI", "HELD BY", "SUMMARY"),
        (
            (
                one["id"],
                one["status"],
                one["role"],
                one.get("priority"),
                one.get("assignee_label") or one.get("assignee"),
                one["summary"],
            )
            for one in answer["items"]
        ),
        "no jobs",
    )
    more(answer)


def attention(answer: Value) -> None:
    """A page of what needs a person."""
    screen.table(
        ("KIND", "SINCE", "JOB", "ROLE", "SUMMARY", "WHY", "AN OWNER MAY"),
        (
            (
                one["kind"],
                one.get("since"),
                one.get("job"),
                one.get("role"),
                one.get("summary"),
                one["detail"],
                _joined(one["allowed"]),
            )
            for one in answer["items"]
        ),
        "nothing needs a person" + (" so far" if answer.get("next_cursor") else ""),
    )
    for one in answer["items"]:
        if one.get("decision"):
            what = "read and answer it" if "answer" in one["allowed"] else "read it"
            screen.line(f"{what}:  interlock decisions {clean(one['decision'])}")
    more(answer)


def explanation(answer: Value) -> None:
    """Why a job is or is not claimable."""
    screen.line(
        ("claimable" if answer["claimable"] else "not claimable") + f" as {clean(who(answer.get('as')))}"
    )
    for reason in answer["reasons"]:
        until = f" until {clean(reason['until'])}" if reason.get("until") else ""
        screen.line(f"  {clean(reason['code'])}: {clean(reason['detail'])}{until}")


def artifact(answer: Value) -> None:
    """One artifact."""
    found = answer["artifact"]
    screen.facts([*found.items(), ("saved", answer.get("saved"))])


def event(answer: Value) -> None:
    """An event that was recorded; nothing of it when the call was a repeat."""
    found, on = answer["event"], answer["job"]
    what = f"#{found['seq']} {clean(found['type'])} recorded" if found else "recorded before"
    screen.line(f"{what} on {clean(on['id'])} ({clean(on['status'])}, v{on['version']})")


def event_line(found: Value) -> str:
    """An event in one line: when, what, whose, from where to where, and its data."""
    moved = f" {clean(found.get('from'))} → {clean(found['to'])}" if found.get("to") else ""
    data = f" {clean(found['data'])}" if found.get("data") else ""
    entity = clean(found.get("entity") or "")
    return f"{clean(found['at'])} {entity} #{found['seq']} {clean(found['type'])}{moved} by {clean(who(found['actor']))}{data}"


def events(answer: Value) -> None:
    """A timeline."""
    for found in answer["items"]:
        screen.line(event_line(found))
    if answer.get("incomplete"):
        screen.note("the ledger is still catching up with the job: ask again")
    more(answer)


def roles(answer: Value) -> None:
    """The roles."""
    screen.table(
        ("KEY", "LABEL", "LEASE", "ON EXPIRE", "INDEPENDENT", "CLAIMS", "DAILY", "CAPABILITIES"),
        (
            (
                one["key"],
                one["label"],
                one.get("lease_seconds"),
                one.get("on_expire"),
                "yes" if one.get("independent") else "no",
                one.get("max_claims"),
                amounts.shown(one.get("daily_budget")),
                _joined(one.get("capabilities")),
            )
            for one in answer["items"]
        ),
        "no roles",
    )


def agents(answer: Value) -> None:
    """A page of agents."""
    screen.table(
        ("ID", "LABEL", "ROLES", "TOOL", "CLAIMS", "TOKENS", "STOPPED", "RETIRED"),
        (
            (
                one["id"],
                one["label"],
                _joined(one.get("roles")),
                one.get("tool_family"),
                one.get("max_claims"),
                _live(one),
                (one.get("stop") or {}).get("at"),
                one.get("retired_at"),
            )
            for one in answer["items"]
        ),
        "no agents",
    )
    more(answer)


def owners(answer: Value) -> None:
    """A page of owners."""
    screen.table(
        ("ID", "LABEL", "RIGHTS", "TOKENS", "REMOVED"),
        (
            (one["id"], one["label"], one.get("rights"), _live(one), one.get("removed_at"))
            for one in answer["items"]
        ),
        "no owners",
    )
    more(answer)


def projects(answer: Value) -> None:
    """A page of projects."""
    screen.table(
        ("ID", "TITLE", "CREATED"),
        ((one["id"], one["title"], one.get("created_at")) for one in answer["items"]),
        "no projects",
    )
    more(answer)


def thing(answer: Value) -> None:
    """Any small answer: its values by name; a token alone on its line, to be copied."""
    for name, value in answer.items():
        if name == "token" and isinstance(value, str):
            continue
        screen.facts(value.items() if isinstance(value, Mapping) else [(name, value)])
    if answer.get("token") and isinstance(answer["token"], str):
        screen.line(clean(answer["token"]))
        screen.note("This token is shown once; keep it now.")


def me(answer: Value) -> None:
    """Who the caller is, and what it holds."""
    actor = answer["actor"]
    screen.line(
        f"{clean(who(actor))} ({clean(actor['kind'])} {clean(actor['id'])}) in project {clean(_name(answer.get('project')))}"
    )
    if answer.get("roles"):
        screen.line(f"roles: {clean(_joined(answer['roles']))}")
    held(answer.get("claims") or [])
    notices(answer)


def notices(answer: Value) -> None:
    """What concerns the caller beside its jobs: a line for each."""
    for one in answer.get("notices") or []:
        about = clean(one.get("decision") or one.get("job") or one.get("id") or "")
        screen.line(f"{clean(one['code'])}  {about}  {clean(one['detail'])}")


def held(claims: list[Any]) -> None:
    """Live claims."""
    screen.table(
        ("HOLDS", "STATUS", "FENCE", "LEFT", "SUMMARY"),
        (
            (_job_of(one), one.get("status"), one["fence"], span(one.get("expires_in")), one.get("summary"))
            for one in claims
        ),
        "holds nothing",
    )


def _live(identity: Value) -> int:
    """How many of its tokens authenticate."""
    return sum(bool(token.get("live", True)) for token in identity.get("tokens") or [])


def _job_of(one: Value) -> Any:
    found = one.get("job")
    return found["id"] if isinstance(found, Mapping) else found


def who(actor: Any) -> str | None:
    """An actor's label, with its kind left to the JSON."""
    if isinstance(actor, Mapping):
        return str(actor.get("label") or actor.get("id"))
    return None if actor is None else str(actor)


def _name(value: Any) -> str:
    return str(value.get("id")) if isinstance(value, Mapping) else str(value)


def _joined(values: Any) -> str | None:
    if not values:
        return None
    return ", ".join(str(value.get("key") if isinstance(value, Mapping) else value) for value in values)


def span(seconds: Any) -> str | None:
    """Seconds as a person reads them."""
    if seconds is None:
        return None
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7_200 else f"{whole // 3_600} h"


def more(answer: Value) -> None:
    """Say how a list goes on."""
    if answer.get("next_cursor"):
        screen.note(f"there is more: --cursor {clean(answer['next_cursor'])}")
