"""Queues and the change feed: Lambda batches in, partial failures out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.app import dispatch, retention
from interlock.app.call import Bus
from interlock.app.consumers import CONSUMERS
from interlock.app.dispatch import Effects
from interlock.edges import runtime, telemetry
from interlock.errors import StoreError
from interlock.store import keys
from interlock.store.aws import wire
from interlock.store.ports import Item, Key

Handler = Callable[[Mapping[str, Any], Any], dict[str, Any]]


def queue_handler(queue: str) -> Handler:
    """The consumer of a queue. A message that fails comes again alone; the others of its batch are done."""
    from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    consume = CONSUMERS[queue]

    def one(record: SQSRecord) -> None:
        receives = int(record.attributes.approximate_receive_count)
        try:
            consume(runtime.bus(), json.loads(record.body), receives)
        except Exception as error:
            telemetry.failure(f"queues.{queue}", record.message_id, error)
            raise

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)

    def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        return dict(
            process_partial_response(
                event=dict(event), record_handler=one, processor=processor, context=context
            )
        )

    return handler


def stream_handler() -> Handler:
    """The dispatcher. One set of writes for the batch; when the store fails it is tried record by record, and the
    first that fails is reported: the stream begins again there."""

    def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        bus = runtime.bus()
        wanted = [(record, _effects(record)) for record in event["Records"]]
        try:
            dispatch.carry_out(bus, [effects for _, effects in wanted if effects])
        except StoreError:
            return {"batchItemFailures": _one_by_one(wanted)}
        return {"batchItemFailures": []}

    return handler


def _one_by_one(wanted: Sequence[tuple[Mapping[str, Any], Effects | None]]) -> list[dict[str, str]]:
    for record, effects in wanted:
        try:
            if effects:
                dispatch.carry_out(runtime.bus(), [effects])
        except StoreError as error:
            telemetry.incident("dispatch waits", detail=error.detail)
            return [{"itemIdentifier": str(record["dynamodb"]["SequenceNumber"])}]
    return []


def _effects(record: Mapping[str, Any]) -> Effects | None:
    """What a stream record asks for; None when it asks for nothing, or could not be read and was parked."""
    image = record["dynamodb"].get("NewImage")
    if image is None:
        return None
    new: Item = {}
    try:
        new = wire.from_wire(image)
        old_image = record["dynamodb"].get("OldImage")
        old = wire.from_wire(old_image) if old_image else None
        if not keys.is_change(Key(new["pk"], new["sk"]), old, new):
            return None
        return dispatch.effects(new, runtime.bus().clock())
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001  a poisoned record must not stop the shard: it is parked
        telemetry.failure("stream.dispatch", str(record.get("eventID")), error)
        dispatch.park(runtime.bus(), new, repr(error))
        return None


SCHEDULED: Mapping[str, Callable[[Bus], int]] = {"retain": retention.retain}
"""Work that a schedule begins: of a bus; answers how much was done."""


def schedule_handler(name: str) -> Handler:
    """What a schedule calls. What fails is tried at the next time."""
    work = SCHEDULED[name]

    def handler(_event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        return {"done": work(runtime.bus())}

    return handler
