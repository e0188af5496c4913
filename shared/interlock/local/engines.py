"""The three engines that `interlock up` runs on, and how its loops wait on each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from interlock import config
from interlock.local.loops import POLL_SECONDS, Every, Idle, OnSignal
from interlock.store.embedded.blobs import FolderBlobs
from interlock.store.embedded.uploads import Served
from interlock.store.ports import Blobs, Feed, Store

ENGINES = ("embedded", "moto", "aws")


class EngineError(Exception):
    """The engine cannot be opened; the text names the way out."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An open engine.

    ``idle`` makes what a loop waits with: for a queue by name, or for the change feed (None). ``ours`` means that
    nobody else serves this store, so that leases may be moved on after this process was away. ``sweep`` deletes
    expired items, where the store does not do so by itself, and answers how many. ``served`` are blobs whose uploads
    and downloads come to this process.
    """

    store: Store
    feed: Feed
    idle: Callable[[str | None], Idle]
    ours: bool
    close: Callable[[], None]
    sweep: Callable[[], int] | None = None
    served: Served | None = None


def open_engine(name: str, folder: Path, clock: Callable[[], int]) -> Engine:
    """Open an engine by name. Raises EngineError, and StoreError when the store itself fails."""
    return {"embedded": _embedded, "moto": _moto, "aws": _aws}[name](folder, clock)


def _embedded(folder: Path, clock: Callable[[], int]) -> Engine:
    from interlock.store.embedded import open_embedded

    opened = open_embedded(folder, clock=clock)

    def idle(queue: str | None) -> Idle:
        if queue is None:
            return OnSignal(opened.engine.changed, lambda: None, clock)
        return OnSignal(opened.engine.queued[queue], lambda: opened.queues.next_due(queue), clock)

    return Engine(
        opened.store,
        opened.feed,
        idle,
        ours=True,
        close=opened.close,
        sweep=opened.sweep,
        served=opened.blobs,
    )


def _moto(_folder: Path, clock: Callable[[], int]) -> Engine:
    """AWS in this process's memory, uploads in a folder of their own; nothing outlives it."""
    try:
        from moto import mock_aws

        from interlock.store.aws import motolock, open_aws, open_feed, provision
        from interlock.store.aws.clients import client
    except ImportError as missing:
        raise EngineError(
            f"the moto engine needs {missing.name}: install interlock-bus[moto], "
            "or leave --engine out for the embedded one"
        ) from missing
    os.environ.pop("AWS_ENDPOINT_URL", None)
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    motolock.install()
    mock = mock_aws()
    mock.start()
    client.cache_clear()
    made = provision.create_resources(config.Config("", "", {}))
    uploads = tempfile.TemporaryDirectory(prefix="interlock-uploads-", ignore_cleanup_errors=True)
    blobs = _Beside(open_aws(made).blobs, FolderBlobs(Path(uploads.name), clock))

    def close() -> None:
        client.cache_clear()
        mock.stop()
        uploads.cleanup()

    store = replace(open_aws(made), blobs=blobs)
    return Engine(
        store, open_feed(made), lambda _: Every(POLL_SECONDS), ours=True, close=close, served=blobs.uploads
    )


class _Beside:
    """Payloads in moto's S3, uploads in a folder: an address that moto signs leads to AWS, which knows nothing of it."""

    def __init__(self, payloads: Blobs, uploads: Served) -> None:
        self.put, self.get = payloads.put, payloads.get
        self.uploads = uploads
        self.upload, self.download = uploads.upload, uploads.download
        self.stat, self.keep = uploads.stat, uploads.keep


def _aws(_folder: Path, _clock: Callable[[], int]) -> Engine:
    """A store that exists already, on AWS or wherever AWS_ENDPOINT_URL leads."""
    given = config.load()
    needed = {
        "INTERLOCK_TABLE": given.table,
        "INTERLOCK_BUCKET": given.bucket,
        **{config.queue_variable(queue): given.queue_urls.get(queue) for queue in config.QUEUES},
    }
    missing = [variable for variable, value in needed.items() if not value]
    if missing:
        raise EngineError(
            f"the aws engine is told its table, bucket and queues by {', '.join(missing)}; set them"
        )
    try:
        import botocore.session  # noqa: F401  to say now what is missing, not at the first request
    except ImportError as problem:
        raise EngineError("the aws engine needs boto3: install interlock-bus[aws]") from problem
    from interlock.store.aws import open_aws, open_feed

    return Engine(
        open_aws(given), open_feed(given), lambda _: Every(POLL_SECONDS), ours=False, close=lambda: None
    )
