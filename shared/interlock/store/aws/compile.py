"""Conditions and updates as DynamoDB expressions. Every name is aliased, so reserved words never matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.store.aws.wire import value_to_wire
from interlock.store.conditions import Absent, AllOf, AnyOf, Compare, Condition, Exists, OneOf, Test

_OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
_NEVER = AllOf((Exists("pk"), Absent("pk")))
_ALWAYS = AnyOf((Exists("pk"), Absent("pk")))
_MAX_ONE_OF = 100


class Expression:
    """Aliases that the expressions of one request share."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        """The alias of an attribute."""
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: Any) -> str:
        """The alias of a value."""
        alias = f":v{len(self._values)}"
        self._values[alias] = value_to_wire(value)
        return alias

    def parameters(self) -> dict[str, Any]:
        """The request's parameters that resolve the aliases."""
        found: dict[str, Any] = {}
        if self._names:
            found["ExpressionAttributeNames"] = {alias: name for name, alias in self._names.items()}
        if self._values:
            found["ExpressionAttributeValues"] = self._values
        return found

    def condition(self, test: Test) -> str:
        """A test as a ConditionExpression. Raises ValueError for a comparison that has no meaning."""
        match test:
            case Exists():
                return f"attribute_exists({self.name(test.attribute)})"
            case Absent():
                return f"attribute_not_exists({self.name(test.attribute)})"
            case Compare():
                return self._compare(test)
            case OneOf():
                return self._one_of(test)
            case AllOf():
                return self._joined(" AND ", test.tests, _ALWAYS)
            case AnyOf():
                return self._joined(" OR ", test.tests, _NEVER)

    def update(self, values: Mapping[str, Any], remove: Sequence[str]) -> str:
        """An UpdateExpression that sets and removes attributes."""
        clauses = []
        if values:
            clauses.append(
                "SET "
                + ", ".join(f"{self.name(name)} = {self.value(value)}" for name, value in values.items())
            )
        if remove:
            clauses.append("REMOVE " + ", ".join(self.name(name) for name in remove))
        return " ".join(clauses)

    def _compare(self, test: Compare) -> str:
        if test.operator not in _OPERATORS:
            raise ValueError(f"{test.operator} compares nothing")
        ordered = test.operator not in ("=", "<>")
        if ordered and (isinstance(test.value, bool) or not isinstance(test.value, (str, int, bytes))):
            raise ValueError(f"{test.operator} compares strings, numbers and bytes only")
        return f"{self.name(test.attribute)} {test.operator} {self.value(test.value)}"

    def _one_of(self, test: OneOf) -> str:
        if not test.values:
            return self.condition(_NEVER)
        if len(test.values) > _MAX_ONE_OF:
            raise ValueError(f"one of at most {_MAX_ONE_OF} values")
        values = ", ".join(self.value(value) for value in test.values)
        return f"{self.name(test.attribute)} IN ({values})"

    def _joined(self, word: str, tests: tuple[Test, ...], empty: Test) -> str:
        if not tests:
            return self.condition(empty)
        if len(tests) == 1:
            return self.condition(tests[0])
        return word.join(
            f"({text})" if _composite(part) else text
            for part, text in ((t, self.condition(t)) for t in tests)
        )


def _composite(test: Test) -> bool:
    """Whether a test's text has an AND or OR at its top, so that it needs parentheses inside another."""
    match test:
        case AllOf() | AnyOf():
            return len(test.tests) != 1 or _composite(test.tests[0])
        case OneOf():
            return not test.values
    return False


def condition_parameters(condition: Condition | None, expression: Expression) -> dict[str, Any]:
    """The parameters that make a write conditional, aliases not included."""
    if condition is None:
        return {}
    return {
        "ConditionExpression": expression.condition(condition.test),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
