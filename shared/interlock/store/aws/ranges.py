"""A query's bounds as the single condition on the sort key that DynamoDB allows.

DynamoDB's ranges are inclusive at both ends, and an index position cannot be given without the base item's key.
So a range that must exclude an end is asked for with it, and the one item that does not belong is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.store.aws.compile import Expression
from interlock.store.ports import Query
from interlock.store.ranges import prefix_end


@dataclass(frozen=True, slots=True)
class KeyRange:
    """An inclusive range of sort keys, or a bare prefix; ``strangers`` of its items may not belong."""

    prefix: str
    lower: str | None
    upper: str | None
    excluded: tuple[str, ...]

    @property
    def strangers(self) -> int:
        """How many items of the range may have to be dropped."""
        return len(self.excluded)

    def contains(self, sort_key: str) -> bool:
        """Whether an item of the range belongs to the query."""
        return sort_key not in self.excluded

    def condition(self, expression: Expression, attribute: str) -> str:
        """What follows the partition's condition in a KeyConditionExpression."""
        name = expression.name
        if self.prefix:
            return f" AND begins_with({name(attribute)}, {expression.value(self.prefix)})"
        if self.lower is not None and self.upper is not None:
            low, high = expression.value(self.lower), expression.value(self.upper)
            return f" AND {name(attribute)} BETWEEN {low} AND {high}"
        if self.lower is not None:
            return f" AND {name(attribute)} >= {expression.value(self.lower)}"
        if self.upper is not None:
            return f" AND {name(attribute)} <= {expression.value(self.upper)}"
        return ""


def key_range(query: Query) -> KeyRange | None:
    """The range of a query; None when nothing can be in it."""
    if query.prefix and not query.lower and query.upper is None and query.after is None:
        return KeyRange(query.prefix, None, None, ())
    end = prefix_end(query.prefix) if query.prefix else None
    lowers = [query.lower or "", query.prefix]
    uppers = [bound for bound in (query.upper, end) if bound is not None]
    if query.after is not None:
        (lowers if query.forward else uppers).append(query.after)
    lower = max(lowers) or None
    upper = min(uppers) if uppers else None
    if upper == "" or (lower is not None and upper is not None and lower > upper):
        return None
    excluded = {bound for bound in (query.after, end) if bound is not None and bound in (lower, upper)}
    return KeyRange("", lower, upper, tuple(excluded))
