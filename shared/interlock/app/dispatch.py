"""The dispatcher: the table's change feed is the only outbox.

It copies the events of changed heads to ledger rows and sends the messages that they call for. It never writes heads.
A record that it cannot read is parked with its events, so that redrive loses nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.app import messages
from interlock.app.call import Bus
from interlock.domain import outbox
from interlock.domain.outbox import Message
from interlock.store import conditions, items, keys
from interlock.store.ports import Item, Key, Put

PARKED = "dispatch-dead"


@dataclass(frozen=True, slots=True)
class Effects:
    """What one changed head asks for."""

    rows: tuple[Put, ...]
    messages: tuple[Message, ...]


def effects(new: Item, written_at: int, *, everything: bool = False) -> Effects:
    """Ledger rows of a head's latest events, and the messages they call for (or all that the head implies)."""
    events = items.unpack(new["events"])
    rows = tuple(_row(new["pk"], event, written_at) for event in events)
    wanted = outbox.messages(items.read(new), None if everything else events)
    return Effects(rows, tuple(wanted))


def _row(pk: str, event: Mapping[str, Any], written_at: int) -> Put:
    row = items.log_row(pk, event, written_at)
    return Put(Key(pk, row["sk"]), row, conditions.absent())


def carry_out(bus: Bus, wanted: Sequence[Effects]) -> None:
    """Write the rows (each only where it is absent) and send the messages. Safe to repeat."""
    rows = [row for effect in wanted for row in effect.rows]
    if rows:
        bus.store.table.write_each(rows)
    messages.send(bus, [message for effect in wanted for message in effect.messages])


def park(bus: Bus, new: Mapping[str, Any], why: str) -> None:
    """Set a record aside: keys, version, and its events as they stood in the head."""
    events = new.get("events")
    body = {
        "pk": new.get("pk"),
        "sk": new.get("sk"),
        "version": new.get("version"),
        "events": base64.b64encode(events).decode() if isinstance(events, bytes) else None,
        "why": why[:200],
    }
    bus.store.queues.send(PARKED, [(body, 0)])


def redrive(bus: Bus, body: Mapping[str, Any]) -> None:
    """Handle a parked record again: its own events first, then what the present head implies.

    Nothing comes of one whose entity went to the archive meanwhile, with all of its events.
    """
    pk, now = body["pk"], bus.clock()
    if bus.store.table.get(Key(pk, keys.HEAD)) is None:
        return
    if body.get("events"):
        events = items.unpack(base64.b64decode(body["events"]))
        bus.store.table.write_each([_row(pk, event, now) for event in events])
    repair(bus, pk)


def repair(bus: Bus, pk: str) -> bool:
    """Send again everything that an entity's present head implies; False when there is no head."""
    head = bus.store.table.get(Key(pk, keys.HEAD))
    if head is None:
        return False
    carry_out(bus, [effects(head, bus.clock(), everything=True)])
    return True
