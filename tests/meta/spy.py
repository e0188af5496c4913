"""A store that notes which function calls what, as IAM sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.meta.stack import QUEUES

from interlock.store.ports import (
    Check,
    Delete,
    Item,
    Key,
    Message,
    Page,
    Put,
    Query,
    Store,
    Stored,
    Update,
    Upload,
)

ACTIONS = {
    Put: "dynamodb:PutItem",
    Update: "dynamodb:UpdateItem",
    Delete: "dynamodb:DeleteItem",
    Check: "dynamodb:ConditionCheckItem",
}


def _arn(queue: str) -> str:
    return f"{QUEUES[queue]}.Arn"


class Use(NamedTuple):
    """One call of a function, as IAM sees it."""

    function: str
    action: str
    resource: str
    partition: str = ""


@dataclass
class Spy:
    """A store that notes which function calls what. Wraps any store; the function is named by :meth:`during`."""

    store: Store
    function: str | None = None
    uses: set[Use] = field(default_factory=set)
    meanwhile: Callable[[], Any] | None = None
    """What others do just before the next transaction, once."""

    @contextmanager
    def during(self, function: str) -> Iterator[None]:
        before, self.function = self.function, function
        try:
            yield
        finally:
            self.function = before

    def note(self, action: str, resource: str, partition: str = "") -> None:
        if self.function is not None:
            self.uses.add(Use(self.function, action, resource, partition))

    def port(self) -> Store:
        return Store(SpyTable(self), SpyQueues(self), SpyBlobs(self))


@dataclass
class SpyTable:
    spy: Spy

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self.spy.note("dynamodb:GetItem", "Table.Arn", key.pk)
        return self.spy.store.table.get(key, consistent=consistent)

    def batch_get(self, wanted: Sequence[Key], *, consistent: bool = True) -> dict[Key, Item]:
        for key in wanted:
            self.spy.note("dynamodb:BatchGetItem", "Table.Arn", key.pk)
        return self.spy.store.table.batch_get(wanted, consistent=consistent)

    def query(self, query: Query) -> Page:
        resource = f"Table.Arn/index/index{query.index}" if query.index else "Table.Arn"
        self.spy.note("dynamodb:Query", resource, query.pk)
        return self.spy.store.table.query(query)

    def write(self, write: Any) -> Item:
        self.spy.note(ACTIONS[type(write)], "Table.Arn", write.key.pk)
        return self.spy.store.table.write(write)

    def write_each(self, writes: Sequence[Any]) -> list[bool]:
        for write in writes:
            self.spy.note(ACTIONS[type(write)], "Table.Arn", write.key.pk)
        return self.spy.store.table.write_each(writes)

    def transact(self, parts: Sequence[Any]) -> None:
        if (others := self.spy.meanwhile) is not None:
            self.spy.meanwhile = None
            others()
        for part in parts:
            self.spy.note(ACTIONS[type(part)], "Table.Arn", part.key.pk)
        self.spy.store.table.transact(parts)


class Late(SpyTable):
    """A reader that was too early to see the mark of the first owner."""

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        found = super().get(key, consistent=consistent)
        return None if key.sk == "FIRST" else found


@dataclass
class SpyQueues:
    spy: Spy

    def send(self, queue: str, messages: Any) -> None:
        self.spy.note("sqs:SendMessage", _arn(queue))
        self.spy.store.queues.send(queue, messages)

    def receive(self, queue: str, **more: Any) -> list[Message]:
        self.spy.note("sqs:ReceiveMessage", _arn(queue))
        return self.spy.store.queues.receive(queue, **more)

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        self.spy.note("sqs:DeleteMessage", _arn(queue))
        self.spy.store.queues.delete(queue, receipts)

    def depth(self, queue: str) -> int:
        self.spy.note("sqs:GetQueueAttributes", _arn(queue))
        return self.spy.store.queues.depth(queue)


@dataclass
class SpyBlobs:
    spy: Spy

    def put(self, key: str, data: bytes) -> None:
        self.spy.note("s3:PutObject", "Payloads.Arn/*")
        self.spy.store.blobs.put(key, data)

    def get(self, key: str) -> bytes | None:
        self.spy.note("s3:GetObject", "Payloads.Arn/*")
        return self.spy.store.blobs.get(key)

    def upload(self, key: str, **more: Any) -> Upload:
        # S3 judges a presigned request by the rights of whoever signed it
        self.spy.note("s3:PutObject", "Payloads.Arn/uploads/*")
        self.spy.note("s3:PutObjectTagging", "Payloads.Arn/uploads/*")
        return self.spy.store.blobs.upload(key, **more)

    def download(self, key: str, **more: Any) -> str:
        self.spy.note("s3:GetObject", "Payloads.Arn/*")
        return self.spy.store.blobs.download(key, **more)

    def stat(self, wanted: Sequence[str]) -> dict[str, Stored]:
        self.spy.note("s3:GetObject", "Payloads.Arn/*")
        return self.spy.store.blobs.stat(wanted)

    def keep(self, key: str) -> None:
        self.spy.note("s3:PutObjectTagging", "Payloads.Arn/uploads/*")
        self.spy.store.blobs.keep(key)
