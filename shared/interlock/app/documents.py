"""Payloads: compressed JSON in an item, or in a blob when it is large. Content-addressed and never changed."""

from __future__ import annotations

import hashlib
from typing import Any

from interlock.app.call import Bus
from interlock.domain import limits
from interlock.errors import StoreError
from interlock.store import items, keys
from interlock.store.ports import Item, Key


def content_hash(value: Any) -> str:
    """The name of a document among those of its job."""
    return hashlib.sha256(items.pack(value)).hexdigest()[:20]


def attributes(bus: Bus, pk: str, value: Any) -> Item:
    """The attributes that carry a document; its bytes are stored first when they go to a blob."""
    packed = items.pack(value)
    if len(packed) <= limits.BLOB_BYTES:
        return {"doc": packed}
    scope, _, entity = keys.entity_of(pk)
    name = f"documents/{scope}/{entity}/{hashlib.sha256(packed).hexdigest()}"
    bus.store.blobs.put(name, packed)
    return {"blob": name}


def read(bus: Bus, item: Item) -> Any:
    """The document that an item carries. StoreError when its blob is not there."""
    if "doc" in item:
        return items.unpack(item["doc"])
    packed = bus.store.blobs.get(item["blob"])
    if packed is None:
        raise StoreError(detail="a stored document is missing")
    return items.unpack(packed)


def item(bus: Bus, key: Key, value: Any) -> Item:
    """A whole item that carries a document."""
    return {"pk": key.pk, "sk": key.sk, **attributes(bus, key.pk, value)}
