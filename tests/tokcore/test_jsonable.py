"""Dataclasses to plain JSON and back: nothing changes on the way, nothing mistyped comes in."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.refs import LanguageCounts, RangeLedger, RejectRef, ShardRef, StoredFile
from tokcore.canonical import canonical_json, parse_canonical
from tokcore.errors import FormatError
from tokcore.jsonable import from_jsonable, to_jsonable


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    size: int
    name: str = "x"


@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    by_name: dict[str, Inner]
    flag: bool
    maybe: int | None
    anything: Any = None


OUTER = Outer(Inner(1), (Inner(2, "y"),), {"k": Inner(3)}, True, None, {"free": [1, "a"]})
PLAIN = {
    "inner": {"size": 1, "name": "x"},
    "many": [{"size": 2, "name": "y"}],
    "by_name": {"k": {"size": 3, "name": "x"}},
    "flag": True,
    "maybe": None,
    "anything": {"free": [1, "a"]},
}


def test_there_and_back():
    assert to_jsonable(OUTER) == PLAIN
    assert from_jsonable(Outer, PLAIN, "file") == OUTER


def test_a_field_with_a_default_may_be_missing():
    assert from_jsonable(Inner, {"size": 1}, "file") == Inner(1)


@pytest.mark.parametrize("cls", [StoredFile, LanguageCounts, RangeLedger, RejectRef, ShardRef])
@given(st.data())
def test_refs_survive_canonical_bytes(cls, data):
    value = data.draw(st.builds(cls))
    stored = canonical_json(to_jsonable(value))
    assert from_jsonable(cls, parse_canonical(stored, "ref"), "ref") == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flag": 1}, "file.flag: expected bool, found 1"),
        ({"maybe": "1"}, "file.maybe: expected int, found '1'"),
        ({"maybe": True}, "file.maybe: expected int, found True"),
        ({"inner": {"size": 1.0}}, "file.inner.size: expected int, found 1.0"),
        ({"inner": {}}, "file.inner: field 'size' is missing"),
        ({"inner": []}, "file.inner: expected an object, found list"),
        ({"many": {}}, "file.many: expected tuple"),
        ({"many": [{"size": 1}, None]}, "file.many[1]: expected an object, found NoneType"),
        ({"by_name": []}, "file.by_name: expected dict"),
        ({"by_name": {"k": 1}}, "file.by_name.k: expected an object, found int"),
        ({"more": 1}, "file: unknown field 'more'"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(FormatError) as raised:
        from_jsonable(Outer, {**PLAIN, **change}, "file")
    assert str(raised.value).startswith(message)


def test_a_long_value_is_cut():
    with pytest.raises(FormatError) as raised:
        from_jsonable(Inner, {"size": "x" * 1000}, "file")
    assert len(str(raised.value)) < 130


@pytest.mark.parametrize("value", [0.5, b"bytes", {1, 2}])
def test_what_has_no_json_form_is_a_mistake_of_ours(value):
    with pytest.raises(AssertionError, match="no JSON form"):
        to_jsonable(value)
