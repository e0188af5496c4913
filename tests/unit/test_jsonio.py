"""The strict JSON reader and its writer."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.edges import jsonio
from interlock.errors import InterlockError

free = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**999), 10**999)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet=st.characters(codec=None)), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Free JSON: lone surrogates and NUL included."""


def code(data: bytes) -> str:
    with pytest.raises(InterlockError) as refused:
        jsonio.read(data)
    assert refused.value.status == 400
    assert len(refused.value.detail) < 400
    return refused.value.code


def ordered(value: Any) -> Any:
    """A value whose comparison minds the order of keys."""
    if isinstance(value, dict):
        return [(name, ordered(part)) for name, part in value.items()]
    return [ordered(part) for part in value] if isinstance(value, list) else (type(value), value)


@given(free)
def test_free_json_comes_back_equal_with_its_key_order(value: Any) -> None:
    assert ordered(jsonio.read(jsonio.write(value).encode())) == ordered(value)


@given(free)
def test_what_is_written_is_plain_ascii(value: Any) -> None:
    assert jsonio.write(value).isascii()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\u0000"', "\0"),
        (b'"\\ud800"', "\ud800"),
        (b'"\\ude00\\ud83d"', "\ude00\ud83d"),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"😀é"'.encode(), "😀é"),
        (b"1e308", 1e308),
        (b"-0.0", -0.0),
        (b"5e-324", 5e-324),
        (b"1e-400", 0.0),
        (b"12345678901234567890123456789", 12345678901234567890123456789),
        (b" \t\r\n[1 , 2]\n", [1, 2]),
        (b'{"b":1,"a":2}', {"b": 1, "a": 2}),
        (b'{"":{"":[]}}', {"": {"": []}}),
    ],
)
def test_accepted(text: bytes, value: Any) -> None:
    found = jsonio.read(text)
    assert ordered(found) == ordered(value)
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize("digits", [999, 1_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_up_to_a_thousand_digits(digits: int, sign: str) -> None:
    text = sign + "7" * digits
    assert str(jsonio.read(text.encode())) == text


@pytest.mark.parametrize("digits", [1_001, 4_300, 4_301, 100_000])
@pytest.mark.parametrize("shape", ["{}", "-{}", "[{}]", '{{"a":{}}}'])
def test_longer_integers_are_refused(digits: int, shape: str) -> None:
    assert code(shape.format("7" * digits).encode()) == "malformed_json"


@pytest.mark.parametrize(
    "text",
    [
        b"NaN", b"Infinity", b"-Infinity", b'{"a":NaN}', b"1e999", b"-1e999", b"1" * 400 + b".0", b"nan", b"inf",
        b"", b" ", b"{", b"}", b"[1,]", b'{"a":1,}', b"{'a':1}", b'{"a" 1}', b'{"a":}', b"{a:1}", b"[1 2]", b"1 2",
        b'"', b'"a', b'"\\x"', b'"\\u12"', b"01", b"+1", b".5", b"1.", b"0x10", b"tru", b"None", b"undefined",
        b'"a\nb"', b'"a\x00b"', b"\x00", b"{}\x00", b"/* c */ {}", b"{} // c",
        b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b"\xff", b'"\xed\xa0\x80"', b'"\xc3"', b'"\xc0\xaf"', b'"\xf5\x80\x80\x80"',
    ],
)  # fmt: skip
def test_malformed(text: bytes) -> None:
    assert code(text) == "malformed_json"


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"\\u0061":3}',
        b'[{"x":{"":0,"":0}}]',
        b'{"\\ud800":1,"\\ud800":2}',
        b'{"a":{},"a":[]}',
    ],
)
def test_duplicate_keys(text: bytes) -> None:
    assert code(text) == "duplicate_key"


def test_the_same_key_at_different_places_is_no_duplicate() -> None:
    assert jsonio.read(b'{"a":{"a":[{"a":1},{"a":2}]}}') == {"a": {"a": [{"a": 1}, {"a": 2}]}}


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_depth(pair: str) -> None:
    opening, closing = ("[", "]") if pair == "[]" else ('{"a":', "}")
    deep = opening * 63 + pair + closing * 63
    jsonio.read(deep.encode())
    assert code((opening + deep + closing).encode()) == "malformed_json"
    assert code(opening.encode() * 100_000) == "malformed_json"


def test_brackets_in_strings_and_beside_each_other_are_not_depth() -> None:
    assert jsonio.read(b'["' + b"[{" * 500 + b'\\"' + b"[" * 100 + b'"]')
    assert jsonio.read(b"[" + b"[],{}," * 5_000 + b"0]")


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 65 + b'"' + b'\\"' * 400_000,
        b"[" * 65 + b'"' + b'\\"' * 400_000 + b"\\",
        b'["' + b"[" * 65 + b"\\\\" * 400_000,
        b"[" * 64 + b'"a",' * 200_000,
        b"{" * 65 + b'"' * 900_000,
        b'{"a":' + b'{"a":1},' * 100_000,
    ],
)
def test_hostile_text_is_judged_in_one_pass(text: bytes) -> None:
    began = time.process_time()
    code(text)
    assert time.process_time() - began < 2, "the time must grow with the length, not with its square"


@given(st.binary(max_size=200))
@example(b'{"a":"\\')
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = jsonio.read(data)
    except InterlockError:
        assert code(data) in ("malformed_json", "duplicate_key")
    else:
        assert value == json.loads(data.decode())


@given(free)
def test_sizes_are_those_of_compact_utf8(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert jsonio.size(value) == len(text.encode("utf-8", "surrogatepass"))


@given(free)
def test_equal_bodies_have_one_digest_whatever_the_order(value: Any) -> None:
    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: turned(part[name]) for name in reversed(part)}
        return [turned(item) for item in part] if isinstance(part, list) else part

    assert jsonio.digest(turned(value)) == jsonio.digest(value)


@pytest.mark.parametrize(
    ("one", "two"), [({"a": 1}, {"a": "1"}), ([1, 2], [2, 1]), ({"a": None}, {}), ("é", "e\u0301")]
)
def test_different_bodies_have_different_digests(one: Any, two: Any) -> None:
    assert jsonio.digest(one) != jsonio.digest(two)


@given(st.text(alphabet=st.characters(codec=None)))
def test_clean_text_has_no_lone_surrogates_and_is_otherwise_the_same(text: str) -> None:
    found = jsonio.clean(text)
    found.encode()
    assert len(found) == len(text)
    assert all(
        a == b or (b == "\ufffd" and 0xD800 <= ord(a) <= 0xDFFF) for a, b in zip(text, found, strict=True)
    )


def test_quoted_text_is_short_and_clean() -> None:
    assert jsonio.quoted("a\ud800") == "a\ufffd"
    assert jsonio.quoted("x" * 200) == "x" * 200
    assert jsonio.quoted("x" * 201) == "x" * 200 + "…"


def test_a_path_is_a_json_pointer() -> None:
    assert jsonio.pointer(("artifacts", 3, "a/b~c")) == "artifacts/3/a~1b~0c"
    assert jsonio.pointer(()) == ""
