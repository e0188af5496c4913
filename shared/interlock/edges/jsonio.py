"""JSON at the edge: a strict reader, a writer, canonical text, and sizes.

The reader refuses what two readers could understand differently: repeated keys, NaN and Infinity, numbers beyond
a double, integers above 1,000 digits, depth above 64, bytes that are not UTF-8. It keeps key order, NUL and lone
surrogates.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from interlock.domain import limits
from interlock.domain.ledger import canonical
from interlock.errors import InterlockError

_ascii = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
# A whole string (or what is left of the text when it does not end), or one bracket: one pass, whatever is sent.
_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def read(data: bytes) -> Any:
    """The value of a JSON text. Raises malformed_json, duplicate_key or too_large (its depth)."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InterlockError("malformed_json", f"byte {error.start} is not UTF-8") from None
    _check_depth(text)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InterlockError(
            "malformed_json", f"{error.msg.removesuffix(' at')} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InterlockError:
    return InterlockError("malformed_json", f"it nests deeper than {limits.JSON_DEPTH} levels")


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= limits.JSON_DEPTH:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        depth += 1 if first in "[{" else -1 if first in "]}" else 0
        if depth > limits.JSON_DEPTH:
            raise _too_deep()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InterlockError("duplicate_key", f"key {json.dumps(quoted(name))} appears twice")
            seen.add(name)
    return found


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > limits.INTEGER_DIGITS:
        raise InterlockError("malformed_json", f"an integer has more than {limits.INTEGER_DIGITS} digits")
    return int(digits)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InterlockError("malformed_json", f"the number {text[:40]} is beyond a double")
    return value


def _constant(name: str) -> NoReturn:
    raise InterlockError("malformed_json", f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def write(value: Any) -> str:
    """JSON text in ASCII: lone surrogates and every other character survive any transport."""
    return _ascii(value)


def digest(value: Any) -> bytes:
    """SHA-256 of the canonical JSON: how two bodies are compared."""
    return hashlib.sha256(canonical(value)).digest()


def size(value: Any) -> int:
    """Bytes of the value as compact UTF-8 JSON, the measure of every size limit."""
    return len(_compact(value).encode("utf-8", "surrogatepass"))


def clean(text: str) -> str:
    """Text with lone surrogates replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def quoted(text: str) -> str:
    """A caller's own text as an error repeats it: readable and not longer than needed."""
    cut = text if len(text) <= limits.QUOTED_CHARACTERS else text[: limits.QUOTED_CHARACTERS] + "…"
    return clean(cut)


def pointer(parts: Iterable[object]) -> str:
    """A path into a document: a JSON Pointer without the leading slash."""
    return "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in parts)
