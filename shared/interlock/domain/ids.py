"""Identifiers: a prefix and 26 lower-case Crockford base-32 characters. Never sort by one."""

from __future__ import annotations

import hashlib

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
ID_CHARACTERS = frozenset(ALPHABET)


def _base32(value: int) -> str:
    return "".join(ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


def is_id(prefix: str, text: str) -> bool:
    """Whether a text has the form of an id of this kind."""
    name, _, rest = text.partition("_")
    return name == prefix and len(rest) == 26 and ID_CHARACTERS.issuperset(rest)


def ulid(prefix: str, now: int, entropy: bytes) -> str:
    """A ULID: 48 bits of time in ms, 80 bits of entropy (10 bytes)."""
    return f"{prefix}_{_base32((now & (1 << 48) - 1) << 80 | int.from_bytes(entropy[:10], 'big'))}"


def derived(prefix: str, *parts: str) -> str:
    """The same id for the same parts: how a repeated create finds what the first one made."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return f"{prefix}_{_base32(int.from_bytes(digest[:16], 'big'))}"


def decision_id(job: str, seq: int) -> str:
    """The id of the decision that the event ``seq`` of a job asks: it says where the decision is."""
    return f"dec_{job.partition('_')[2]}_{seq}"


def job_of_decision(decision: str) -> str | None:
    """The job that a decision's id names; None when it does not have the form of one."""
    kind, _, rest = decision.partition("_")
    name, _, seq = rest.rpartition("_")
    return f"job_{name}" if kind == "dec" and name and seq.isascii() and seq.isdigit() else None
