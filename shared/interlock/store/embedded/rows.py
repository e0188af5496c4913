"""Items as rows: JSON text for what is readable, raw bytes beside it for what is not.

The attributes that are bytes (payloads, digests) go into ``raw`` one after the other and the text lists their
names and lengths under the empty name, which no attribute can have. Bytes deeper inside an item are rare and
are written as ``{"": base64}``.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from interlock.store.ports import Item
from interlock.store.rules import check_size

_KEY = ("pk", "sk")
_META = ""
_RAW, _NESTED = "raw", "nested"
_CERTAINLY_SMALL = 90 * 1024
"""Text and bytes below this many characters cannot exceed an item's limit, whatever the characters are."""


class Row(NamedTuple):
    """The columns of an item beside its primary key; an index that lacks one of its two keys has neither."""

    g1pk: str | None
    g1sk: str | None
    g2pk: str | None
    g2sk: str | None
    expires: int | None
    data: str
    raw: bytes | None


class _NestedBytesError(Exception):
    pass


def _refuse(_: Any) -> Any:
    raise _NestedBytesError


def _nested_bytes(value: bytes) -> dict[str, str]:
    return {_META: base64.b64encode(value).decode("ascii")}


_plain = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_refuse
).encode
_with_bytes = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_nested_bytes
).encode


def encode(item: Item) -> Row:
    """The row of a whole item. The item's values are those that :func:`interlock.store.rules.copied` makes."""
    body: dict[str, Any] = {}
    lengths: list[tuple[str, int]] = []
    raws: list[bytes] = []
    for name, value in item.items():
        if type(value) is bytes:
            lengths.append((name, len(value)))
            raws.append(value)
        elif name not in _KEY:
            body[name] = value
    if lengths:
        body[_META] = {_RAW: lengths}
    try:
        data = _plain(body)
    except _NestedBytesError:
        body[_META] = {_RAW: lengths, _NESTED: True}
        data = _with_bytes(body)
    raw = b"".join(raws) if raws else None
    if len(data) + len(raw or b"") > _CERTAINLY_SMALL:
        check_size(item)
    get = item.get
    g1pk, g1sk, g2pk, g2sk = get("g1pk"), get("g1sk"), get("g2pk"), get("g2sk")
    if g1pk is None or g1sk is None:
        g1pk = g1sk = None
    if g2pk is None or g2sk is None:
        g2pk = g2sk = None
    return Row(g1pk, g1sk, g2pk, g2sk, get("expires"), data, raw)


def decode(pk: str, sk: str, data: str, raw: bytes | None) -> Item:
    """The item of a row."""
    item: Item = {"pk": pk, "sk": sk}
    body = json.loads(data)
    meta = body.pop(_META, None)
    if meta is not None:
        if _NESTED in meta:
            body = json.loads(data, object_hook=_revive)
            del body[_META]
        offset = 0
        for name, length in meta[_RAW]:
            item[name] = raw[offset : offset + length] if raw else b""
            offset += length
    item.update(body)
    return item


def _revive(value: dict[str, Any]) -> Any:
    if len(value) == 1 and isinstance(value.get(_META), str):
        return base64.b64decode(value[_META])
    return value
