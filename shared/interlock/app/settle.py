"""How a use case changes the head that it was called on.

A repeat is found before anything else is judged; then the version that the caller names, then ``check`` (the claim),
then ``decision`` (the status and the rules); then one write. After a lost race all of it happens again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from interlock.app import repeats, write
from interlock.app.call import Call
from interlock.domain.job import Change, Job
from interlock.domain.lifecycle import HELD
from interlock.errors import InterlockError
from interlock.store import conditions
from interlock.store.conditions import Condition
from interlock.store.items import Head
from interlock.store.ports import TransactionPart

H = TypeVar("H", bound=Head)


def settle(
    call: Call,
    head: H,
    decision: Callable[[H], Change | None],
    *,
    check: Callable[[H], None] | None = None,
    implied: bytes | None = None,
    parts: Callable[[H], Sequence[TransactionPart]] = lambda _: (),
    reads_on: bool = False,
) -> tuple[H, bool]:
    """Change ``head`` by ``decision``; answers (the head as written, whether this call was a repeat).

    A decision of None changes nothing. ``implied`` is the key of a call that repeats itself by its content.
    ``parts`` answers what joins the head's write in one transaction, asked after ``decision``. ``reads_on``: the
    decision reads what is written together with the head. What it finds may be later than the head, even this very
    call's own doing, so that neither a refusal nor a None counts once the head has moved.
    """
    remember = repeats.to_remember(call)
    if implied is not None:
        remember += (repeats.digest(implied, call.body_hash),)
    repeated = False

    def require_unmoved(found: H) -> None:
        if reads_on and write.reload(call.bus, found).version != found.version:
            raise write.Lost

    def attempt(found: H) -> H:
        nonlocal repeated
        repeated = repeats.is_repeat(call, found.ops) or (implied is not None and remember[-1] in found.ops)
        if repeated:
            return found
        if call.if_match is not None and call.if_match != found.version:
            raise InterlockError("version_mismatch", f"it is at v{found.version}")
        if check:
            check(found)
        try:
            change = decision(found)
        except InterlockError:
            require_unmoved(found)
            raise
        if change is None:
            require_unmoved(found)
            return found
        return write.change(
            call.bus,
            found,
            call.actor,
            call.now,
            change,
            condition=_relied_on(found),
            remember=remember,
            parts=parts(found),
        )

    written = write.decide(lambda again: write.reload(call.bus, head) if again else head, attempt)
    return written, repeated


def _relied_on(head: Head) -> Condition:
    if isinstance(head, Job) and head.status in HELD and head.assignee:
        return conditions.held(head.assignee, head.fence, head.version, HELD)
    return conditions.unchanged(head.version)
