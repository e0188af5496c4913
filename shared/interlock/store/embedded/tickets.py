"""Addresses of single objects, signed by the bus: who has one may store or read that object, until it expires."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from interlock.errors import InterlockError

PATH = "/blobs/"
"""Where the local server answers these addresses."""
_KEY = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*")
_AGAIN = "Ask the bus for a new address; it can be changed in nothing."


@dataclass(frozen=True, slots=True)
class Ticket:
    """What an address allows: ``PUT`` of ``size`` bytes with this SHA-256, or ``GET`` as a file of this name."""

    method: str
    key: str
    expires: int
    """ms since 1970."""
    size: int = 0
    sha256: str = ""
    name: str = ""

    def fields(self) -> list[tuple[str, str]]:
        """What the address says beside method and key."""
        said = [("expires", str(self.expires))]
        if self.method == "PUT":
            return [*said, ("size", str(self.size)), ("sha256", self.sha256)]
        return [*said, ("name", self.name)]


class Tickets:
    """Makes addresses and reads them. ``secret`` answers the key that signs; it is asked for at first use."""

    def __init__(self, secret: Callable[[], bytes], clock: Callable[[], int]) -> None:
        self._secret = secret
        self._clock = clock

    def expiry(self, seconds: int) -> int:
        """The end of an address that is made now, in ms."""
        return self._clock() + seconds * 1_000

    def url(self, base: str, ticket: Ticket) -> str:
        """The address, on the bus that is found at ``base``."""
        query = urlencode([*ticket.fields(), ("signature", self._signature(ticket))])
        return f"{base}{PATH}{quote(ticket.key)}?{query}"

    def read(self, method: str, target: str) -> Ticket:
        """The ticket of a request's method and target (path and query). 403 when it is forged or over.

        HEAD counts as GET.
        """
        path, _, query = target.partition("?")
        ticket, signature = _said("GET" if method == "HEAD" else method, unquote(path), query)
        if not hmac.compare_digest(signature.encode(), self._signature(ticket).encode()):
            raise _refused("the address was not made by this bus, or not for this")
        if ticket.expires <= self._clock():
            raise _refused("the address has expired")
        return ticket

    def _signature(self, ticket: Ticket) -> str:
        text = "\n".join((ticket.method, ticket.key, urlencode(ticket.fields())))
        return hmac.new(self._secret(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _said(method: str, path: str, query: str) -> tuple[Ticket, str]:
    """(what an address claims to allow, its signature)."""
    key = path.removeprefix(PATH)
    fields = dict(parse_qsl(query, keep_blank_values=True))
    try:
        numbers = {name: int(fields.get(name, "0")) for name in ("expires", "size")}
    except ValueError:
        raise _refused("the address is none of this bus") from None
    if not path.startswith(PATH) or not _KEY.fullmatch(key) or "signature" not in fields:
        raise _refused("the address is none of this bus")
    texts = {name: fields.get(name, "") for name in ("sha256", "name")}
    return Ticket(method, key, numbers["expires"], numbers["size"], **texts), fields["signature"]


def _refused(detail: str) -> InterlockError:
    return InterlockError("forbidden", detail, hint=_AGAIN)
