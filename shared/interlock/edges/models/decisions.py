"""What a caller may send of decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from interlock.domain import limits
from interlock.edges import jsonio
from interlock.edges.models.fields import Fence, Free, Key, Model, Text, distinct, too_large

Words = Annotated[str, Text(limits.PROMPT_CHARACTERS)]
FindingText = Annotated[str, Text(limits.FINDING_CHARACTERS)]
Options = Annotated[
    list[Annotated[str, Text(limits.OPTION_CHARACTERS)]],
    Field(min_length=1, max_length=limits.OPTIONS),
    AfterValidator(distinct),
]
Kind = Literal["question", "approval", "review", "gate"]


class DecisionAsk(Model):
    """The fence, what has to be decided, and who may. A question also says what it blocks and what the risk is."""

    fence: Fence
    kind: Annotated[
        Kind,
        Field(
            description="question; approval (may this be done?); review (is the work good?); gate (go on?)."
        ),
    ]
    prompt: Annotated[Words, Field(description="The exact decision, answerable without a conversation.")]
    blocker: Annotated[
        Words | None, Field(description="What cannot go on without it; a question needs it.")
    ] = None
    risk: Annotated[Words | None, Field(description="What a wrong answer costs; a question needs it.")] = None
    options: Annotated[Options | None, Field(description="What may be answered.")] = None
    answer_schema: Annotated[
        Any,
        Free("schema", limits.SCHEMA_BYTES),
        Field(description="Instead of options: the JSON Schema of an answer."),
    ] = Field(None, alias="schema")
    roles: Annotated[
        list[Key],
        Field(max_length=limits.DECISION_ROLES),
        AfterValidator(distinct),
        Field(description="Roles whose agents may answer, beside owners."),
    ] = []
    expires_in: Annotated[
        Annotated[int, Field(ge=limits.DECISION_SECONDS[0], le=limits.DECISION_SECONDS[1])] | None,
        Field(description="Seconds until it lapses unanswered."),
    ] = None
    wait: Annotated[bool, Field(description="Block the job until it is answered.")] = True

    @model_validator(mode="after")
    def _whole(self) -> DecisionAsk:
        if self.kind == "question":
            for name in ("blocker", "risk"):
                if getattr(self, name) is None:
                    raise ValueError(f"a question says its {name}")
        elif self.answer_schema is not None:
            raise ValueError("only a question has a schema")
        elif self.options is not None and self.kind != "gate":
            raise ValueError(f"the answers of a decision of kind {self.kind} are approve and reject")
        if self.options is not None and self.answer_schema is not None:
            raise ValueError("send options or a schema, not both")
        return self


class Finding(Model):
    """One thing that a review found."""

    file: FindingText | None = None
    line: Annotated[int, Field(ge=0, le=2**31)] | None = None
    kind: FindingText
    description: FindingText
    fix: FindingText | None = None


class DecisionReply(Model):
    """The answer. `data` carries what an option needs: the new budget of `raise`."""

    answer: Annotated[
        Any,
        Free("answer", limits.ANSWER_BYTES, is_object=False),
        Field(description="One of the options; of a review or an approval: approve or reject."),
    ]
    note: Annotated[Words | None, Field(description="Why.")] = None
    findings: Annotated[
        list[Finding], Field(max_length=limits.FINDINGS), Field(description="What a review found.")
    ] = []
    segment: Annotated[int, Field(ge=0, le=2**31)] | None = None
    data: Annotated[Any, Free("data", limits.ANSWER_BYTES)] = None

    @model_validator(mode="after")
    def _parts(self) -> DecisionReply:
        if jsonio.size([item.model_dump() for item in self.findings]) > limits.FINDINGS_BYTES:
            raise too_large("findings", limits.FINDINGS_BYTES)
        return self


class DecisionWithdraw(Model):
    """Why nobody has to answer any more."""

    note: Words | None = None
