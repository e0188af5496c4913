"""Safe repeats: how a head remembers the calls that it answered.

A digest is 16 bytes: 8 of the call (actor, operation, object, Idempotency-Key), 8 of the canonical body.
"""

from __future__ import annotations

import hashlib

from interlock.app.call import Call
from interlock.errors import InterlockError

_HALF = 8


def digest(key: bytes, body_hash: bytes) -> bytes:
    """What is remembered of a call."""
    return key[:_HALF] + body_hash[:_HALF]


def implied_key(call: Call, fence: int) -> bytes:
    """The key of a call that sent none but is a repeat by its content: actor, operation and fence."""
    return hashlib.sha256(f"{call.actor.reference}\0{call.operation}\0{fence}".encode()).digest()


def is_repeat(call: Call, ops: tuple[bytes, ...]) -> bool:
    """Whether the head has answered this call already. Raises ``idempotency_mismatch`` for another body."""
    if call.key is None:
        return False
    for known in ops:
        if known[:_HALF] == call.key[:_HALF]:
            if known[_HALF:] != call.body_hash[:_HALF]:
                raise InterlockError("idempotency_mismatch")
            return True
    return False


def to_remember(call: Call) -> tuple[bytes, ...]:
    """The digests that the call's write leaves on the head."""
    return () if call.key is None else (digest(call.key, call.body_hash),)
