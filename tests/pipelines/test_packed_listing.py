"""A packed listing is a dict of the same files, in the order of their paths."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tokcore_pipelines.store import storage
from tokcore_pipelines.store.packed_listing import PackedListing
from tokcore_pipelines.store.pins import Footprint

# Names around the slash, which is what folders end with, and one that is no UTF-8.
NAMES = st.sampled_from(["a", "b", "a-", "a.b", "a0", "é", "\udc80", "", "aa"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def make(paths):
    return {path: Footprint(len(path), number / 7, f"changed_ns:{number}") for number, path in enumerate(paths)}


@given(st.lists(PATHS, unique=True, max_size=20), PATHS)
def test_it_is_a_dict(paths, other):
    expected = make(paths)
    packed = PackedListing(expected.items())
    assert packed == expected
    assert [*packed] == [path for path, _ in packed.list_all()] == sorted(paths)
    assert [packed.find_number(path) for path in sorted(paths)] == [*range(len(paths))]
    assert packed.get(other) == expected.get(other)
    assert (other in packed) == (packed.find_number(other) is not None) == (other in expected)
    below = {path.removeprefix(f"{other}/"): its for path, its in expected.items() if path.startswith(f"{other}/")}
    assert packed.below(other) == below
    assert packed.without(other.__eq__) == {path: its for path, its in expected.items() if path != other}


def test_many_in_any_order():
    expected = make(f"{number % 3}/{number:05d}" for number in range(10_000))
    listed = [*expected.items()]
    random.Random(0).shuffle(listed)
    packed = PackedListing(listed)
    assert [*packed.items()] == sorted(expected.items())
    assert [*packed.below("1")] == [f"{number:05d}" for number in range(1, 10_000, 3)]
    for path in ("", "0", "0/00001", "1/09998", "2/", "9"):
        assert path not in packed


def test_files_of_a_disk_are_listed_in_order(tmp_path):
    paths = ["a-/b", "a.b", "a/b/c", "a/d", "a0/e", "b"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    listed = storage.list_footprints(str(tmp_path))
    assert [*listed] == storage.list_tree(str(tmp_path)) == sorted(paths)
    assert listed["a/b/c"] == storage.read_footprint(f"{tmp_path}/a/b/c")
    assert storage.list_tree(f"{tmp_path}/b") == storage.list_tree(f"{tmp_path}/none") == []
