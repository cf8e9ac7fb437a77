"""Canonical JSON has one byte form, and what is not in it is refused; hashes of files and of what goes into them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokcore.errors import FormatError
from tokcore.files.canonical_json import MAX_DEPTH, Sha256Writer, hash_sha256, parse_canonical, write_canonical_json

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(values)
def test_parse_gives_back_the_value(value):
    data = write_canonical_json(value)
    assert parse_canonical(data, "x") == value
    assert json.loads(data) == value


@given(st.dictionaries(text, values, max_size=5), st.randoms(use_true_random=False))
def test_order_of_keys_is_nothing(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert write_canonical_json(dict(items)) == write_canonical_json(value)


def test_worked_example():
    value = {"b": (1, -2, True, None), "a": "é\u2028\U0001f600\n\x7f/", "A": {}, "\uffff": 0, "\U00010000": 0}
    expected = '{"A":{},"a":"é\u2028\U0001f600\\n\x7f/","b":[1,-2,true,null],"\uffff":0,"\U00010000":0}\n'
    assert write_canonical_json(value) == expected.encode()


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), float("inf"), b"x", {1: 2}, {None: 1}, {"a": 1, 2: 3}, {1, 2}, [[0.5]], {"a": b""}, object()],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match="canonical JSON"):
        write_canonical_json(value)


@pytest.mark.parametrize("value", [np.int64(1), np.float64(1), np.bool_(True)], ids=repr)
def test_numpy_scalars_are_refused(value):
    with pytest.raises(TypeError):
        write_canonical_json({"n": value})


def test_lone_surrogate_is_refused():
    with pytest.raises(UnicodeEncodeError):
        write_canonical_json("\ud800")


def test_depth_is_bounded():
    assert parse_canonical(write_canonical_json(nested(MAX_DEPTH)), "x") == nested(MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper"):
        write_canonical_json(nested(MAX_DEPTH + 1))
    holds_itself: list = [1]
    holds_itself += [holds_itself, holds_itself]
    with pytest.raises(ValueError, match="nested deeper"):
        write_canonical_json(holds_itself)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}",
        b"{}\n\n",
        b" {}\n",
        b"{ }\n",
        b'{"b":1,"a":2}\n',
        b'{"a":1,"a":1}\n',
        b'{"a":1,"a":2}\n',
        b"1.0\n",
        b"1e3\n",
        b"-0\n",
        b"01\n",
        b"NaN\n",
        b"-Infinity\n",
        b'"\\u00e9"\n',
        b'"\\/"\n',
        b'"\\ud800"\n',
        b'"\xff"\n',
        b"\xef\xbb\xbf{}\n",
        '{"a":1}\n'.encode("utf-16"),
        b"[1,]\n",
        b"{}\n{}\n",
        b"{}\n\0",
        b"[" * 100 + b"]" * 100 + b"\n",
        b"[" * 100_000,
        b"9" * 10_000 + b"\n",
        b"'a'\n",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_anything_else_is_not_canonical(data):
    with pytest.raises(FormatError, match=r"^plan\.json: not canonical JSON"):
        parse_canonical(data, "plan.json")


def test_error_says_where():
    with pytest.raises(FormatError, match="byte 5 differs"):
        parse_canonical(b'{"a":\t1}\n', "x")


@given(values, st.data())
@example([0], None)
def test_a_flipped_bit_is_refused_or_another_value(value, data):
    canonical = write_canonical_json(value)
    at = 1 if data is None else data.draw(st.integers(0, len(canonical) - 1))
    bit = 4 if data is None else data.draw(st.integers(0, 7))
    changed = canonical[:at] + bytes([canonical[at] ^ (1 << bit)]) + canonical[at + 1 :]
    with contextlib.suppress(FormatError):
        assert write_canonical_json(parse_canonical(changed, "x")) == changed != canonical


def test_sha256_of_bytes_and_views():
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_sha256(b"abc") == expected
    assert hash_sha256(memoryview(b"xabcx")[1:4]) == expected
    assert hash_sha256(np.frombuffer(b"abc", np.uint8).data) == expected


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_writer_knows_what_went_through(parts):
    file = io.BytesIO()
    inner = Sha256Writer(file)
    outer = Sha256Writer(inner)
    for part in parts:
        assert outer.write(memoryview(part)) == len(part)
    whole = b"".join(parts)
    assert file.getvalue() == whole
    for writer in (inner, outer):
        assert (writer.size_bytes, writer.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())


def test_writer_counts_bytes_not_items():
    writer = Sha256Writer(io.BytesIO())
    writer.write(np.arange(3, dtype="<i4").data)
    assert writer.size_bytes == 12
    assert writer.sha256 == hash_sha256(np.arange(3, dtype="<i4").tobytes())
