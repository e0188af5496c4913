"""The engines that the contract suite runs over, each fresh for every test."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from interlock.config import Config
from interlock.errors import InterlockError
from interlock.local.door import Door
from interlock.store.aws import open_aws, open_feed
from interlock.store.aws.clients import client
from interlock.store.aws.provision import create_resources
from interlock.store.embedded import open_embedded, open_memory
from interlock.store.embedded.uploads import Served
from interlock.store.ports import Blobs, Feed, Queues, Store, Table, Upload

START = 1_790_000_000_000
_REGION = "eu-central-1"
_numbers = itertools.count(os.getpid() * 1000)


@dataclass(frozen=True)
class Engine:
    """One engine under test. ``advance`` moves its clock by seconds.

    ``send`` carries out an upload with these bytes and answers the HTTP status; ``fetch`` answers status, headers and
    bytes of a download.
    """

    name: str
    store: Store
    feed: Feed
    advance: Callable[[int], None]
    send: Callable[[Upload, bytes], int]
    fetch: Callable[[str], tuple[int, dict[str, str], bytes]]

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
        yield Engine("embedded", opened.store, opened.feed, clock.advance, *_through(opened.blobs))
    finally:
        opened.close()


@contextmanager
def memory() -> Iterator[Engine]:
    clock = Clock()
    opened = open_memory(clock)
    try:
        yield Engine("memory", opened.store, opened.feed, clock.advance, *_through(opened.blobs))
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
    return Engine(name, open_aws(config), open_feed(config), advance, _send, _fetch)


def _send(upload: Upload, data: bytes) -> int:
    return requests.request(
        upload.method, upload.url, data=data, headers=dict(upload.headers), timeout=20
    ).status_code


def _fetch(url: str) -> tuple[int, dict[str, str], bytes]:
    answer = requests.get(url, timeout=20)
    return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content


def _through(blobs: Served) -> tuple[Any, Any]:
    """Uploads and downloads through the door that a local server has, without the server."""
    door = Door(blobs)

    def target(url: str) -> str:
        return "/" + url.split("/", 3)[3]

    def send(upload: Upload, data: bytes) -> int:
        arriving = door.begin(target(upload.url), len(data))
        try:
            arriving.append(data)
            return int(door.end(arriving)["statusCode"])
        except InterlockError as refusal:
            return refusal.status
        finally:
            arriving.close()

    def fetch(url: str) -> tuple[int, dict[str, str], bytes]:
        try:
            answer = door.answer("GET", target(url))
        except InterlockError as refusal:
            return refusal.status, {}, b""
        with answer["body"].file as file:
            return answer["statusCode"], answer["headers"], file.read()

    return send, fetch
