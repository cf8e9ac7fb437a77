"""Dataclasses to plain JSON and back: nothing changes on the way, nothing mistyped comes in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import FormatError, VersionError
from tokcore.files import jsonable
from tokcore.files.canonical_json import parse_canonical, write_canonical_json
from tokcore.files.jsonable import LEFT_OUT, Place, Read, from_jsonable, require_version, to_jsonable
from tokcore_schemas.refs import LanguageCounts, RangeLedger, RejectRef, ShardRef, StoredFile


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
    stored = write_canonical_json(to_jsonable(value))
    assert from_jsonable(cls, parse_canonical(stored, "ref"), "ref") == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flag": 1}, "file: flag: expected bool, found 1"),
        ({"maybe": "1"}, "file: maybe: expected int, found '1'"),
        ({"maybe": True}, "file: maybe: expected int, found True"),
        ({"inner": {"size": 1.0}}, "file: inner.size: expected int, found 1.0"),
        ({"inner": {}}, "file: inner.size is missing"),
        ({"inner": []}, "file: inner: expected an object, found []"),
        ({"many": {}}, "file: many: expected a list, found {}"),
        ({"many": [{"size": 1}, None]}, "file: many[1]: expected an object, found None"),
        ({"by_name": []}, "file: by_name: expected an object, found []"),
        ({"by_name": {"k": 1}}, "file: by_name.k: expected an object, found 1"),
        ({"more": 1}, "file: unknown field 'more'"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(FormatError) as raised:
        from_jsonable(Outer, {**PLAIN, **change}, "file")
    assert str(raised.value).startswith(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "red"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["size", "name", "k"]), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*PLAIN, "more"]), json_values, max_size=2), st.sets(st.sampled_from([*PLAIN])))
def test_the_quick_reader_gives_what_the_slow_one_does(changes, without):
    value = {name: held for name, held in {**PLAIN, **changes}.items() if name not in without}

    def read(function: Callable[[], Outer]) -> Outer | str:
        try:
            return function()
        except FormatError as error:
            return str(error)

    expected = read(lambda: jsonable._decode(Outer, value, Place("file"), False))
    assert read(lambda: from_jsonable(Outer, value, "file")) == expected
    if isinstance(expected, Outer):
        assert jsonable._make_reader(Outer)(value) == expected
    else:
        with pytest.raises(jsonable._MisfitError):
            jsonable._make_reader(Outer)(value)


def test_a_long_value_is_cut():
    with pytest.raises(FormatError) as raised:
        from_jsonable(Inner, {"size": "x" * 1000}, "file")
    assert len(str(raised.value)) < 130


@pytest.mark.parametrize("value", [0.5, b"bytes", {1, 2}])
def test_what_has_no_json_form_is_a_mistake_of_ours(value):
    with pytest.raises(AssertionError, match="no JSON form"):
        to_jsonable(value)


Held = TypeVar("Held")


@dataclasses.dataclass(frozen=True, slots=True)
class Box(Generic[Held]):
    """Generic: the field that names it says what is in it."""

    held: Held
    more: tuple[Held, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    radius: int


@dataclasses.dataclass(frozen=True, slots=True)
class Square:
    side: int
    colour: Literal["red", "blue"] = dataclasses.field(default="red", metadata=LEFT_OUT)


@dataclasses.dataclass(frozen=True, slots=True)
class Shelf:
    boxes: tuple[Box[Round | Square], ...]
    pair: tuple[int, str]


SHELF = Shelf((Box(Round(1)), Box(Square(2), (Square(3, "blue"),))), (1, "a"))
SHELF_PLAIN = {
    "boxes": [
        {"held": {"radius": 1}, "more": []},
        {"held": {"side": 2}, "more": [{"side": 3, "colour": "blue"}]},
    ],
    "pair": [1, "a"],
}


def test_generic_classes_unions_and_fields_left_out():
    assert to_jsonable(SHELF) == SHELF_PLAIN
    assert from_jsonable(Shelf, SHELF_PLAIN, "file") == SHELF
    assert from_jsonable(Box[int], {"held": 1, "more": [2]}, "file") == Box(1, (2,))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"side": "2"}, "file: boxes[0].held.side: expected int, found '2'"),
        ({"side": 2, "weight": 1}, "file: boxes[0].held: unknown field 'weight'"),
        ({"radius": 2, "colour": 1, "weight": 1}, "file: boxes[0].held: unknown field 'colour'"),
        ({"side": 2, "colour": "green"}, "file: boxes[0].held.colour: expected 'red' or 'blue', found 'green'"),
        ({"side": 2, "colour": []}, "file: boxes[0].held.colour: expected 'red' or 'blue', found []"),
        ({}, "file: boxes[0].held.radius is missing"),
        ([], "file: boxes[0].held: expected an object, found []"),
    ],
)
def test_a_union_is_read_as_what_fits_best(held, message):
    with pytest.raises(FormatError) as raised:
        from_jsonable(Shelf, {**SHELF_PLAIN, "boxes": [{"held": held}]}, "file")
    assert str(raised.value) == message


@pytest.mark.parametrize("pair", [[1], [1, "a", 2], ["a", 1], {}])
def test_a_tuple_of_fixed_length(pair):
    with pytest.raises(FormatError, match="file: pair"):
        from_jsonable(Shelf, {**SHELF_PLAIN, "pair": pair}, "file")


def read_digits(value: Any, place: Place) -> int:
    if not (isinstance(value, str) and value.isdecimal()):
        raise place.error("digits", value)
    return int(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Numbered:
    number: Annotated[int, Read(read_digits)]


def test_a_field_may_have_its_own_reader():
    assert from_jsonable(Numbered, {"number": "12"}, "file") == Numbered(12)
    with pytest.raises(FormatError, match="file: number: expected digits, found 12"):
        from_jsonable(Numbered, {"number": 12}, "file")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    inner: Inner


def test_unknown_fields_are_passed_over_where_a_part_is_asked_for():
    value = {"inner": {"size": 1, "other": 2}, "more": 3}
    assert from_jsonable(Part, value, "file", partial=True) == Part(Inner(1))
    with pytest.raises(FormatError, match="unknown field 'more'"):
        from_jsonable(Part, value, "file")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([], FormatError, "file: expected an object"),
        ({"format": "b", "format_version": 1}, FormatError, "file: format: expected 'a', found 'b'"),
        ({"format": "a", "format_version": 2}, VersionError, "file: format_version 2, this release reads 1"),
        ({"format": "a", "format_version": True}, VersionError, "format_version True"),
        ({"format": "a"}, VersionError, "format_version None"),
    ],
)
def test_other_formats_and_versions_are_refused(value, error, message):
    require_version({"format": "a", "format_version": 1}, "file", "a", 1)
    with pytest.raises(error, match=message):
        require_version(value, "file", "a", 1)
