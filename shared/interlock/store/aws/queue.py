"""The queue port on SQS."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.errors import StoreError
from interlock.store import rules
from interlock.store.aws import failures
from interlock.store.aws.clients import client
from interlock.store.ports import Message

_DEPTHS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)


class SqsQueues:
    """Standard queues by their URLs; see :class:`interlock.store.ports.Queues`."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls

    def send(self, queue: str, messages: Iterable[tuple[Mapping[str, Any], int]]) -> None:
        """Send messages in batches; a message that its batch refused is sent again."""
        entries: list[dict[str, Any]] = []
        for body, delay in messages:
            rules.check_delay(delay)
            text = json.dumps(body, separators=(",", ":"))  # ASCII: SQS refuses some characters
            entries.append({"Id": str(len(entries)), "MessageBody": text, "DelaySeconds": delay})
        for start in range(0, len(entries), rules.MAX_BATCH):
            self._send_batch(queue, entries[start : start + rules.MAX_BATCH])

    def receive(self, queue: str, *, limit: int = 10, visibility: int = 60) -> list[Message]:
        """Up to ``limit`` visible messages; SQS may find fewer than there are."""
        with failures.translated():
            answer = client("sqs").receive_message(
                QueueUrl=self._urls[queue],
                MaxNumberOfMessages=max(1, min(limit, rules.MAX_BATCH)),
                VisibilityTimeout=visibility,
                WaitTimeSeconds=0,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [
            Message(
                found["MessageId"],
                json.loads(found["Body"]),
                found["ReceiptHandle"],
                int(found.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
            )
            for found in answer.get("Messages", ())
        ]

    def delete(self, queue: str, receipts: Sequence[str]) -> None:
        """Forget messages. One that SQS fails to delete comes again, which its consumer must bear anyway."""
        for start in range(0, len(receipts), rules.MAX_BATCH):
            batch = receipts[start : start + rules.MAX_BATCH]
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(batch)]
            with failures.translated():
                client("sqs").delete_message_batch(QueueUrl=self._urls[queue], Entries=entries)

    def depth(self, queue: str) -> int:
        """About how many messages the queue holds."""
        with failures.translated():
            answer = client("sqs").get_queue_attributes(
                QueueUrl=self._urls[queue], AttributeNames=list(_DEPTHS)
            )
        return sum(int(answer.get("Attributes", {}).get(name, 0)) for name in _DEPTHS)

    def _send_batch(self, queue: str, entries: list[dict[str, Any]]) -> None:
        for attempt in range(failures.TRIES):
            with failures.translated():
                answer = client("sqs").send_message_batch(QueueUrl=self._urls[queue], Entries=entries)
            failed = {failure["Id"]: failure for failure in answer.get("Failed", ())}
            if not failed:
                return
            hopeless = next((failure for failure in failed.values() if failure.get("SenderFault")), None)
            if hopeless:
                raise StoreError("store_unavailable", f"SQS answered {hopeless.get('Code')}.")
            entries = [entry for entry in entries if entry["Id"] in failed]
            failures.pause(attempt)
        raise failures.throttled("a failed SendMessageBatch entry")
