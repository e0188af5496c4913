"""What a caller may send of budgets and of what was used."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from interlock.domain import limits
from interlock.edges.models.fields import Label, Model


def _micro(value: float) -> int:
    """Dollars as micro-dollars, rounded up: nothing that was spent is lost."""
    return math.ceil(round(value * 1_000_000, 3))


def _thousandths(value: float) -> int:
    """Seconds as milliseconds, rounded up."""
    return math.ceil(round(value * 1_000, 3))


Tokens = Annotated[int, Field(ge=0, le=limits.USAGE_TOKENS)]
Dollars = Annotated[float, Field(ge=0, le=limits.USAGE_USD, allow_inf_nan=False), AfterValidator(_micro)]
Seconds = Annotated[
    float, Field(ge=0, le=limits.USAGE_SECONDS, allow_inf_nan=False), AfterValidator(_thousandths)
]


class Usage(Model):
    """What was used under this claim so far, all together: a later report replaces an earlier one, and never less counts."""

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    usd: Dollars | None = None
    seconds: Seconds | None = None
    model: Label | None = None


def _some(value: Any) -> Any:
    if value is not None and all(value.get(name) is None for name in ("tokens", "usd", "seconds")):
        raise ValueError("name at least one of tokens, usd, seconds")
    return value


class DailyBudget(Model):
    """What may be used in a day (UTC), by reports; beyond it nothing is claimed until the next day."""

    tokens: Tokens | None = None
    usd: Dollars | None = None
    seconds: Seconds | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> DailyBudget:
        _some({name: getattr(self, name) for name in ("tokens", "usd", "seconds")})
        return self


class Budget(DailyBudget):
    """What a job and its retries may use. `count` names what is counted: what agents report, or what the bus has
    metered itself (seconds only)."""

    count: Literal["metered", "reported"] = "reported"

    @model_validator(mode="after")
    def _metered(self) -> Budget:
        if self.count == "metered" and (self.tokens is not None or self.usd is not None):
            raise ValueError("the bus meters seconds only; tokens and usd are counted as reported")
        return self
