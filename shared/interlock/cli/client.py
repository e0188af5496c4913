"""Calls of the bus over HTTP: one operation, one answer or one reason.

Repeating a call is safe: a POST carries an Idempotency-Key made once, so a lost answer is asked for again
under the same key.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from interlock import __version__
from interlock.cli.exits import LATER, LATER_STATUSES, REFUSED, CommandError, of_status, usage
from interlock.cli.settings import Settings
from interlock.domain.access import RIGHTS
from interlock.edges.operations import OPERATIONS

ATTEMPTS = 4
"""How often a call is sent before the command gives up with exit code 75."""
FIRST_PAUSE = 0.2
"""Seconds before the second attempt; each further pause is twice as long, with jitter."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts at most."""
LONGEST_WAIT = 20.0
"""Seconds: a longer Retry-After is not waited for."""
TIMEOUT = 15.0
"""Seconds until an answer must have begun."""
USER_AGENT = f"interlock-cli/{__version__}"

_ABOUT_THE_CALLER = frozenset({"system.me", "jobs.explain"})
"""Operations that tell a worker about itself: asked with its own credential."""
_OWNING = frozenset({"owner", "viewer", "installation", "anyone"})


class RefusedError(CommandError):
    """The bus answered with a problem. ``problem`` is the whole document."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.problem = dict(problem)
        self.problem_code = str(problem.get("code") or "")
        self.retry_after = retry_after
        detail = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
        # a redirect is no error status, and yet no answer
        super().__init__(of_status(status) or REFUSED, detail, str(problem.get("hint") or ""))


class UnreachableError(CommandError):
    """No answer came; whether the call took effect is not known."""

    def __init__(self, url: str, why: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(
            LATER, f"no answer from {url}: {why}", "Is the bus up? `interlock up` starts one here."
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its JSON value, its ETag, whether it repeats an earlier one, the bus's clock in ms."""

    value: dict[str, Any]
    status: int = 200
    etag: str = ""
    replayed: bool = False
    date: int | None = None


def side_of(operation: str, fence: int | None = None) -> str:
    """Whose credential an operation is called with where both are at hand: ``agent`` or ``owner``.

    The agent's for what only agents may do, for what is done under a claim, and for questions about the caller
    itself. The owner's for everything else.
    """
    workers = _OWNING.isdisjoint(RIGHTS[operation]) or operation in _ABOUT_THE_CALLER
    return "agent" if workers or fence is not None else "owner"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A credential never follows a redirect."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


OPENER = urllib.request.build_opener(_NoRedirects)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Received:
    """What came back, whatever it means. Names of ``headers`` are found in any case."""

    status: int
    headers: Message
    body: bytes


def exchange(request: urllib.request.Request) -> Received:
    """Send a request once and read its answer to the end. Raises UnreachableError."""
    try:
        try:
            answer = OPENER.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return Received(answer.status, answer.headers, answer.read())
    except urllib.error.URLError as error:
        refused = isinstance(error.reason, ConnectionRefusedError)
        why = "connection refused" if refused else str(error.reason)
        raise UnreachableError(_origin(request), why, sent=not refused) from None
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(_origin(request), str(error) or type(error).__name__, sent=True) from None


def patiently(
    send: Callable[[], _T],
    *,
    safe: bool,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], object] = time.sleep,
) -> _T:
    """Send; send again what may be sent again. ``safe``: also when the first one may have taken effect."""
    for attempt in range(1, attempts + 1):
        pause = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE)
        pause *= random.uniform(0.7, 1.3)  # noqa: S311 - jitter, not a secret
        try:
            return send()
        except RefusedError as problem:
            if problem.status not in LATER_STATUSES or attempt == attempts:
                raise
            pause = max(pause, problem.retry_after or 0)
            if pause > LONGEST_WAIT:
                raise
        except UnreachableError as silence:
            if attempt == attempts or (silence.sent and not safe):
                raise
        sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def refusal(received: Received) -> RefusedError:
    """An answer that refuses, as an error; a body that is no problem document is told by its status."""
    problem = _document(received.body) or {}
    problem.setdefault("status", received.status)
    if "detail" not in problem:
        problem["detail"] = str(problem.pop("message", "") or f"HTTP status {received.status}")
    wait = (received.headers.get("Retry-After") or "").strip()
    return RefusedError(received.status, problem, float(wait) if wait.isdigit() else None)


def bearer(settings: Settings, side: str) -> str:
    """The credential of a side, as it can be sent. Raises CommandError when there is none."""
    token = settings.token(side)
    if not token:
        raise CommandError(
            of_status(401),
            "no credential is known here",
            "Set INTERLOCK_TOKEN, use --token-stdin, or run where .interlock/credentials.json stands.",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(of_status(401), "the credential is not one line of printable ASCII")
    return token


@dataclass(slots=True)
class Client:
    """Speaks to one bus. ``side`` None picks the credential by :func:`side_of`.

    ``key`` is the Idempotency-Key of this invocation's POSTs. ``sleep`` waits between attempts.
    """

    settings: Settings
    side: str | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempts: int = ATTEMPTS
    sleep: Callable[[float], object] = time.sleep

    def call(
        self,
        operation: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        if_match: str | None = None,
        key: str | None = None,
        side: str | None = None,
        path: Mapping[str, str] | None = None,
    ) -> Reply:
        """Carry out one operation; ``path`` fills the names in its path. Raises RefusedError or UnreachableError.

        ``side`` is whose call it is by its meaning, where the operation alone does not tell.
        """
        row = OPERATIONS[operation]
        side = self.side or side or side_of(operation, body.get("fence") if body else None)
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if "anyone" not in RIGHTS[operation]:
            headers["Authorization"] = f"Bearer {bearer(self.settings, side)}"
        if row.keyed:
            headers["Idempotency-Key"] = key or self.key
        if if_match:
            headers["If-Match"] = if_match
        data = None
        if row.method in {"POST", "PATCH"}:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body or {}).encode("ascii")
        url = self.settings.url + self._path(row.path, path or {}) + _query(query)
        request = urllib.request.Request(url, data, headers, method=row.method)  # noqa: S310 - settings admit http(s) only
        return patiently(
            lambda: _reply(exchange(request)),
            safe=row.method == "GET" or row.keyed,
            attempts=self.attempts,
            sleep=self.sleep,
        )

    def pages(
        self, operation: str, query: Mapping[str, Any] | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Every page of a list; ``more`` as for :meth:`call`."""
        asked = dict(query or {})
        while True:
            page = self.call(operation, query=asked, **more).value
            yield page
            if not page.get("next_cursor"):
                return
            asked["cursor"] = page["next_cursor"]

    def items(
        self, operation: str, query: Mapping[str, Any] | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Every item of a list, read page by page."""
        for page in self.pages(operation, query, **more):
            yield from page["items"]

    def _path(self, template: str, params: Mapping[str, str]) -> str:
        values = {"project": self.settings.project, **params}
        for name, value in values.items():
            if value in {"", ".", ".."}:
                raise usage(f"not the id of a {name}: {value!r}")
        return template.format(**{name: quote(value, safe="") for name, value in values.items()})


def _query(query: Mapping[str, Any] | None) -> str:
    pairs = [
        (name, text)
        for name, value in (query or {}).items()
        if value is not None
        for text in (value if isinstance(value, list | tuple) else [value])
    ]
    return "?" + urlencode(pairs, errors="surrogatepass") if pairs else ""


def _origin(request: urllib.request.Request) -> str:
    return f"{request.type}://{request.host}"


def _reply(received: Received) -> Reply:
    if received.status >= 300:  # a redirect is no answer either
        raise refusal(received)
    value = _document(received.body)
    if value is None:
        raise RefusedError(
            502, {"detail": "the answer is not a JSON object", "hint": "Is this the address of a bus?"}
        )
    headers = received.headers
    replayed = (headers.get("Idempotency-Replayed") or "").lower() == "true"
    return Reply(value, received.status, headers.get("ETag") or "", replayed, _date(headers.get("Date")))


def _document(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _date(text: str | None) -> int | None:
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000) if text else None
    except ValueError:
        return None
