"""The change feed on DynamoDB Streams, for a bus that runs its dispatcher itself (on Lambda the service does)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interlock.store import keys
from interlock.store.aws import failures
from interlock.store.aws.clients import client
from interlock.store.aws.wire import from_wire
from interlock.store.ports import Change, Key

_RECORDS = 1000
_STALE = ("ExpiredIteratorException", "TrimmedDataAccessException")


@dataclass(slots=True)
class _Shard:
    """How far a shard was read. ``iterator`` is None before the first read and after a stale answer."""

    id: str
    parent: str | None
    iterator: str | None = None
    sequence: str | None = None
    ended: bool = False


class StreamFeed:
    """Reads a table's stream from its oldest record; see :class:`interlock.store.ports.Feed`.

    What was acknowledged is remembered in memory only: after a restart the stream (24 hours) is read again,
    which the dispatcher bears because it writes what is absent.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._arn = ""
        self._shards: dict[str, _Shard] = {}
        self._pending: dict[str, Change] = {}
        self._lock = threading.Lock()

    def read(self, *, limit: int = 100) -> list[Change]:
        """The oldest changes that were not acknowledged."""
        with self._lock:
            if len(self._pending) < limit:
                with failures.translated():
                    self._poll()
            return list(self._pending.values())[:limit]

    def acknowledge(self, changes: Sequence[Change]) -> None:
        """Forget changes that were handled."""
        with self._lock:
            for change in changes:
                self._pending.pop(change.position, None)

    def _poll(self) -> None:
        if not any(not shard.ended for shard in self._shards.values()):
            self._discover()
        ended = False
        for shard in list(self._shards.values()):
            parent = self._shards.get(shard.parent or "")
            if not shard.ended and (parent is None or parent.ended):
                self._read_shard(shard)
                ended = ended or shard.ended
        if ended:
            self._discover()

    def _discover(self) -> None:
        """Learn of new shards, and forget those that the stream has forgotten."""
        if not self._arn:
            self._arn = client("dynamodb").describe_table(TableName=self._table)["Table"]["LatestStreamArn"]
        request: dict[str, Any] = {"StreamArn": self._arn}
        found: dict[str, _Shard] = {}
        while True:
            description = client("dynamodbstreams").describe_stream(**request)["StreamDescription"]
            for shard in description["Shards"]:
                name = shard["ShardId"]
                found[name] = self._shards.get(name) or _Shard(name, shard.get("ParentShardId"))
            if not description.get("LastEvaluatedShardId"):
                break
            request["ExclusiveStartShardId"] = description["LastEvaluatedShardId"]
        self._shards = found

    def _read_shard(self, shard: _Shard) -> None:
        from botocore.exceptions import ClientError

        try:
            iterator = shard.iterator or self._iterator(shard)
            answer = client("dynamodbstreams").get_records(ShardIterator=iterator, Limit=_RECORDS)
        except ClientError as error:
            if failures.code_of(error) not in _STALE:
                raise
            if failures.code_of(error) == "TrimmedDataAccessException":
                shard.sequence = None
            shard.iterator = None
            return
        for record in answer["Records"]:
            shard.sequence = record["dynamodb"]["SequenceNumber"]
            change = change_of(record, f"{shard.id}/{shard.sequence}")
            if change is not None:
                self._pending[change.position] = change
        shard.iterator = answer.get("NextShardIterator")
        shard.ended = shard.iterator is None

    def _iterator(self, shard: _Shard) -> str:
        request = {"StreamArn": self._arn, "ShardId": shard.id}
        if shard.sequence is None:
            request["ShardIteratorType"] = "TRIM_HORIZON"
        else:
            request |= {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": shard.sequence}
        iterator: str = client("dynamodbstreams").get_shard_iterator(**request)["ShardIterator"]
        return iterator


def change_of(record: Any, position: str) -> Change | None:
    """The change that a stream's record tells of; None when it belongs to no feed (see keys.is_change)."""
    body = record["dynamodb"]
    if "NewImage" not in body:
        return None
    new = from_wire(body["NewImage"])
    old = from_wire(body["OldImage"]) if body.get("OldImage") else None
    key = Key(new["pk"], new["sk"])
    return Change(position, key, new, old) if keys.is_change(key, old, new) else None
