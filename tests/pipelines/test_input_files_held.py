"""The files that an output holds: found by uri as in a dictionary, whatever their names, in little memory."""

from __future__ import annotations

import dataclasses
import tracemalloc
from array import array

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tokcore_pipelines.history.input_files_held import HeldFile, HeldFiles, PartFiles, make_pin, strip_settings
from tokcore_schemas.plan import InputFile, ReadSettings
from tokcore_schemas.tombstones import Tombstones

JSONL = ReadSettings("jsonl", "none", "text", "", "en", "", "reject", 1 << 20, "", "")
TEXT = dataclasses.replace(JSONL, format="text", unit="line")
# Names of local files that are not UTF-8 hold lone surrogates.
NAMES = st.text(st.one_of(st.characters(), st.sampled_from("a\udc80\ud800é漢")), max_size=8)


def make_part(path: str, *uris: str, version: str = "1", settings: ReadSettings = JSONL) -> PartFiles:
    files = [InputFile(uri, len(uri), version, i % 2) for i, uri in enumerate(uris)]
    return PartFiles(path, files, [settings, dataclasses.replace(settings, lang="de")])


@given(st.lists(st.tuples(NAMES, st.integers(0, 3), st.integers(0, 2**62), NAMES), unique_by=lambda one: one[0]), NAMES)
def test_equals_a_dictionary(files: list[tuple[str, int, int, str]], other: str) -> None:
    expected, parts = {}, []
    for number in range(4):
        mine = [InputFile(uri, size, version, len(uri) % 2) for uri, part, size, version in files if part == number]
        parts.append(PartFiles(f"parts/{number}", mine, [JSONL, TEXT]))
        expected |= {one.uri: HeldFile(f"parts/{number}", one, (JSONL, TEXT)[one.settings]) for one in mine}
    held = HeldFiles(parts)
    assert list(held.items()) == list(expected.items())
    assert len(held) == len(expected)
    assert [held.read_uri(place) for place in range(len(held))] == [*expected]
    assert all(held.find(uri) == place for place, uri in enumerate(expected))
    assert (other in held) == (other in expected)
    assert held.get(other) == expected.get(other)


def test_uris_whose_hashes_are_equal_are_told_apart() -> None:
    part = make_part("parts/a", "x", "y", "z")
    part.hashes = array("q", [hash("y")] * 3)  # as if all three hashed to the same number
    held = HeldFiles([part])
    assert held.find("y") == 1
    part.hashes = array("q", [hash("w")] * 3)
    assert HeldFiles([part]).find("w") is None


def test_what_is_not_there() -> None:
    held = HeldFiles([make_part("parts/a", "x")])
    assert "y" not in held
    assert 5 not in held
    with pytest.raises(KeyError, match="y"):
        held["y"]
    assert not HeldFiles()
    assert "x" not in HeldFiles()


@pytest.mark.parametrize(
    ("change", "is_as_before"),
    [
        ({}, True),
        ({"version": "2"}, False),
        ({"size_bytes": 9}, False),
        ({"settings": 1}, False),
    ],
)
def test_a_file_is_as_before_by_size_version_and_settings(change: dict[str, int], is_as_before: bool) -> None:
    removed = Tombstones("key", ("00",))
    held = HeldFiles([make_part("parts/a", "b"), make_part("parts/b", "x", "c", settings=JSONL)])
    place = held.find("x")
    assert place == 1
    file = dataclasses.replace(InputFile("x", 1, "1", 0), **change)  # type: ignore[arg-type]
    now = [dataclasses.replace(one, removed=removed) for one in held.parts["parts/b"].settings]
    assert held.is_as_before(place, file, strip_settings(now[file.settings])) is is_as_before
    assert (make_pin(file, now[file.settings]) == held["x"].pin) is is_as_before


def test_takes_little_memory() -> None:
    """Else a watcher of a bucket with many files grows by a kilobyte for each."""
    parts = 100
    tracemalloc.start()
    try:
        held = HeldFiles(
            PartFiles(
                f"parts/{number}",
                (InputFile(f"en/day-01/{number:03d}{i:03d}.jsonl", 500, f"etag:{i:032x}", 0) for i in range(100)),
                [JSONL],
            )
            for number in range(parts)
        )
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(held) == 10_000
    assert taken < 10_000 * 150 + parts * 2_000
