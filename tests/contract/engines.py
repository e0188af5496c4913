"""The engines that the contract suite runs over, each fresh for every test."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.config import Config
from interlock.store.aws import open_aws, open_feed
from interlock.store.aws.clients import client
from interlock.store.aws.provision import create_resources
from interlock.store.embedded import open_embedded, open_memory
from interlock.store.ports import Blobs, Feed, Queues, Store, Table

START = 1_790_000_000_000
_REGION = "eu-central-1"
_numbers = itertools.count(os.getpid() * 1000)


@dataclass(frozen=True)
class Engine:
    """One engine under test. ``advance`` moves its clock by seconds."""

    name: str
    store: Store
    feed: Feed
    advance: Callable[[int], None]

    @property
    def table(self) -> Table:
        return self.store.table

    @property
    def queues(self) -> Queues:
        return self.store.queues

    @property
    def blobs(self) -> Blobs:
        return self.store.blobs


class Clock:
    """Milliseconds that only a test moves."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: int) -> None:
        self.now += seconds * 1000


@contextmanager
def embedded(folder: Path) -> Iterator[Engine]:
    clock = Clock()
    opened = open_embedded(folder, clock=clock)
    try:
        yield Engine("embedded", opened.store, opened.feed, clock.advance)
    finally:
        opened.close()


@contextmanager
def memory() -> Iterator[Engine]:
    clock = Clock()
    opened = open_memory(clock)
    try:
        yield Engine("memory", opened.store, opened.feed, clock.advance)
    finally:
        opened.close()


@contextmanager
def moto() -> Iterator[Engine]:
    from moto import mock_aws

    from interlock.store.aws import motolock

    motolock.install()
    clock = Clock(int(time.time() * 1000))  # moto forgets messages that are older than days of real time
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", _REGION)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.setattr("moto.sqs.models.unix_time_millis", clock)
        yield _aws("moto", Config(table="", bucket="", queue_urls={}), clock.advance)


@contextmanager
def endpoint() -> Iterator[Engine]:
    url = os.environ.get("INTERLOCK_TEST_ENDPOINT")
    if not url:
        pytest.skip("INTERLOCK_TEST_ENDPOINT names no endpoint")
    name = f"contract-{next(_numbers)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_DEFAULT_REGION", os.environ.get("AWS_DEFAULT_REGION", _REGION))
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(variable, os.environ.get(variable, "test"))
        client.cache_clear()
        try:
            yield _aws("endpoint", Config(table=name, bucket=name, queue_urls={}), time.sleep)
        finally:
            client.cache_clear()


def _aws(name: str, wanted: Config, advance: Callable[[int], None]) -> Engine:
    config = create_resources(wanted)
    return Engine(name, open_aws(config), open_feed(config), advance)
