"""moto made fit for threads, for ``interlock up --engine moto`` and tests. Written for the pinned moto 5.2.5.

moto's DynamoDB has no lock: two conditional writes may both win. Its transactions copy whole tables and put the
copies back when they fail, which loses what other threads wrote in between and takes time that grows with the
table. After :func:`install` each DynamoDB call runs alone, and a transaction that fails restores exactly the
items that it names and the stream's records that it appended.
"""

from __future__ import annotations

import copy
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

_lock = threading.RLock()


def install() -> None:
    """Patch moto, once per process. Raises ImportError where moto is not installed."""
    from moto.dynamodb import models
    from moto.dynamodb.models.table import Table
    from moto.dynamodb.responses import DynamoHandler
    from moto.dynamodbstreams.models import DynamoDBStreamsBackend
    from moto.dynamodbstreams.responses import DynamoDBStreamsHandler

    module: Any = models
    backend: Any = models.DynamoDBBackend
    streams: Any = DynamoDBStreamsBackend
    handlers: tuple[Any, ...] = (DynamoHandler, DynamoDBStreamsHandler)
    if getattr(backend, "interlock_locked", False):
        return
    backend.interlock_locked = True
    for handler in handlers:
        handler.call_action = _alone(handler.call_action)
    backend.transact_write_items = _all_or_nothing(backend.transact_write_items)
    module.copy = types.SimpleNamespace(
        # what moto would put back after a failure is the table itself: putting it back changes nothing
        deepcopy=lambda value: value if isinstance(value, Table) else copy.deepcopy(value)
    )
    streams.get_records = _once(streams.get_records)


def _alone(action: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(action)
    def locked(handler: Any) -> Any:
        with _lock:
            return action(handler)

    return locked


def _all_or_nothing(transact: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(transact)
    def undoing(backend: Any, transact_items: Any) -> None:
        with _lock:
            restore = _remember(backend, transact_items)
            try:
                transact(backend, transact_items)
            except BaseException:
                for put_back in restore:
                    put_back()
                raise

    return undoing


def _once(get_records: Callable[..., Any]) -> Callable[..., Any]:
    """moto keeps every iterator that it ever gave out; a bus that polls would grow by kilobytes a second."""

    @functools.wraps(get_records)
    def forgetting(backend: Any, iterator_arn: str, limit: int) -> Any:
        answer = get_records(backend, iterator_arn, limit)
        backend.shard_iterators.pop(iterator_arn, None)
        return answer

    return forgetting


def _remember(backend: Any, transact_items: Any) -> list[Callable[[], None]]:
    """What undoes a transaction: one step per named item, one per stream."""
    steps: list[Callable[[], None]] = []
    tables: dict[str, Any] = {}
    for part in transact_items:
        (operation,) = part.values()
        table = backend.tables.get(operation.get("TableName"))
        if table is None:
            continue
        tables[table.name] = table
        named = operation.get("Item") or operation.get("Key") or {}
        key = {name: named[name] for name in (table.hash_key_attr, table.range_key_attr) if name in named}
        if len(key) == 2:
            hash_key, range_key = backend.get_keys_value(table, key)
            steps.append(_item_step(table, hash_key, range_key))
    steps += [_stream_step(table.stream_shard) for table in tables.values() if table.stream_shard]
    return steps


def _item_step(table: Any, hash_key: Any, range_key: Any) -> Callable[[], None]:
    saved = copy.deepcopy(table.get_item(hash_key, range_key))

    def put_back() -> None:
        if saved is not None:
            table.items[hash_key][range_key] = saved
        elif hash_key in table.items:
            table.items[hash_key].pop(range_key, None)

    return put_back


def _stream_step(shard: Any) -> Callable[[], None]:
    length = len(shard.items)

    def cut() -> None:
        del shard.items[length:]

    return cut
