"""The engine on AWS, or on anything else that speaks its protocols: DynamoDB, Streams, SQS and S3."""

from __future__ import annotations

from interlock.config import Config
from interlock.store.aws.blobs import S3Blobs
from interlock.store.aws.feed import StreamFeed
from interlock.store.aws.queue import SqsQueues
from interlock.store.aws.table import DynamoTable
from interlock.store.ports import Store

__all__ = ["open_aws", "open_feed"]


def open_aws(config: Config) -> Store:
    """The store that a configuration names. Nothing is loaded or called before its first use."""
    return Store(DynamoTable(config.table), SqsQueues(config.queue_urls), S3Blobs(config.bucket))


def open_feed(config: Config) -> StreamFeed:
    """The table's change feed, for a process that dispatches by itself. One reader per table."""
    return StreamFeed(config.table)
