"""The table port on DynamoDB."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from interlock.errors import StoreError
from interlock.store import rules
from interlock.store.aws import failures
from interlock.store.aws.clients import client
from interlock.store.aws.compile import Expression, condition_parameters
from interlock.store.aws.ranges import key_range
from interlock.store.aws.wire import from_wire, key_to_wire, to_wire
from interlock.store.ports import (
    INDEX_KEYS,
    Check,
    ConditionLost,
    Delete,
    Item,
    Key,
    Page,
    Put,
    Query,
    TransactionPart,
    Update,
    Write,
)

INDEX_NAMES = {1: "index1", 2: "index2"}
_BATCH_GET = 100
_WRITERS = 8


class DynamoTable:
    """Items in one DynamoDB table; see :class:`interlock.store.ports.Table`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item, or None."""
        rules.check_key(key)
        with failures.translated():
            answer = client("dynamodb").get_item(
                TableName=self._name, Key=key_to_wire(key), ConsistentRead=consistent
            )
        return from_wire(answer["Item"]) if "Item" in answer else None

    def batch_get(self, keys: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """The items that exist among the keys."""
        wanted = list(dict.fromkeys(Key(*key) for key in keys))
        for key in wanted:
            rules.check_key(key)
        found: dict[Key, Item] = {}
        for start in range(0, len(wanted), _BATCH_GET):
            for item in self._batch(
                [key_to_wire(key) for key in wanted[start : start + _BATCH_GET]], consistent
            ):
                found[Key(item["pk"], item["sk"])] = item
        return found

    def query(self, query: Query) -> Page:
        """One page of a range."""
        if query.limit < 1:
            raise ValueError("a page has at least one item")
        keys = key_range(query)
        if keys is None:
            return Page([], more=False)
        partition, sort = INDEX_KEYS[query.index] if query.index else ("pk", "sk")
        expression = Expression()
        request: dict[str, Any] = {
            "TableName": self._name,
            "KeyConditionExpression": f"{expression.name(partition)} = {expression.value(query.pk)}"
            + keys.condition(expression, sort),
            "ScanIndexForward": query.forward,
            "Limit": query.limit + keys.strangers,
            **expression.parameters(),
        }
        if query.index:
            request["IndexName"] = INDEX_NAMES[query.index]
        else:
            request["ConsistentRead"] = True
        while True:
            with failures.translated():
                answer = client("dynamodb").query(**request)
            items = [item for item in map(from_wire, answer["Items"]) if keys.contains(item[sort])]
            position = answer.get("LastEvaluatedKey")
            if items or not position:
                return Page(items[: query.limit], more=bool(position) or len(items) > query.limit)
            request["ExclusiveStartKey"] = position

    def write(self, write: Write) -> Item:
        """One conditional write; answers the item as written."""
        request, image = self._request(write)
        method = {Put: "put_item", Update: "update_item", Delete: "delete_item"}[type(write)]
        if isinstance(write, Update):
            request["ReturnValues"] = "ALL_NEW"
        answer = self._conditionally(write, functools.partial(getattr(client("dynamodb"), method), **request))
        return from_wire(answer["Attributes"]) if isinstance(write, Update) else image

    def write_each(self, writes: Sequence[Write]) -> list[bool]:
        """Each write by itself, several at a time."""
        if len(writes) < 2:
            return [self._holding(write) for write in writes]
        return list(_pool().map(self._holding, writes))

    def transact(self, parts: Sequence[TransactionPart]) -> None:
        """All or nothing."""
        from botocore.exceptions import ClientError

        rules.check_parts(parts)
        request = [{_ACTIONS[type(part)]: self._request(part)[0]} for part in parts]
        with failures.translated():
            try:
                failures.patiently(
                    lambda: client("dynamodb").transact_write_items(TransactItems=request),
                    lambda error: _cancelled_for_now(error) or failures.transient(failures.code_of(error)),
                )
            except ClientError as error:
                raise _transaction_failure(error, parts) from error

    def _request(self, part: TransactionPart) -> tuple[dict[str, Any], Item]:
        """The parameters that a part has alone and in a transaction, and the image of a put."""
        expression = Expression()
        request: dict[str, Any] = {"TableName": self._name}
        image: Item = {}
        if isinstance(part, Put):
            image = rules.put_image(part)
            rules.check_size(image)
            request["Item"] = to_wire(image)
        else:
            rules.check_key(part.key)
            request["Key"] = key_to_wire(part.key)
            if isinstance(part, Update):
                request["UpdateExpression"] = expression.update(rules.update_values(part), part.remove)
        request |= condition_parameters(part.condition, expression)
        return request | expression.parameters(), image

    def _conditionally(self, write: Write, call: Any) -> Any:
        from botocore.exceptions import ClientError

        with failures.translated():
            try:
                return failures.patiently(call, lambda error: failures.transient(failures.code_of(error)))
            except ClientError as error:
                if failures.code_of(error) != "ConditionalCheckFailedException":
                    raise
                item = error.response.get("Item")
                name = write.condition.name if write.condition else ""
                raise ConditionLost(0, from_wire(item) if item else None, name) from None

    def _holding(self, write: Write) -> bool:
        try:
            self.write(write)
        except ConditionLost:
            return False
        return True

    def _batch(self, keys: list[Any], consistent: bool) -> list[Item]:
        found: list[Item] = []
        request = {self._name: {"Keys": keys, "ConsistentRead": consistent}}
        for attempt in range(failures.TRIES):
            with failures.translated():
                answer = client("dynamodb").batch_get_item(RequestItems=request)
            found += map(from_wire, answer.get("Responses", {}).get(self._name, ()))
            request = answer.get("UnprocessedKeys") or {}
            if not request:
                return found
            failures.pause(attempt)
        raise failures.throttled("UnprocessedKeys")


_ACTIONS: dict[type[TransactionPart], str] = {
    Put: "Put",
    Update: "Update",
    Delete: "Delete",
    Check: "ConditionCheck",
}


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WRITERS, thread_name_prefix="interlock-write")


def _reasons(error: Any) -> list[str]:
    return [str(reason.get("Code", "None")) for reason in error.response.get("CancellationReasons", ())]


def _cancelled_for_now(error: Any) -> bool:
    """Whether a transaction was cancelled for nothing but conflicts and limits."""
    codes = [code for code in _reasons(error) if code != "None"]
    return bool(codes) and all(map(failures.transient, codes))


def _transaction_failure(error: Any, parts: Sequence[TransactionPart]) -> Exception:
    """What a transaction's ClientError means: a lost condition before anything else."""
    codes = _reasons(error)
    if "ConditionalCheckFailed" in codes:
        index = codes.index("ConditionalCheckFailed")
        condition = parts[index].condition
        item = error.response["CancellationReasons"][index].get("Item")
        return ConditionLost(index, from_wire(item) if item else None, condition.name if condition else "")
    if "ValidationError" in codes:
        return ValueError(str(error))
    if _cancelled_for_now(error):
        return failures.throttled(next(code for code in codes if code != "None"))
    if codes:
        return StoreError("store_unavailable", f"AWS cancelled a transaction: {', '.join(codes)}.")
    return error  # type: ignore[no-any-return]  # a ClientError, for the translation around the call
