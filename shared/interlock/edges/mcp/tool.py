"""What a tool is: a row of the tools table, and how a row is run.

A row names the operations that it carries out, the same as REST does; what it adds is an answer that fits, with the
notices and the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, ValidationError

from interlock.domain import limits
from interlock.edges import models, problems
from interlock.edges.mcp import brief, hints, schemas
from interlock.edges.mcp.offers import Content, Context, NeedsInput, Started, Tool
from interlock.edges.mcp.session import Session
from interlock.edges.models.fields import Model
from interlock.errors import InterlockError

Name = Annotated[str, Field(min_length=1, max_length=limits.ID_CHARACTERS)]
JobId = Annotated[Name, Field(description="The job's id.")]
RepeatKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.KEY_CHARACTERS,
        description="Any text of your own. The same key again answers the first effect instead of doing it twice.",
    ),
]


SPARE = 600
"""What is kept of an answer's room for saying what was cut."""


class Plain(Model):
    """A tool that reads, or that is safe to repeat by itself."""


class Repeatable(Model):
    """A tool that changes something."""

    idempotency_key: RepeatKey | None = None


class OnJob(Repeatable):
    """A tool that changes a job."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Found:
    """What a tool found: parts of the answer, and what to do next. Notices are added where the parts have none."""

    parts: dict[str, Any]
    next: Sequence[str] = ()


Own = Any
Run = Callable[[Session, Own, dict[str, Any], Context], Found | NeedsInput | Started]


@dataclass(frozen=True, slots=True)
class Row:
    """A tool in the table.

    ``own`` is the model of its own arguments, ``passes`` names the models (``interlock.edges.models``) whose fields it
    passes on; ``run`` gets the first validated, the others as they came: the operation's own check is the only one.
    """

    name: str
    title: str
    description: str
    operations: tuple[str, ...]
    own: type[Model]
    run: Run
    passes: tuple[str, ...] = ()
    answer: Mapping[str, schemas.Schema] = field(default_factory=dict)
    reads: bool = False
    destructive: bool = False
    idempotent: bool = False

    def tool(self) -> Tool:
        """The tool that clients see."""
        return Tool(
            self.name,
            self.title,
            self.description,
            schemas.of_arguments(self.own, [getattr(models, name) for name in self.passes]),
            self._run,
            schemas.of_answer(self.answer),
            {
                "readOnlyHint": self.reads,
                "destructiveHint": self.destructive,
                "idempotentHint": self.reads or self.idempotent,
                "openWorldHint": False,
            },
        )

    def _run(self, arguments: Mapping[str, Any], context: Context) -> Content | NeedsInput | Started:
        session: Session = context.caller
        try:
            own, rest = self._split(arguments)
            found = self.run(session, own, rest, context)
            return shown(session, found) if isinstance(found, Found) else found
        except InterlockError as error:
            return refusal(session, error, self.name)

    def _split(self, arguments: Mapping[str, Any]) -> tuple[Own, dict[str, Any]]:
        mine = {name: value for name, value in arguments.items() if name in self.own.model_fields}
        rest = {name: value for name, value in arguments.items() if name not in mine}
        try:
            own = self.own.model_validate(mine)
            if rest and not self.passes:
                Plain.model_validate(rest)
        except ValidationError as failed:
            raise problems.from_validation(failed) from None
        return own, rest


def shown(session: Session, found: Found) -> Content:
    """What was found as an answer that fits."""
    parts = dict(found.parts)
    notices = parts.pop("notices", None)
    if notices is None:
        notices = session.notices()
    told = {"notices": brief.plain(notices)} if notices else {}
    steps = list(found.next)
    value, cuts = brief.fit({**parts, **told}, brief.ROOM - brief.weight(steps) - SPARE)
    if cuts:
        return _content({**value, "cut": cuts, "next": [*steps, *hints.whole(cuts, parts)]})
    return _content({**value, "next": steps})


def refusal(session: Session, error: InterlockError, tool: str) -> Content:
    """An error as an answer: what was refused and what to do about it."""
    problem = problems.document(error, session.request_id)
    dropped = ("type", "title", "status", "request_id")
    told = {name: value for name, value in problem.items() if name not in dropped and value != []}
    if error.status >= 500:
        told["request_id"] = session.request_id
    notices = [] if error.retryable else session.notices()
    more = {"notices": brief.plain(notices)} if notices else {}
    steps = hints.after_error(error, tool)
    value, _ = brief.fit({"error": told, **more}, brief.ROOM - brief.weight(steps) - SPARE)
    return _content({**value, "next": steps}, is_error=True)


def _content(value: dict[str, Any], *, is_error: bool = False) -> Content:
    return Content([{"type": "text", "text": brief.text(value)}], value, is_error)
