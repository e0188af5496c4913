"""The engines behind `interlock up`; the embedded one is what the other tests run on."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import config
from interlock.local import up
from interlock.local.bus import LocalBus, Settings
from interlock.local.engines import EngineError, open_engine
from interlock.local.pulse import NOTE
from interlock.store.aws import motolock, provision
from interlock.store.aws.clients import client
from interlock.store.ports import Key, Put

NAMES = ("INTERLOCK_TABLE", "INTERLOCK_BUCKET", *map(config.queue_variable, config.QUEUES))


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment without names of resources, and no memory of the one before."""
    for name in (*NAMES, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    config.load.cache_clear()
    yield monkeypatch
    config.load.cache_clear()
    client.cache_clear()


def test_the_aws_engine_says_what_it_must_be_told(named: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as refused:
        open_engine("aws", tmp_path, lambda: 0)
    for name in NAMES:
        assert name in str(refused.value)


def test_the_moto_engine_says_what_is_missing(named: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named.setitem(sys.modules, "moto", None)
    with pytest.raises(EngineError, match=r"interlock-bus\[moto\]"):
        open_engine("moto", tmp_path, lambda: 0)


def call(bus: LocalBus, method: str, path: str, body: Any = None) -> Any:
    port = int(bus.url.rpartition(":")[2])
    headers = {
        "Authorization": f"Bearer {bus.credentials.agent_token}",
        "Content-Type": "application/json",
    }
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status < 300, answer
        return answer


def test_the_aws_engine_serves_a_store_that_exists(named: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from moto import mock_aws

    named.setenv("AWS_DEFAULT_REGION", "us-east-1")
    motolock.install()
    client.cache_clear()
    with mock_aws():
        made = provision.create_resources(config.Config("", "", {}))
        named.setenv("INTERLOCK_TABLE", made.table)
        named.setenv("INTERLOCK_BUCKET", made.bucket)
        for queue, url in made.queue_urls.items():
            named.setenv(config.queue_variable(queue), url)
        with LocalBus(Settings(data=tmp_path, port=0, engine="aws")) as bus:
            jobs = "/v1/projects/default/jobs"
            job = call(bus, "POST", jobs, {"summary": "Work", "role": "qa"})["job"]["id"]
            fence = call(bus, "POST", "/v1/projects/default/claims", {"roles": ["qa"]})["claim"]["fence"]
            done = call(bus, "POST", f"{jobs}/{job}/complete", {"fence": fence})["job"]
            assert done["status"] == "completed"
            assert bus.bus.store.table.get(NOTE) is None  # others may serve it: whether we slept says nothing


@pytest.mark.parametrize("options", [{"engine": "postgres"}, {"log": "xml"}])
def test_unknown_choices_are_usage(options: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert up.run(**options) == 2  # type: ignore[arg-type]
    assert "embedded, moto, aws" in capsys.readouterr().err


def test_the_embedded_engine_forgets_what_has_expired(tmp_path):
    now = [1_000_000]
    engine = open_engine("embedded", tmp_path, lambda: now[0])
    key = Key("p#idem#x", "CALL")
    engine.store.table.write(Put(key, {"pk": key.pk, "sk": key.sk, "expires": 2_000}))
    assert engine.sweep() == 0
    now[0] = 2_001_000
    assert engine.sweep() == 1
    assert engine.store.table.get(key) is None
    engine.close()
