"""Files on their way to an artifact and back: hashed, sent to the address that the bus gave, fetched and compared.

A credential is never sent along: the address itself is the permission.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from interlock.cli import screen
from interlock.cli.client import ATTEMPTS, FIRST_PAUSE, OPENER, Client, RefusedError, UnreachableError
from interlock.cli.exits import LATER_STATUSES, REFUSED, CommandError, usage
from interlock.cli.screen import Step
from interlock.domain.files import safe_name

TIMEOUT = 300.0
"""Seconds without a byte in either direction. A large upload is made durable before it is answered."""
_BLOCK = 1 << 20
_MESSAGE = re.compile(rb"<Message>([^<]{1,500})</Message>")


def described(file: Path, name: str | None) -> dict[str, Any]:
    """What is announced of a file: name, size, SHA-256."""
    try:
        size = file.stat().st_size
        if not file.is_file() or not size:
            raise usage(f"{file} is {'empty' if file.is_file() else 'not a file'}")
        found = hashlib.sha256()
        with file.open("rb") as data, screen.bar("reading", size) as step:
            for block in _blocks(data, step):
                found.update(block)
    except OSError as error:
        raise usage(f"cannot read {file}: {error.strerror}") from error
    return {"name": name or file.name, "size": size, "sha256": found.hexdigest()}


def attach(client: Client, job: str, body: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Announce an upload, send it, have it verified; answers the verified artifact.

    An upload whose answer was lost may have arrived: then the verification tells.
    """
    made = client.call("jobs.attach", body, path={"job": job}).value
    trouble = _send_patiently(client, made["upload"], file, body["size"]) if "upload" in made else None
    fence = {"fence": body["fence"]} if "fence" in body else {}
    try:
        where = {"job": job, "artifact": made["artifact"]["id"]}
        return client.call("jobs.verify", fence, path=where).value
    except RefusedError:
        if trouble is not None:
            raise trouble from None
        raise


def _send_patiently(client: Client, upload: Mapping[str, Any], file: Path, size: int) -> CommandError | None:
    """Send; send again what found no answer. Answers why it is not known to have arrived, if it is not."""
    for attempt in range(ATTEMPTS):
        try:
            _send(upload, file, size)
        except RefusedError as refusal:
            if refusal.status == 412:  # an earlier attempt has arrived
                return None
            if refusal.status not in LATER_STATUSES:
                raise
            trouble: CommandError = refusal
        except UnreachableError as silence:
            trouble = silence
        else:
            return None
        if attempt + 1 < ATTEMPTS:
            client.sleep(FIRST_PAUSE * 2**attempt)
    return trouble


def _send(upload: Mapping[str, Any], file: Path, size: int) -> None:
    headers = {"content-type": "application/octet-stream", **upload["headers"]}
    with file.open("rb") as data, screen.bar("uploading", size) as step:
        request = _request(upload["url"], _blocks(data, step), headers, upload["method"])
        with _answered(request):
            pass


def fetch(answer: Mapping[str, Any], to: Path) -> Path:
    """Download what an artifact's answer offers, compare it, and save it; answers where. Nothing half-way is left."""
    artifact = answer["artifact"]
    if "download" not in answer:
        raise CommandError(
            REFUSED,
            f"there is nothing to download: the artifact is {artifact['state']}",
            f"It is at {artifact['uri']}." if artifact["state"] == "referenced" else "",
        )
    target = to / safe_name(artifact["name"], artifact["id"]) if to.is_dir() else to
    request = _request(answer["download"]["url"])
    try:
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".interlock-")
    except OSError as error:
        raise usage(f"cannot write in {target.parent}: {error.strerror}") from error
    try:
        found = hashlib.sha256()
        bar = screen.bar("downloading", artifact["size"])
        with os.fdopen(handle, "wb") as saved, _answered(request) as data, bar as step:
            for block in _blocks(data, step):
                found.update(block)
                saved.write(block)
        if found.hexdigest() != artifact["sha256"]:
            raise CommandError(REFUSED, "what came is not what was verified; nothing was saved")
        os.replace(partial, target)
    except OSError as error:
        raise usage(f"cannot write {target}: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    return target


def _blocks(data: IO[bytes], step: Step) -> Iterator[bytes]:
    while block := data.read(_BLOCK):
        yield block
        step(len(block))


def _request(
    url: str, data: Any = None, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> urllib.request.Request:
    if urlsplit(url).scheme not in ("http", "https"):
        raise CommandError(REFUSED, "the bus gave an address that is neither http nor https")
    return urllib.request.Request(url, data, dict(headers or {}), method=method)  # noqa: S310 - just checked


@contextlib.contextmanager
def _answered(request: urllib.request.Request) -> Iterator[IO[bytes]]:
    try:
        with OPENER.open(request, timeout=TIMEOUT) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            raise RefusedError(error.code, _problem(error)) from None
    except urllib.error.URLError as error:
        raise _silence(request, error.reason) from None
    except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
        raise _silence(request, error) from None


def _silence(request: urllib.request.Request, why: object) -> UnreachableError:
    return UnreachableError(f"{request.type}://{request.host}", str(why) or type(why).__name__, sent=True)


def _problem(error: urllib.error.HTTPError) -> dict[str, Any]:
    """What was answered, whoever answered: the bus in JSON, S3 in XML."""
    raw = error.read(_BLOCK)
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(raw)
        if isinstance(found, dict):
            return found
    said = _MESSAGE.search(raw)
    text = said[1].decode("utf-8", "replace") if said else ""
    return {"status": error.code, "detail": f"HTTP status {error.code}" + (f": {text}" if text else "")}
